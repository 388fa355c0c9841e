"""Seven powers on the map of Europe: the standard board as data (`standard_map.txt`) and as arrays (`board.py`)."""
