"""Part of `benchmarks/structure.py`."""
