"""The map and the state of a game: codes, tables, tensors, positions."""
