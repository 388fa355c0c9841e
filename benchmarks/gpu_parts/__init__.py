"""The parts of `benchmarks/gpu.py`, a module each: what is measured and checked on one device."""
