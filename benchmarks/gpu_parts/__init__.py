"""The parts of `benchmarks/gpu.py`, a module each: measurements and checks on one device."""
