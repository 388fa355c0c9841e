"""The rules as Warp kernels: movement, retreats, adjustments."""
