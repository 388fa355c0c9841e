"""PettingZoo and OpenSpiel games as batches of matches with one or more policies in any seats.

`match.py` defines one match, implemented per package; `batch.py` steps N of them as numeric rows (`rows.py`).
"""
