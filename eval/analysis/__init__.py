"""Analysis of recorded runs: four sources behind one protocol, and the commands that read them."""

from sparring.configs.core.parts import CommandPlace

COMMAND = CommandPlace("sparring.eval.runs", "recorded runs: list, search, metrics, health", trains=False, order=13)
SEEDS = CommandPlace("sparring.eval.seeds", "several seeds as one result", order=9)
CURVES = CommandPlace("sparring.eval.curves", "learning curves of several runs", order=10)
