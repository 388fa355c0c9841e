"""Diplomacy measurements of `sparring bench`: the simulator."""

from __future__ import annotations

from collections.abc import Callable

from sparring.eval.bench.speed import Speed

GAMES = 4096
LAST_YEAR = 1906


def diplomacy_work() -> Callable[[], int]:
    """Return a function that plays a phase of random orders in all games and returns the number of phases."""
    from sparring.envs.diplomacy.batch import DiplomacyBatch

    batch, turn = DiplomacyBatch(GAMES, last_year=LAST_YEAR, threads=1), 0

    def phase() -> int:
        nonlocal turn
        if bool(batch.done.all()):
            batch.reset()
        turn += 1
        going = int((batch.done == 0).sum())
        batch.draw_orders(turn)
        batch.process()
        return going

    return phase


SPEEDS = (Speed("Diplomacy, 4,096 games, whole loop, 1 core", "phases/s", diplomacy_work, ((100_433, "AMD EPYC"),)),)
