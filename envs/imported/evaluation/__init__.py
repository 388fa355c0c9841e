"""Evaluation of policies in PettingZoo and OpenSpiel games."""

from sparring.configs.core.parts import CommandPlace

CHECK = CommandPlace("sparring.eval.check", "check a PettingZoo or OpenSpiel game before training", order=6)
