"""Two fighters, guns and gravity: the rules as data, the simulator as kernels, and its four faces.

`batch.py` is the native face that trainers use; `vector.py`, `env.py` and `parallel.py` show the same matches through
gymnasium and PettingZoo. Nothing is imported here, so the rules can be read without loading the simulator.
"""
