"""Seat-swapped evaluation: one player against several opponents, or everyone against everyone, over physics regimes.

Every cell (an opponent under a regime) is one batch of games from the same seed, so all opponents meet the player at
the same starts, and the same call gives the same records. A cell that could not be played properly is an error, never
a row of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from tqdm import tqdm

from sparring.agents.play.matches import Contestant, MatchResults, MatchSettings, play
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings.sprt import SCORES, Hypotheses, SPRTVerdict, count_pairs, judge
from sparring.envs.dogfight.rules import ACTION_REPEAT, TICKS_PER_SECOND, ranges
from sparring.eval.command import show_cells
from sparring.eval.dogfight.players import Entrant
from sparring.eval.dogfight.replay import Recorder, Recording
from sparring.eval.stats.tables import Counts, MatchRecord

Pair = tuple[Entrant, Entrant]
OPEN_END = "{desc}; {n_fmt} of at most {total_fmt} games [{elapsed}, {rate_noinv_fmt}]"
"""A bar of what usually ends long before its maximum: without a share that is done, and without a time that is left."""


@dataclass(frozen=True)
class ArenaPlan:
    """How every cell is played: an even number of games from `seed`, under `setting` in each of `regimes`."""

    regimes: Sequence[str]
    games: int
    seed: int
    setting: MatchSettings
    progress: bool = False
    """Whether to show a bar with the time left on stderr."""


class EvaluationError(InputError):
    """Games that cannot be played or do not count; the message is one line saying why."""


def make_setting(
    contestants: Iterable[Contestant],
    *,
    rules: str | None = None,
    bot_rate: str | None = None,
    device: str = "cpu",
    threads: int = 0,
) -> MatchSettings:
    """The conditions all contestants can play under.

    `rules` and the length of a step default to the first policy's, `bot_rate` to what the rules say. Raises
    `EvaluationError` for bots that decide every tick under challenge rules, and `PolicyError` for a policy that does
    not fit.
    """
    policies = [contestant for contestant in contestants if isinstance(contestant, Policy)]
    first = policies[0].contract if policies else {}
    rules = rules or str(first.get("rules", "classic"))
    if rules == "challenge" and bot_rate == "tick":
        raise EvaluationError("bot_rate=tick: under challenge rules bots decide as often as policies; use agent")
    setting = MatchSettings(
        rules=rules,
        action_repeat=first.get("action_repeat", ACTION_REPEAT),
        bot_rate=bot_rate or ("agent" if rules == "challenge" else "tick"),
        # Policies that see less look at the first floats of the longer observation.
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

    Returns the records, regime by regime, and where `record` is set the first game against each opponent under the
    first regime. Raises `EvaluationError` where actions were not finite.
    """
    cells = [(regime, (player, opponent)) for regime in plan.regimes for opponent in opponents]
    records, recordings = [], []
    for regime, pair in _shown(cells, plan):
        recorder = Recorder(1) if record and regime == plan.regimes[0] else None
        records.append(play_cell(pair, regime, plan, recorder))
        if recorder is not None:
            names = {"left": player.name, "right": pair[1].name}
            recordings += recorder.recordings(**names, rules=plan.setting.rules, regime=regime)
    return records, recordings


def ladder(entrants: Sequence[Entrant], plan: ArenaPlan) -> list[MatchRecord]:
    """Play every pair once under every regime; returns each pair's record as either of the two sees it."""
    pairs = list(combinations(entrants, 2))
    cells = [(regime, pair) for regime in plan.regimes for pair in pairs]
    records = []
    for regime, pair in _shown(cells, plan):
        record = play_cell(pair, regime, plan)
        records += [record, record.mirrored()]
    return records


def sequential(pair: Pair, plan: ArenaPlan, hypotheses: Hypotheses, max_games: int) -> SPRTVerdict:
    """Play `plan.games` at a time, always new ones, until the test has its answer or `max_games` are played."""
    pairs = np.zeros(len(SCORES), dtype=np.int64)
    low, high = hypotheses.bounds
    with tqdm(total=max_games, unit=" games", bar_format=OPEN_END, disable=not plan.progress) as bar:
        for batch in range(max(max_games // plan.games, 1)):
            results = _play(pair, plan.regimes[0], replace(plan, seed=(plan.seed + batch) % 2**31))
            pairs += count_pairs(results.outcome)
            verdict = judge(pairs.tolist(), hypotheses)
            names = f"{pair[0].name} vs {pair[1].name}"
            bar.set_description_str(f"{names}: LLR {verdict.llr:.2f}, ends at {low:.2f} or {high:.2f}")
            bar.update(plan.games)
            if verdict.accepted:
                break
    return verdict


def play_cell(pair: Pair, regime: str, plan: ArenaPlan, recorder: Recorder | None = None) -> MatchRecord:
    """Play the games of one pair under one regime; raises `EvaluationError` where actions were not finite."""
    results = _play(pair, regime, plan, recorder)
    none, half, one, more, both = count_pairs(results.outcome).tolist()
    return MatchRecord(
        pair[0].name,
        pair[1].name,
        regime,
        by_seat=(_counts(results, seat=0), _counts(results, seat=1)),
        length=float(results.length.mean()) / TICKS_PER_SECOND,
        own_hp=float(results.left_hp.mean()),
        their_hp=float(results.right_hp.mean()),
        pairs=(none, half, one, more, both),
    )


def _play(pair: Pair, regime: str, plan: ArenaPlan, recorder: Recorder | None = None) -> MatchResults:
    left, right = pair
    setting = replace(plan.setting, ranges=ranges(regime), trace=recorder.games if recorder else 0)
    results = play(
        left.contestant, right.contestant, games=plan.games, seed=plan.seed, setting=setting, recorder=recorder
    )
    if results.invalid_actions:
        count = results.invalid_actions
        raise EvaluationError(f"{left.name} against {right.name}: {count} actions were not finite; the games are void")
    return results


def _counts(results: MatchResults, *, seat: int) -> Counts:
    outcome = results.outcome[results.left_seat == seat]
    return int((outcome > 0).sum()), int((outcome == 0).sum()), int((outcome < 0).sum())


def _check_policies(policies: Iterable[Policy], setting: MatchSettings) -> None:
    """Ask before anything is played whether every policy fits."""
    batch = setting.batch(2)
    try:
        for policy in policies:
            policy.check(batch.contract)
    finally:
        batch.close()


def _shown(cells: Sequence[tuple[str, Pair]], plan: ArenaPlan) -> Iterator[tuple[str, Pair]]:
    return show_cells(cells, lambda cell: f"{cell[1][0].name} vs {cell[1][1].name}, {cell[0]}", shown=plan.progress)
