"""Engines that value chess positions: Stockfish over UCI, or the built-in search where it is missing."""

from sparring.envs.chess.package import check_package

check_package()
