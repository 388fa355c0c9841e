"""The rules as Warp kernels: movement, retreats, adjustments and the calendar."""
