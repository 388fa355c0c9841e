"""Whole games for language models: play, imitation and training, combined in `task.py`."""
