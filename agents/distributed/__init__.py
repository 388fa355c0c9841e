"""Several processes and threads, and random numbers that do not depend on how many."""
