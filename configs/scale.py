"""Scaling: `scale` shrinks a run to a short one with the same events in the same order.

With s = scale there are two rules. Moments, counted in updates from the start of their phase, become

    f(0) = 0,  f(m_i) = max(round(s m_i), f(m_(i-1)) + 1)  over the distinct moments 0 < m_1 < m_2 < ...

Equal moments stay equal, and later moments stay at least one update later. Intervals and sizes become round(sqrt(s) x),
not below a floor. An interval that fits into the run still does, and 0 (never) stays 0. The square root keeps enough
matches per update and few interruptions in a short run. Everything else is unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import reduce

from sparring.configs.kinds import knows
from sparring.configs.schema import PhaseConfig, PPORunConfig, RandomizationConfig, RunConfig
from sparring.configs.validate import unmet_needs

MOMENTS = (
    *("max_updates", "grpo.steps", "grpo.kl_beta_start_step", "grpo.kl_beta_warmup_steps"),
    *("league.cold_start_steps", "league.final_at", "clone.updates", "distill.epochs"),
)
"""Moments of language-model runs; in other runs they are in phases: `updates`, every `at`, the end of every `over`."""
LENGTHS = ("grpo.steps", "clone.updates", "distill.epochs")
"""Number of updates of those runs."""
INTERVALS = {
    "checkpoint_every": 1,
    "ppo.warmup_updates": 1,
    "self_play.snapshot_every": 1,
    "self_play.deal_every": 2,
    "self_play.exploiter_every": 1,
    "evaluation.every": 1,
    "evaluation.check_every": 1,
    "evaluation.regimes_every": 1,
    "evaluation.exploit_every": 1,
    "league.checkpoint_every": 1,
}
"""In updates, with floors; a number below its floor is unchanged."""
SIZES = {
    "env.num_envs": 8,
    "ppo.rollout_steps": 512,
    "ppo.minibatch_size": 32,
    "evaluation.games": 10,
    "self_play.promotion_games": 10,
    "self_play.exploiter_updates": 1,
    "grpo.groups": 2,
    "grpo.minibatch_samples": 8,
    "clone.games_per_update": 2,
    "distill.games": 56,
}
"""With floors: 512 steps are nearly half of the dogfight's longest match, so matches finish."""
PLAYED_BY_ALL = ("env.num_envs", "evaluation.games")
"""These are multiples of the game's `multiple`."""


class ScaleClock:
    """Map from moments of a long run or phase to those of the short one: strictly increasing, 0 stays 0."""

    def __init__(self, scale: float, moments: Iterable[int]) -> None:
        self._short = {0: 0}
        last = 0
        for moment in sorted({*moments} - {0}):
            last = max(_nearest(scale * moment), last + 1)
            self._short[moment] = last

    def __getitem__(self, moment: int) -> int:
        return self._short[moment]


def shrink(config: RunConfig, *, full: RunConfig | None = None) -> RunConfig:
    """Return `config` at its `scale`, which keeps its value; its range must have been checked.

    Changes only options of the kind of run that have an effect in `full`, the run with all typed options.
    """
    idle = unmet_needs(full or config)
    small = deepcopy(config)
    if isinstance(small, PPORunConfig):
        small.phases, small.max_updates = _phases(small)
    else:
        _shrink_steps(small)
    for key in _known(config, INTERVALS):
        if key not in idle:
            _set(small, key, _interval(config, small, key))
    for key in _known(config, SIZES):
        if key not in idle:
            _set(small, key, _size(config, key))
    if isinstance(small, PPORunConfig):
        small.ppo.minibatch_size = min(small.ppo.minibatch_size, small.ppo.rollout_steps * small.env.num_envs)
    return small


def _shrink_steps(config: RunConfig) -> None:
    moments = {key: _get(config, key) for key in _known(config, MOMENTS)}
    clock = ScaleClock(config.scale, moments.values())
    for key, moment in moments.items():
        _set(config, key, clock[moment])


def _phases(config: PPORunConfig) -> tuple[list[PhaseConfig], int]:
    """Return the phases, each on its own clock, and `max_updates` as a moment of its phase."""
    phases: list[PhaseConfig] = []
    begin, limit, done = 0, 0, 0
    for phase in config.phases:
        stop = config.max_updates - begin
        within = 0 < stop <= phase.updates
        clock = ScaleClock(config.scale, _moments(phase) | ({stop} if within else set()))
        if within:
            limit = done + clock[stop]
        phases.append(_phase(phase, clock))
        begin, done = begin + phase.updates, done + phases[-1].updates
    return phases, done if config.max_updates > begin else limit


def _moments(phase: PhaseConfig) -> set[int]:
    """Return the moments of a phase, including its end, in updates from its start.

    A changing share of self-play needs a second update, which is a moment, too.
    """
    moments = {phase.updates}
    moments |= {entry.at for entries in (phase.stages, phase.events) for entry in entries}
    moments |= {moment for entry in phase.randomization for moment in (entry.at, entry.at + entry.over)}
    if phase.scripted_start != phase.scripted_end:
        moments.add(1)
    return moments


def _phase(phase: PhaseConfig, clock: ScaleClock) -> PhaseConfig:
    return replace(
        phase,
        updates=clock[phase.updates],
        stages=[replace(stage, at=clock[stage.at]) for stage in phase.stages],
        randomization=[_level(entry, clock) for entry in phase.randomization],
        events=[replace(event, at=clock[event.at]) for event in phase.events],
    )


def _level(entry: RandomizationConfig, clock: ScaleClock) -> RandomizationConfig:
    """Shorten a level, with at most one step per update."""
    at = clock[entry.at]
    over = clock[entry.at + entry.over] - at
    return replace(entry, at=at, over=over, steps=min(entry.steps, over or entry.steps))


def _interval(long: RunConfig, short: RunConfig, key: str) -> int:
    """Return an interval of the `short` run, whose moments are set; events of the `long` run still happen."""
    value, span = _get(long, key), _span(long, key)
    small = min(max(_nearest(math.sqrt(long.scale) * value), INTERVALS[key]), value)
    return min(small, _span(short, key)) if value <= span else small


def _span(config: RunConfig, key: str) -> int:
    """Return the longest interval at which the option's event happens in a run; twice for snapshots."""
    if isinstance(config, PPORunConfig):
        if key == "self_play.snapshot_every":
            fought = (phase.updates for phase in config.phases if min(phase.scripted_start, phase.scripted_end) < 1.0)
            return max(sum(fought) - 2, 1)
        total = sum(phase.updates for phase in config.phases)
    else:
        total = _get(config, next(key for key in LENGTHS if knows(type(config), key)))
    return min(total, config.max_updates or total)


def _size(config: RunConfig, key: str) -> int:
    value = _get(config, key)
    small = max(_nearest(math.sqrt(config.scale) * value), SIZES[key])
    if key in PLAYED_BY_ALL:
        small += -small % config.multiple
    return min(small, value)


def _nearest(number: float) -> int:
    """Round halves up, unlike `round`."""
    return math.floor(number + 0.5)


def _known(config: RunConfig, keys: Iterable[str]) -> list[str]:
    """Return `keys` that the run has."""
    return [key for key in keys if knows(type(config), key)]


def _get(config: RunConfig, key: str) -> int:
    value: int = reduce(getattr, key.split("."), config)  # type: ignore[assignment, arg-type]
    return value


def _set(config: RunConfig, key: str, value: int) -> None:
    *groups, name = key.split(".")
    setattr(reduce(getattr, groups, config), name, value)
