"""Recipes of self-play side by side, measured by best responses."""
