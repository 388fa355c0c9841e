"""The wheel and the sdist, built in a clean clone and used without a repository."""
