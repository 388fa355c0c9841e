"""Games of other packages, PettingZoo and OpenSpiel, as batches of matches in which any seats may be played.

`match.py` is one match, by the adapter of its package; `batch.py` steps N of them as rows of numbers (`rows.py`).
"""
