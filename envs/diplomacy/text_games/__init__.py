"""Whole games for language models: play, imitation and training, combined in `text_game.py`."""
