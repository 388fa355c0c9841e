"""Engines that value chess positions: Stockfish over UCI, or the built-in search where it is missing."""
