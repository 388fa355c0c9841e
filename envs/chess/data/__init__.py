"""Data of the chess tasks: games, splits by game, samples with engine labels, and their files."""
