"""Scores of positions and rewards of decisions."""
