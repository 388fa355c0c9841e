"""Measure attacks in few games."""

from tests.eval.exploitability.few_games import few_fresh_games  # noqa: F401
