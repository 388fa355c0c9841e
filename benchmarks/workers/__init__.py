"""Tasks of the executor: games a second of some workers, measured, and of many, simulated from recorded tasks."""
