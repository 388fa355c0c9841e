"""Destinations of a run's logs outside its own files, and videos drawn beside training."""
