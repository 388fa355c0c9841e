"""Ratings of the learner and of everything it plays, bots and snapshots alike.

Elo's model: the share of points expected against an opponent is 1 / (1 + 10^((theirs - mine) / 400)), and after a
result both sides move by K (score - expected), in opposite directions, so the sum of all ratings never changes.
Source: A. Elo, "The Rating of Chessplayers, Past and Present" (1978).

A batch of hundreds of games against one opponent counts as a single result with a fractional score. Played out game by
game it would throw the rating about by K times the noise of the last few games, in an order that batched matches do
not have; K times the number of games would overshoot. So a batch moves nobody by more than K per pairing, and the gap
to the true difference shrinks by a constant factor, with less noise the more games there are.
"""

from __future__ import annotations

from collections.abc import Mapping


def expected(mine: float, theirs: float) -> float:
    """Return the share of points, in (0, 1), that a player rated `mine` is expected to take from one rated `theirs`."""
    return 1.0 / (1.0 + 10.0 ** ((theirs - mine) / 400.0))


class Ratings:
    """The learner's rating and one per opponent name. New opponents enter at `start` unless told otherwise."""

    def __init__(self, k: float = 32.0, start: float = 1000.0) -> None:
        self.k = k
        self.start = start
        self.learner = start
        self.opponents: dict[str, float] = {}

    def enter(self, name: str, rating: float | None = None) -> None:
        """Rate a new opponent; a snapshot enters with the learner's rating, being the learner of that moment."""
        self.opponents[name] = self.start if rating is None else rating

    def leave(self, name: str) -> None:
        """Forget an opponent that is no longer met, such as an evicted snapshot."""
        self.opponents.pop(name, None)

    def update(self, results: Mapping[str, tuple[int, int, int]]) -> None:
        """Move the learner and its opponents by the learner's (wins, draws, losses) against each of them.

        Opponents are taken one after another in order of their names: each pairing then starts from ratings that
        already know of the others, which stays stable however many opponents a batch has. No games, no change.
        """
        for name in sorted(results):
            wins, draws, losses = results[name]
            games = wins + draws + losses
            if games > 0:
                self._result(name, (wins + 0.5 * draws) / games)

    def _result(self, name: str, score: float) -> None:
        theirs = self.opponents.setdefault(name, self.start)
        change = self.k * (score - expected(self.learner, theirs))
        self.learner += change
        self.opponents[name] = theirs - change
