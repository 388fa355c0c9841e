"""The simulator: Warp kernels and their device functions."""
