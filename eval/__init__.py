"""Evaluation: seat-swapped pairs of matches, tables with confidence intervals, replays, ONNX export."""

from sparring.configs.core.parts import CommandPlace

PLAY = CommandPlace(
    "sparring.eval.play", "fly against the released policy; with options any player, in any game", order=1
)
EVAL = CommandPlace("sparring.eval.run", "wins, draws and losses with intervals; replays", order=5)
PAYOFF = CommandPlace("sparring.eval.payoff", "a run's snapshots against each other", order=8)
EXPORT = CommandPlace("sparring.eval.export", "a policy as ONNX", order=11)
