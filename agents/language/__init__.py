"""Language models as players: prompts in, legal orders out, with the exact probability of what was chosen.

`backend` defines requests and decisions; `decoding` restricts answers to legal orders; `policy` plays in environments;
`models` builds and loads models and adapters.
"""
