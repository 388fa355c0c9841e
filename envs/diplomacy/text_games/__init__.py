"""Whole games for language models: to play, to imitate, to learn from; `text_game.py` has all of it."""
