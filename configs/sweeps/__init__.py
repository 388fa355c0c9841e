"""Sweeps: the runs of a grid or of a file in `configs/sweep/`, composed and checked before the first one starts."""
