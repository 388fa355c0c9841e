"""Seat-swapped evaluation: one player against several opponents, or a round robin, over physics regimes.

Every cell (an opponent under a regime) is one batch of games from the same seed, so all opponents face the player
from the same starting states, and the same call gives the same records, from any number of processes: a cell is a task
of an executor. A cell that cannot be played correctly raises an error; it never becomes a row of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from tqdm import tqdm

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.opponents.dogfight.load import Entrant
from sparring.agents.opponents.dogfight.planner import PlannerPlayer
from sparring.agents.play.dogfight_matches import Contestant, MatchResults, MatchSettings, play
from sparring.agents.policies.policy import Policy
from sparring.configs.core.device import HERE, Executor
from sparring.configs.core.errors import InputError
from sparring.curriculum.score import SCORES, GameCounts, count_pairs
from sparring.curriculum.sprt import Hypotheses, SPRTVerdict, judge
from sparring.envs.dogfight.recording import Recorder, Recording
from sparring.envs.dogfight.rules import ACTION_REPEAT, HELD_OUT, TICKS_PER_SECOND, ranges
from sparring.eval.command import cell_key
from sparring.eval.stats.tables import MatchRecord, record_of

Pair = tuple[Entrant, Entrant]
FILES = (".pt", ".onnx")
"""Players whose games can be kept: their file says all about them, which code and statistics beside a zip do not."""
OPEN_END = "{desc}; {n_fmt} of at most {total_fmt} games [{elapsed}, {rate_noinv_fmt}]"
"""Bar format without percentage and remaining time, for work that usually ends long before its maximum."""


@dataclass(frozen=True)
class ArenaPlan:
    """Settings of every cell: an even number of games from `seed`, under `setting` in each of `regimes`."""

    regimes: Sequence[str]
    games: int
    seed: int
    setting: MatchSettings
    progress: bool = False
    """Show a progress bar on stderr."""
    executor: Executor = HERE
    """Who plays the cells."""
    kept: Path | None = None
    """File of the cells played so far, for a command that is killed and given again."""

    @property
    def bar(self) -> dict[str, Any]:
        """Options of the bar over cells."""
        return {"label": Cell.__str__, "unit": "cell", "quiet": not self.progress}


@dataclass(frozen=True)
class Cell:
    """Games of one pair under one regime of a plan; if `filmed`, the first of them is recorded."""

    pair: Pair
    regime: str
    plan: ArenaPlan
    filmed: bool = False

    def __str__(self) -> str:
        return f"{self.pair[0].name} vs {self.pair[1].name}, {self.regime}"

    @property
    def key(self) -> str:
        """Name under which the record is kept; empty if it depends on code or files that may have changed."""
        conditions: dict[str, Any] = {"games": self.plan.games, "seed": self.plan.seed, "regime": self.regime}
        conditions["setting"] = asdict(replace(self.plan.setting, threads=0))
        files: list[Path] = []
        for side, entrant in zip(("left", "right"), self.pair, strict=True):
            conditions[side] = [entrant.name]
            if isinstance(entrant.contestant, Policy) and entrant.name not in HELD_OUT:
                if entrant.path is None or entrant.path.suffix not in FILES:
                    return ""
                conditions[side] += [entrant.contestant.contract, entrant.contestant.deterministic]
                files.append(entrant.path)
        return cell_key(conditions, files)


class EvaluationError(InputError):
    """Raised for games that cannot be played or are invalid; the message is a one-line reason."""


def make_setting(
    contestants: Iterable[Contestant],
    *,
    rules: str | None = None,
    bot_rate: str | None = None,
    device: str = "cpu",
    threads: int = 0,
) -> MatchSettings:
    """Return match settings valid for all contestants.

    `rules` and the length of a step default to those of the first policy that states them, `bot_rate` to that of the
    rules. Raises `EvaluationError` for bots that decide every tick under challenge rules, and `PolicyError` for an
    incompatible policy.
    """
    policies = [contestant for contestant in contestants if isinstance(contestant, Policy)]
    first = next((policy.contract for policy in policies if "rules" in policy.contract), {})
    rules = rules or str(first.get("rules", "classic"))
    if rules == "challenge" and bot_rate == "tick":
        raise EvaluationError("bot_rate=tick: under challenge rules bots decide as often as policies; use agent")
    setting = MatchSettings(
        rules=rules,
        action_repeat=first.get("action_repeat", ACTION_REPEAT),
        bot_rate=bot_rate or ("agent" if rules == "challenge" else "tick"),
        # Policies without physics parameters use the first floats of the longer observation.
        observe_physics=any(policy.contract["observe_physics"] for policy in policies),
        device=device,
        threads=threads,
    )
    _check_policies(policies, setting)
    return setting


def evaluate(
    player: Entrant, opponents: Sequence[Entrant], plan: ArenaPlan, *, record: bool = False
) -> tuple[list[MatchRecord], list[Recording]]:
    """Play `player` against every opponent under every regime.

    Returns the records, regime by regime, and if `record` is set the first game against each opponent under the first
    regime. Raises `EvaluationError` for non-finite actions.
    """
    cells = [
        Cell((player, opponent), regime, plan, filmed=record and regime == plan.regimes[0])
        for regime in plan.regimes
        for opponent in opponents
    ]
    kept = KeptResults[Any](plan.kept, tuple[MatchRecord, list[Any]]) if plan.kept else None
    keys = ["" if cell.filmed else cell.key for cell in cells] if kept else ()
    played = finish_tasks(_film, cells, plan.executor, kept=kept, keys=keys, **plan.bar)
    return [one for one, _ in played], [recording for _, recordings in played for recording in recordings]


def ladder(entrants: Sequence[Entrant], plan: ArenaPlan) -> list[MatchRecord]:
    """Play every pair once under every regime; return two records per pair, one from each player's side."""
    cells = [Cell(pair, regime, plan) for regime in plan.regimes for pair in combinations(entrants, 2)]
    kept = KeptResults[MatchRecord](plan.kept, MatchRecord) if plan.kept else None
    keys = [cell.key for cell in cells] if kept else ()
    records = finish_tasks(_play_alone, cells, plan.executor, kept=kept, keys=keys, **plan.bar)
    return [side for record in records for side in (record, record.mirrored())]


def sequential(pair: Pair, plan: ArenaPlan, hypotheses: Hypotheses, max_games: int) -> tuple[SPRTVerdict, GameCounts]:
    """Play batches of `plan.games` new games until the test is decided or `max_games` are played; count the games."""
    pairs, counts = np.zeros(len(SCORES), dtype=np.int64), np.zeros(3, dtype=np.int64)
    low, high = hypotheses.bounds
    kept = KeptResults[list[list[int]]](plan.kept, list[list[int]]) if plan.kept else None
    stored = kept.read() if kept else {}
    with tqdm(total=max_games, unit=" games", bar_format=OPEN_END, disable=not plan.progress) as bar:
        for batch in range(max(max_games // plan.games, 1)):
            part = Cell(pair, plan.regimes[0], replace(plan, seed=(plan.seed + batch) % 2**31))
            key = part.key if kept else ""
            if key not in stored:
                results = _play(pair, part.regime, part.plan)
                stored[key] = [count_pairs(results.outcome).tolist(), np.asarray(results.counts).tolist()]
                if kept and key:
                    kept.add(key, stored[key])
            played = stored[key] if key else stored.pop(key)
            pairs += np.array(played[0])
            counts += np.array(played[1])
            verdict = judge(pairs.tolist(), hypotheses)
            names = f"{pair[0].name} vs {pair[1].name}"
            bar.set_description_str(f"{names}: LLR {verdict.llr:.2f}, ends at {low:.2f} or {high:.2f}")
            bar.update(plan.games)
            if verdict.accepted:
                break
    if kept:
        kept.discard()
    wins, draws, losses = counts.tolist()
    return verdict, GameCounts((wins, draws, losses))


def play_cell(pair: Pair, regime: str, plan: ArenaPlan, recorder: Recorder | None = None) -> MatchRecord:
    """Play the games of one pair under one regime. Raises `EvaluationError` for non-finite actions."""
    results = _play(pair, regime, plan, recorder)
    return record_of(pair[0].name, pair[1].name, regime, results, TICKS_PER_SECOND)


def _play(pair: Pair, regime: str, plan: ArenaPlan, recorder: Recorder | None = None) -> MatchResults:
    left, right = pair
    setting = replace(plan.setting, ranges=ranges(regime), trace=recorder.games if recorder else 0)
    first, second = left.contestant, right.contestant
    if isinstance(first, PlannerPlayer):
        first = first.against(second, games=plan.games, seed=plan.seed, setting=setting)
    elif isinstance(second, PlannerPlayer):
        second = second.against(first, games=plan.games, seed=plan.seed, setting=setting, left=False)
    results = play(first, second, games=plan.games, seed=plan.seed, setting=setting, recorder=recorder)
    if results.invalid_actions:
        count = results.invalid_actions
        raise EvaluationError(f"{left.name} against {right.name}: {count} actions were not finite; the games are void")
    return results


def _check_policies(policies: Iterable[Policy], setting: MatchSettings) -> None:
    """Check before any game that every policy is compatible with `setting`."""
    batch = setting.batch(2)
    try:
        for policy in policies:
            policy.check(batch.contract)
    finally:
        batch.close()


def _play_alone(cell: Cell, bar: tqdm[NoReturn]) -> MatchRecord:
    return play_cell(cell.pair, cell.regime, cell.plan)


def _film(cell: Cell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[Recording]]:
    recorder = Recorder(1) if cell.filmed else None
    record = play_cell(cell.pair, cell.regime, cell.plan, recorder)
    names = {"left": record.player, "right": record.opponent}
    rules = cell.plan.setting.rules
    return record, recorder.recordings(**names, rules=rules, regime=cell.regime) if recorder else []
