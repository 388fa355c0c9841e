"""The scripted opponents, as Warp kernels."""
