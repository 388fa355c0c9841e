"""The simulator as Warp kernels."""
