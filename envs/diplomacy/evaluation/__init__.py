"""Evaluation and replays of Diplomacy."""

from sparring.configs.core.parts import CommandPlace

REPLAY = CommandPlace(
    "sparring.eval.diplomacy_replay", "a game of Diplomacy on the map", order=12, needs=("sparring.configs.language",)
)
