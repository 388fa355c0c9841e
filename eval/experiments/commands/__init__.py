"""Commands of `eval/runs.py`, one module per group."""
