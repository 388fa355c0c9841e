"""The flight models in float64 NumPy: what the kernels are tested against, and how a start in trim is found."""
