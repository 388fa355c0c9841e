"""A server as a backend: vLLM, or any other that speaks OpenAI's protocol.

`backend` is what plays; `trial` and `exact` find out whether its log-probabilities can be learned from; `ask`, `answer`
and `http` are what goes over the wire, `retry`, `failure` and `key` what can go wrong with it.
"""
