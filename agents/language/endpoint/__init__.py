"""A server as a backend: vLLM, or any other with OpenAI's protocol.

`backend` plays; `request` writes what a server is asked; `http`, `retry` and `key` send it, `answer` reads what comes
back, and `exactness` tests if its log-probabilities are exact.
"""
