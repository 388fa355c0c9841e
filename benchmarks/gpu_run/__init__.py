"""Registry, processes and report of the parts of `benchmarks/gpu.py`."""
