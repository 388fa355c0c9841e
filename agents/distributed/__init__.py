"""Data-parallel processes and threads, with random numbers that do not depend on their number."""
