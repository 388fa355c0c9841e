"""The wheel and the sdist, built in a clean clone, and used where there is no repository."""
