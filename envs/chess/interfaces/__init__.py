"""Gymnasium and PettingZoo environments of chess; importing them needs python-chess."""

from sparring.envs.chess import check_package

check_package()
