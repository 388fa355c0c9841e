"""Analysis of recorded runs: four sources behind one protocol, and the commands that read them."""

from sparring.configs.core.parts import CommandPlace

COMMAND = CommandPlace("sparring.eval.runs", "recorded runs: list, search, metrics, health", trains=False, order=13)
CURVES = CommandPlace("sparring.eval.curves", "learning curves of several runs", order=10)
