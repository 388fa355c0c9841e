"""Train in a game for half a minute in a discarded run, with a witness that records who played.

The witness is an opponent that receives the match and the seat. Its observations are compared with the run's log: it
must have played where the log names it, and the learner must have played every seat.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sparring.agents.callbacks import Callback, RunProgress
from sparring.agents.trainers import train_run
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import forget_opponent, register_opponent
from sparring.envs.imported.evaluation.conformance import FIX, NOTE, OK, CheckLine
from sparring.envs.imported.evaluation.policy import ImportedGame
from sparring.envs.imported.masks import draw_legal

WITNESS = "check_witness"
MATCHES = 16
"""Matches at once, or a few more, to play every seat equally often."""
SHARE = 0.5
"""Share of the matches against the witness: at least two matches, to let it play every seat."""
ENOUGH = 4
"""Updates in which every opponent has played."""
ENOUGH_RATES = 10
"""Updates with a win rate, of a few matches each, from which their mean is shown."""
WINS = f"rollout/{WITNESS}/win_rate"
GUARD = ("guard/quarantined_matches", "guard/skipped_steps", "guard/restored_updates", "guard/rollbacks")


class Witness:
    """Opponent that plays at random and counts its decisions by seat."""

    def __init__(self) -> None:
        self.seats: Counter[int] = Counter()
        self._random = np.random.default_rng(0)

    def choose(self, match: Any, seat: int) -> Any:
        """Return a legal action of `seat`."""
        self.seats[seat] += 1
        return draw_legal(match.action_spaces[seat], match.mask(seat), self._random)


class TrialLog(Callback):
    """Metrics of every update, until `seconds` have passed."""

    def __init__(self, seconds: float) -> None:
        self.metrics: list[dict[str, float]] = []
        self.env_steps = 0
        self._end = time.monotonic() + seconds

    def on_update(self, run: RunProgress, metrics: Mapping[str, float]) -> bool:
        """Keep the metrics; stop the run when the time is over."""
        self.metrics.append(dict(metrics))
        self.env_steps = run.env_steps
        return time.monotonic() > self._end


def try_training(game: ImportedGame, seconds: float, seed: int) -> list[CheckLine]:
    """Train for about `seconds`, at most one update more, and compare the log with the witness's record."""
    match = game.match()
    seats = len(match.seats)
    match.close()
    witness, log = Witness(), TrialLog(seconds)
    register_opponent(WITNESS)(witness)
    with TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        options = {
            "env": game.package,
            "env.id": game.id,
            "env.num_envs": max(-(-MATCHES // seats), 2) * seats,
            **{f"env.kwargs.{key}": value for key, value in game.kwargs.items()},
            "env.observation": game.observation,
            "env.outcome": game.outcome,
            "env.roles": list(game.roles),
            "against": WITNESS,
            "phases.0.scripted_start": SHARE,
            "phases.0.scripted_end": SHARE,
            "name": "trial",
            "checkpoint_dir": folder,
            "seed": seed,
            "self_play.snapshot_every": 1,
            "evaluation.every": 0,
            "logger.progress": False,
        }
        try:
            policy = train_run(None, options, callbacks=[log])
        except InputError as error:
            return [CheckLine("training", FIX, str(error))]
        finally:
            forget_opponent(WITNESS)
        snapshots = len(list((Path(policy).parent / "pool").glob("*.pt")))
    return list(_lines(log, witness, seats, snapshots))


def _lines(log: TrialLog, witness: Witness, seats: int, snapshots: int) -> Iterator[CheckLine]:
    last = log.metrics[-1]
    rate = last.get("time/steps_per_second", 0.0)
    won = _wins_in_halves(log.metrics)
    yield CheckLine(
        "training", OK, f"{log.env_steps:,} decisions in {len(log.metrics)} updates, {rate:,.0f} a second{won}"
    )
    share = last.get("time/simulator_share", 0.0)
    if share > 0.7:
        yield CheckLine(
            "training", NOTE, f"{share:.0%} of the time is spent in the game: env.workers=N steps it in N processes"
        )
    yield from _opponents(log, witness, seats)
    grown = int(max(row.get("league/pool_size", 0.0) for row in log.metrics))
    if len(log.metrics) > 1 and min(grown, snapshots) < 2:
        yield CheckLine("pool", FIX, f"it holds {snapshots} snapshots after {len(log.metrics)} updates, and must grow")
    else:
        yield CheckLine("pool", OK, f"it grew to {grown} snapshots, and as many files: {snapshots}")
    if faults := {key: value for key, value in last.items() if key in GUARD and value}:
        text = ", ".join(f"{key} {value:g}" for key, value in faults.items())
        yield CheckLine("training", NOTE, f"the guard intervened: {text}; see the stability docs, or scale rewards")


def _wins_in_halves(metrics: list[dict[str, float]]) -> str:
    """Return the mean win rates against the witness in both halves of the trial, empty where few updates have one."""
    halves = metrics[: len(metrics) // 2], metrics[len(metrics) // 2 :]
    rates = [[row[WINS] for row in half if WINS in row] for half in halves]
    if min(map(len, rates)) < ENOUGH_RATES:
        return ""
    first, second = map(np.mean, rates)
    return f"; wins against random play: {first:.0%} in the first half, {second:.0%} in the second"


def _opponents(log: TrialLog, witness: Witness, seats: int) -> Iterator[CheckLine]:
    """Compare the opponents in the log with those that played."""
    logged = {
        key.split("/")[1] for row in log.metrics for key in row if key.startswith("rollout/") and key.count("/") == 2
    }
    played = sum(witness.seats.values())
    if not played or WITNESS not in logged:
        early = len(log.metrics) < ENOUGH
        hint = "give the trial more seconds" if early else "let matches end sooner"
        yield CheckLine(
            "opponents",
            NOTE if early else FIX,
            f"the opponent {WITNESS} made {played} decisions and the log names {', '.join(sorted(logged)) or 'none'}: "
            f"no match against it ended in {len(log.metrics)} updates; {hint}",
        )
        return
    names = ", ".join(sorted(name for name in logged if name != WITNESS))
    yield CheckLine("opponents", OK, f"a witness named in the log made {played:,} decisions; other opponents: {names}")
    counts = [witness.seats[seat] for seat in range(seats)]
    if min(counts) == 0:
        idle = ", ".join(str(seat) for seat, count in enumerate(counts) if not count)
        early = len(log.metrics) < ENOUGH
        hint = f"in {len(log.metrics)} updates; give the trial more seconds" if early else "does it ever act?"
        yield CheckLine("seats in training", NOTE if early else FIX, f"opponents never decided in seat {idle}: {hint}")
    else:
        yield CheckLine(
            "seats in training", OK, f"opponents decided {' / '.join(f'{n:,}' for n in counts)} times by seat"
        )
