"""How the parts of `benchmarks/gpu.py` are listed, run in processes of their own, and reported."""
