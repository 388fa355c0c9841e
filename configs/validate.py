"""Validation of configurations: each option alone, then combinations.

Keys are written as on the command line: `phases.0.stages.1.at` is the second stage of the first phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from itertools import pairwise
from typing import Any

from sparring.configs import schema
from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.files import CHECKPOINTS, holds
from sparring.configs.kinds import bare, check_own_game, declared, is_game, run_kinds
from sparring.configs.opponents import is_code, registered
from sparring.configs.schema import IMPORTED
from sparring.configs.serialization import from_plain, options, to_plain

IdleRow = tuple[type[schema.RunConfig], str, tuple[str, ...]]
POLICY_IDLE: tuple[IdleRow, ...] = (
    (schema.PPORunConfig, "trainer=sb3", (
        "evaluation.", "guard.", "network.log_std_min", "network.log_std_max",
        "ppo.final_entropy_fraction", "ppo.entropy_falls_from", "ppo.average_decay", "ppo.precision",
        "ppo.warmup_updates", "network.styles",
    )),
    (schema.PPORunConfig, "ppo.entropy_coefficient=0.0", (
        "ppo.final_entropy_fraction", "ppo.entropy_falls_from",
    )),
    (schema.PPORunConfig, "ppo.final_entropy_fraction=1.0", ("ppo.entropy_falls_from",)),
    (schema.PPORunConfig, "ppo.adaptive_kl above 0", ("ppo.final_learning_rate_fraction",)),
    (schema.PPORunConfig, "ppo.precision=fp32", ("ppo.warmup_updates",)),
)  # fmt: skip
IDLE: tuple[IdleRow, ...] = (
    (schema.RunConfig, "evaluation.every=0 and evaluation.check_every=0 and evaluation.regimes_every=0", (
        "evaluation.games",
    )),
)  # fmt: skip
"""Kind of run, condition, and prefixes of the options that then have no effect.

Such options are allowed, since a run file may set what an override switches off. They are listed at the run's start.
"""


def validate(config: schema.RunConfig, *, started: bool = False) -> None:
    """Return if `config` can run, else raise `ConfigError`: one line with key, value, allowed values and the fix.

    A `started` run may have options without effect, since older versions accepted them.
    """
    check_own_game(config.env.id)
    if is_game(config.env.id) or config.game == IMPORTED:
        _check_trainer(config)
    from_plain(to_plain(config))
    config.check()
    if isinstance(config, schema.PPORunConfig):
        _check_policies(config)
    if not started:
        _check_idle(config)


def _check_idle(config: schema.RunConfig) -> None:
    """Refuse a non-default option whose `needs` are not met; raises `ConfigError`.

    A feature that is on by default may be switched off alone: `grpo.kl_beta=0` with a warm-up is valid.
    """
    fields, values = declared(type(config)), options(config)
    for key, near in unmet_needs(config).items():
        default = fields[bare(key)].default
        if values[key] != default:
            # A list's item has no default, but the list has one.
            name, default_text = (bare(key), "[]") if default is MISSING else (key, str(default).lower())
            value = str(values[key]).lower()
            raise ConfigError(f"{name}={value}: has no effect without {near}; set that too, or {name}={default_text}")


def unmet_needs(config: schema.RunConfig) -> dict[str, str]:
    """Return the unmet requirement of each option without effect, by key."""
    fields, values = declared(type(config)), options(config)
    unmet: dict[str, str] = {}
    for key in values:
        option = fields.get(bare(key))
        for need in option.metadata.get("needs", ()) if option else ():
            near = need.replace(f"{bare(key).rpartition('.')[0]}.", f"{key.rpartition('.')[0]}.")  # of the same item
            if not any(_given(alternative, values) for alternative in near.split(" or ")):
                unmet.setdefault(key, near)
    return unmet


def idle_options(config: schema.RunConfig) -> list[str]:
    """Return a line for each row of `IDLE` and of the kind that applies and has non-default options."""
    fields, values = declared(type(config)), options(config)
    lines = []
    for kind, condition, starts in (*POLICY_IDLE, *((type(config), *row) for row in config.idle), *IDLE):
        changed = [
            key
            for key, value in values.items()
            if bare(key).startswith(starts) and value != fields[bare(key)].default and f"{key}=" not in condition
        ]
        if isinstance(config, kind) and changed and _holds(condition, values):
            lines.append(f"without effect with {condition}: {', '.join(changed)}")
    return lines


def _holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Return whether all parts of a condition hold, each in all items of its list; other kinds' options count."""
    needed = [(part, part.partition("=")[0].removesuffix(" above 0")) for part in condition.split(" and ")]
    return all(
        _given(part.replace(name, key, 1), values) for part, name in needed for key in values if bare(key) == name
    )


def _given(need: str, values: Mapping[str, Any]) -> bool:
    key, equals, value = need.partition("=")
    if equals:
        return str(values[key]).lower() == value
    return bool(values.get(key.removesuffix(" above 0"), 0) > 0)  # the kind of run may lack it


def _check_trainer(config: schema.RunConfig) -> None:
    """Reject a trainer that does not support the game."""
    game = IMPORTED if config.game == IMPORTED else config.env.id
    able = [name for kind in run_kinds() if kind.game == game for name in kind.trainers]
    if config.trainer not in able:
        raise ConfigError(
            f"trainer={config.trainer}: does not train env.id={config.env.id}; choose {' or '.join(able)}"
        )


def _check_policies(config: schema.PPORunConfig) -> None:
    _check_env(config)
    _check_sizes(config)
    _check_log_std(config)
    if not config.phases:
        raise ConfigError("phases=[]: a run needs at least one phase, such as {name: curriculum, updates: 100}")
    for index, phase in enumerate(config.phases):
        _check_phase(f"phases.{index}", phase, first=index == 0, config=config)
    _check_named(config)
    _check_snapshots_differ(config)


def _check_env(config: schema.PPORunConfig) -> None:
    """Check the number of games played at once."""
    matches, multiple = config.env.num_envs, config.multiple
    if config.seats == 2 and matches < 2:
        raise ConfigError(f"env.num_envs={matches}: must be at least 2, so the learner plays both seats")
    if matches % multiple:
        raise ConfigError(
            f"env.num_envs={matches}: must be a multiple of {multiple}, to play every power equally often"
        )


def _check_sizes(config: schema.PPORunConfig) -> None:
    samples = config.ppo.rollout_steps * config.env.num_envs
    if config.ppo.minibatch_size > samples:
        raise ConfigError(
            f"ppo.minibatch_size={config.ppo.minibatch_size}: must be at most {samples}, which is ppo.rollout_steps "
            f"{config.ppo.rollout_steps} x env.num_envs {config.env.num_envs}; lower it or raise one of those"
        )


def _check_log_std(config: schema.PPORunConfig) -> None:
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


def _check_phase(key: str, phase: schema.PhaseConfig, *, first: bool, config: schema.PPORunConfig) -> None:
    if config.bots and first and not (phase.stages and phase.stages[0].at == 0):
        raise ConfigError(f"{key}.stages: the first phase needs a stage at update 0, such as {{at: 0, bots: [ace]}}")
    for name in ("stages", "randomization", "events"):
        _check_within(f"{key}.{name}", [entry.at for entry in getattr(phase, name)], phase.updates)
    for name in ("stages", "randomization"):
        _check_increasing(f"{key}.{name}", [entry.at for entry in getattr(phase, name)])
    for index, stage in enumerate(phase.stages):
        _check_stage(f"{key}.stages.{index}", stage, config)
    for index, event in enumerate(phase.events):
        if not event.snapshot and event.log_std is None:
            raise ConfigError(f"{key}.events.{index}: has no effect; set snapshot or log_std")


def _check_within(key: str, starts: Sequence[int], updates: int) -> None:
    for index, at in enumerate(starts):
        if at >= updates:
            raise ConfigError(f"{key}.{index}.at={at}: must be in [0, {updates}), the updates of its phase")


def _check_increasing(key: str, starts: Sequence[int]) -> None:
    for index, (before, at) in enumerate(pairwise(starts), start=1):
        if at <= before:
            raise ConfigError(f"{key}.{index}.at={at}: must be above {before}, the start of the previous one")


def _check_stage(key: str, stage: schema.StageConfig, config: schema.PPORunConfig) -> None:
    if not stage.bots:
        raise ConfigError(f"{key}.bots=[]: a stage needs at least one bot")
    for index, bot in enumerate(stage.bots):
        _check_opponent(f"{key}.bots.{index}", bot, config)
    if len(set(stage.bots)) < len(stage.bots):
        raise ConfigError(f"{key}.bots=[{', '.join(stage.bots)}]: name each bot once")


def _check_named(config: schema.PPORunConfig) -> None:
    """Check the opponents and the reward named for the whole run."""
    if not isinstance(config, schema.NamedOpponentsRunConfig):
        return
    if (reward := getattr(config, "reward", "")) and not is_code(reward):
        hint = "use module:name, as in reward=my_rewards:height; functions of a script exist only in that script"
        raise ConfigError(f"reward={reward}: is not a function; {hint}")
    for index, name in enumerate(config.opponents):
        _check_opponent(f"opponents.{index}", name, config)
    if len(set(config.opponents)) < len(config.opponents):
        raise ConfigError(f"opponents=[{', '.join(config.opponents)}]: name each opponent once")
    if not config.against:
        return
    _check_opponent("against", config.against, config)
    if config.opponents:
        names = ",".join(config.opponents)
        raise ConfigError(f"opponents=[{names}]: has no effect with against={config.against}; remove it")


def _check_opponent(key: str, name: str, config: schema.PPORunConfig) -> None:
    """Reject a plain word that is not a bot, registered opponent or run; files are checked when the run starts."""
    if name in config.bots:
        return
    files = isinstance(config, schema.NamedOpponentsRunConfig)
    if files and (name in registered() or any(mark in name for mark in "/.:") or holds((CHECKPOINTS / name).is_dir)):
        return
    names = (*config.bots, *registered()) if files else config.bots
    hint = "; an opponent registered by a script exists only in that script"
    raise ConfigError(f"{key}={name}: {complaint(name, names)}{hint if files else ''}")


def _check_snapshots_differ(config: schema.PPORunConfig) -> None:
    snapshots: set[str] = set()
    for p, phase in enumerate(config.phases):
        for e, event in enumerate(phase.events):
            if event.snapshot and event.snapshot in snapshots:
                raise ConfigError(f"phases.{p}.events.{e}.snapshot={event.snapshot}: is already used; choose another")
            snapshots.add(event.snapshot)
