"""Language models as players: prompts in, legal orders out, with the exact probability of what was chosen.

`backend` says what a model is asked and answers; `trie` and `constraint` let through legal orders alone; `policy`
plays; `models` makes models and adapters.
"""
