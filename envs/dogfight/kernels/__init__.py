"""The simulator: Warp kernels and the functions they are made of."""
