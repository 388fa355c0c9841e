"""Air combat in three dimensions: two flight models, a gun, scripted pilots, and batches of matches in kernels.

`airframe/` has the data, `reference/` the models in float64 NumPy, `kernels/` the simulator.
"""
