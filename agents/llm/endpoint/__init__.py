"""A server as a backend: vLLM, or any other with OpenAI's protocol.

`backend` plays; `probe` and `logprob_check` test if its log-probabilities are exact; `ask`, `answer` and `http` handle
requests and answers; `retry`, `failure` and `key` handle retries, errors and the key.
"""
