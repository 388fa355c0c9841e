"""Evaluation of policies of imported games, those of PettingZoo and OpenSpiel."""

from sparring.configs.core.parts import CommandPlace

CHECK = CommandPlace("sparring.eval.check", "check a game of PettingZoo or OpenSpiel before it is learned", order=6)
