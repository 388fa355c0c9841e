"""Is this configuration one that can run? Every option's range first, then what concerns several options at once.

Keys are written as they are typed on the command line: `phases.0.stages.1.at` is the second stage of the first phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import Field, fields, is_dataclass
from itertools import pairwise
from typing import Any

from sparring.configs.core.allowed import Allowed, Form, complaint
from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.inactive_options import check_idle
from sparring.configs.language import DIPLOMACY_BOTS
from sparring.configs.ownership import kind_of, trainers_of, whose
from sparring.configs.retired import id_message, is_retired
from sparring.configs.schema import (
    BOTS,
    DIPLOMACY,
    DOGFIGHT,
    EvaluationConfig,
    PhaseConfig,
    RunConfig,
    StageConfig,
)
from sparring.configs.validate_language import LANGUAGE_TRAINERS, check_language

BOTS_OF = {DOGFIGHT: BOTS, DIPLOMACY: DIPLOMACY_BOTS}
"""The bots that a game has."""


def validate(config: RunConfig, *, begun: bool = False) -> None:
    """Return if `config` can run, else raise `ConfigError`: one line with key, value, what is allowed and the fix.

    A run that was `begun` goes on with options that have no effect, since it may have been before they were refused.
    """
    if is_retired(config.env.id):
        raise ConfigError(id_message(config.env.id))
    if config.env.id.lower().startswith("sparring/"):
        choose("env.id", config.env.id, (DOGFIGHT, DIPLOMACY))
    _check_whose(config)
    check_ranges(config)
    _check_games(config)
    if config.trainer in LANGUAGE_TRAINERS:
        check_language(config)
        if not begun:
            check_idle(config)
        return
    _check_env(config)
    _check_sizes(config)
    _check_log_std(config)
    _check_log_std_events(config)
    if not config.phases:
        raise ConfigError("phases=[]: a run needs at least one phase, such as {name: curriculum, updates: 100}")
    for index, phase in enumerate(config.phases):
        _check_phase(f"phases.{index}", phase, first=index == 0, env_id=config.env.id)
    _check_snapshots_differ(config)


def check_ranges(config: RunConfig) -> None:
    """Refuse the first option that is outside what it may hold by itself; raises `ConfigError`."""
    for key, value, option in options(config):
        _check_option(key, value, option)


def options(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Field[Any]]]:
    """Every option of a configuration, in order: dotted key, value, and the field that declares it.

    List items count one by one under the field of their list; mappings and lists of them are entered.
    """
    for option in fields(config):
        key, value = f"{prefix}{option.name}", getattr(config, option.name)
        items = enumerate(value) if isinstance(value, list) else None
        for name, item in [(key, value)] if items is None else [(f"{key}.{index}", item) for index, item in items]:
            if is_dataclass(item):
                yield from options(item, f"{name}.")
            else:
                yield name, item, option


def _check_option(key: str, value: Any, option: Field[Any]) -> None:
    allowed: Allowed | None = option.metadata.get("allowed")
    if allowed is None or value == option.default:  # an empty default, "" or None, stands for "not given"
        return
    wrong = complaint(value, allowed)
    if wrong:
        default = f"; the default is {option.default}" if isinstance(option.default, int | float) else ""
        shown = f"{value:g}" if isinstance(value, float) else value
        raise ConfigError(f"{key}={_shown(shown, option)}: {wrong}{default}")


def _shown(value: Any, option: Field[Any]) -> str:
    """A value as messages have it; not what may be somebody's secret."""
    allowed = option.metadata.get("allowed")
    return "(not shown)" if isinstance(allowed, Form) and allowed.private else str(value)


def _check_whose(config: RunConfig) -> None:
    """Refuse options that mean nothing to this environment or trainer; phases say so in words of their own."""
    kind, usual = kind_of(config.env.id), {key: value for key, value, _ in options(RunConfig(phases=[]))}
    for key, value, option in options(config):
        if key not in usual or value == usual[key]:
            continue
        for owners, own, name in (
            (whose(key), kind, config.env.id),
            (trainers_of(key), config.trainer, f"trainer={config.trainer}"),
        ):
            if owners and own not in owners:
                whom = f"an option of {' and '.join(owners)}, not of {name}"
                raise ConfigError(f"{key}={_shown(value, option)}: is {whom}; leave it out")


def _check_env(config: RunConfig) -> None:
    """How many games an environment plays at once."""
    env = config.env
    if env.id == DOGFIGHT and env.num_envs < 2:
        raise ConfigError(f"env.num_envs={env.num_envs}: must be at least 2, so that the learner sits on both seats")
    if env.id == DIPLOMACY and env.num_envs % 7:
        raise ConfigError(f"env.num_envs={env.num_envs}: must be a multiple of 7, so that it plays every power alike")


def _check_games(config: RunConfig) -> None:
    """How many games are played in a check; a clone's are looked at and not played."""
    games = config.evaluation.games
    if config.env.id != DIPLOMACY or config.trainer == "clone":
        return
    if games % 7 and (config.evaluation.every or games != EvaluationConfig.games):
        whole = games + -games % 7
        why = "so that it plays every power alike"
        raise ConfigError(f"evaluation.games={games}: must be a multiple of 7, {why}; try {whole}")


def _check_log_std_events(config: RunConfig) -> None:
    """Nothing in Diplomacy's network explores by a standard deviation."""
    if config.env.id != DIPLOMACY:
        return
    for p, phase in enumerate(config.phases):
        for e, event in enumerate(phase.events):
            if event.log_std is not None:
                key = f"phases.{p}.events.{e}.log_std"
                raise ConfigError(f"{key}={event.log_std}: choices in {DIPLOMACY} have no log_std; leave it out")


def _check_sizes(config: RunConfig) -> None:
    samples = config.ppo.rollout_steps * config.env.num_envs
    if config.ppo.minibatch_size > samples:
        raise ConfigError(
            f"ppo.minibatch_size={config.ppo.minibatch_size}: must be at most {samples}, which is ppo.rollout_steps "
            f"{config.ppo.rollout_steps} x env.num_envs {config.env.num_envs}; lower it or raise one of those"
        )


def _check_log_std(config: RunConfig) -> None:
    network = config.network
    low, high = network.log_std_min, network.log_std_max
    if low > high:
        raise ConfigError(f"network.log_std_min={low}: must be at most network.log_std_max, {high}")
    named = [("network.log_std_init", network.log_std_init)]
    for p, phase in enumerate(config.phases):
        named += [
            (f"phases.{p}.events.{e}.log_std", event.log_std)
            for e, event in enumerate(phase.events)
            if event.log_std is not None
        ]
    for key, value in named:
        if not low <= value <= high:
            raise ConfigError(f"{key}={value}: must be in [{low}, {high}], network.log_std_min to log_std_max")


def _check_phase(key: str, phase: PhaseConfig, *, first: bool, env_id: str) -> None:
    bots = BOTS_OF.get(env_id, ())
    if env_id != DOGFIGHT:
        _check_plain_phase(key, phase, stages=bool(bots))
    if bots and first and not (phase.stages and phase.stages[0].at == 0):
        raise ConfigError(f"{key}.stages: the first phase needs a stage at update 0, such as {{at: 0, bots: [ace]}}")
    for name in ("stages", "randomization", "events"):
        _check_within(f"{key}.{name}", [entry.at for entry in getattr(phase, name)], phase.updates)
    for name in ("stages", "randomization"):
        _check_increasing(f"{key}.{name}", [entry.at for entry in getattr(phase, name)])
    for index, stage in enumerate(phase.stages):
        _check_stage(f"{key}.stages.{index}", stage, bots)
    for index, event in enumerate(phase.events):
        if not event.snapshot and event.log_std is None:
            raise ConfigError(f"{key}.events.{index}: does nothing; give it a snapshot name or a log_std")


def _check_plain_phase(key: str, phase: PhaseConfig, *, stages: bool) -> None:
    """A phase of a game without physics and self-play, and without `stages` where nobody is met."""
    if phase.randomization:
        raise ConfigError(f"{key}.randomization: only {DOGFIGHT} has physics to choose; use {key}.randomization=[]")
    if phase.stages and not stages:
        raise ConfigError(f"{key}.stages: only {' and '.join(BOTS_OF)} have opponents to choose; use {key}.stages=[]")
    if min(phase.scripted_start, phase.scripted_end) < 1.0:
        raise ConfigError(f"{key}.scripted_end={phase.scripted_end}: only {DOGFIGHT} has self-play; use 1")


def _check_within(key: str, starts: Sequence[int], updates: int) -> None:
    for index, at in enumerate(starts):
        if at >= updates:
            raise ConfigError(f"{key}.{index}.at={at}: must be in [0, {updates}), the updates of its phase")


def _check_increasing(key: str, starts: Sequence[int]) -> None:
    for index, (before, at) in enumerate(pairwise(starts), start=1):
        if at <= before:
            raise ConfigError(f"{key}.{index}.at={at}: must be above {before}, where the one before it starts")


def _check_stage(key: str, stage: StageConfig, bots: tuple[str, ...]) -> None:
    if not stage.bots:
        raise ConfigError(f"{key}.bots=[]: a stage needs at least one bot")
    for index, bot in enumerate(stage.bots):
        wrong = complaint(bot, bots)
        if wrong:
            raise ConfigError(f"{key}.bots.{index}={bot}: {wrong}")
    if len(set(stage.bots)) < len(stage.bots):
        raise ConfigError(f"{key}.bots=[{', '.join(stage.bots)}]: name each bot once and use weights for its share")
    if stage.weights and len(stage.weights) != len(stage.bots):
        wanted = f"give {len(stage.bots)}, one for each of {', '.join(stage.bots)}, or none for equal shares"
        raise ConfigError(f"{key}.weights={stage.weights}: {wanted}")


def _check_snapshots_differ(config: RunConfig) -> None:
    seen: set[str] = set()
    for p, phase in enumerate(config.phases):
        for e, event in enumerate(phase.events):
            if event.snapshot and event.snapshot in seen:
                raise ConfigError(f"phases.{p}.events.{e}.snapshot={event.snapshot}: is taken already; choose another")
            seen.add(event.snapshot)
