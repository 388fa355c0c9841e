"""Engines that value chess positions: Stockfish over UCI, or the built-in search where it is missing."""

from sparring.envs.chess import check_package

check_package()
