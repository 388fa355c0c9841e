"""Resumed runs: the command or call that resumes one, and the options that may change.

Harmless options do not change what is learned: logs, evaluation, saving, session length, the machine. The machine's
options and the number of matches make the continuation inexact, which the run reports. `grpo.steps` may be raised if
only the end depends on it: GRPO's learning rate does not, but the league's shares may. The last phase of PPO may be
extended; if something is annealed to the end of the run, that is inexact and also reported.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from sparring.configs.core.errors import ConfigError, as_called
from sparring.configs.core.files import CHECKPOINTS, ROOT
from sparring.configs.opponents import code_to_type, named_opponents, registered
from sparring.configs.overrides import as_override
from sparring.configs.schema import PPORunConfig, RunConfig
from sparring.configs.serialization import options

HARMLESS = (
    "name", "run", "resume", "checkpoint_dir", "checkpoint_every", "keep_states", "grace_seconds",
    "patience_seconds", "max_updates", "device", "deterministic", "threads", "env.num_envs",
    "distill.workers", "distill.executor",
    "env.engine.processes", "env.engine.cache", "env.twin", "logger", "evaluation", "grpo.shard_model", "grpo.workers",
    "grpo.executor",
)  # fmt: skip

NAMES = ("name", "run", "resume", "checkpoint_dir")
LENGTH = re.compile(r"phases\.(\d+)\.updates")
"""Key of the length of a phase."""


def resume_hint(config: RunConfig, name: str) -> str:
    """Return the command line that resumes the run in the folder `name`, with the required options.

    Opponents registered by a script exist only in that script, so the script must resume the run.
    """
    arguments = [f"resume={name}"]
    if os.path.abspath(ROOT / config.checkpoint_dir) != os.path.abspath(CHECKPOINTS):
        arguments.append(f"checkpoint_dir={config.checkpoint_dir}")
    if config.env.module:
        arguments.append(f"env.id={config.env.id}")
    if program := config.env.program:
        arguments.append(f"env.engine.path={program}")
    arguments += [f"{key}={as_override(text)}" for key, text in config.env.files.items()]
    arguments += dict.fromkeys(code_to_type(config, []).values())
    names = [name for name in _plain_words(config) if name in registered()]
    if names:
        return f"continue with: {resume_call(arguments)} in the script that registers {', '.join(names)}"
    return as_called(f"continue with: python train.py {shlex.join(arguments)}")


def resume_call(options: Iterable[str]) -> str:
    """Return the call that continues a run from a script; `options` are texts, resume=NAME first."""
    return f"sparring.train(overrides=[{', '.join(map(repr, options))}])"


def missing_opponents(config: RunConfig) -> list[str]:
    """Return the opponents of a stored configuration that are not bots, files or runs, and not registered here."""
    return [name for name in _plain_words(config) if name not in registered() and not (CHECKPOINTS / name).is_dir()]


def _plain_words(config: RunConfig) -> list[str]:
    """Return the opponents that are neither bots nor files, addresses or `module:Name`, each once."""
    names = dict.fromkeys(name for names in named_opponents(config).values() for name in names)
    bots: tuple[str, ...] = getattr(config, "bots", ())
    return [name for name in names if name not in bots and not any(mark in name for mark in "/.:")]


def drift(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return changed options by dotted key: (before, now); None where one side has no entry.

    Raises `ConfigError` for the first that is not harmless.
    """
    changed = differences(before, now)
    for key, (was, value) in changed.items():
        if before.may_change(key, now):
            continue
        phases = len(getattr(now, "phases", ()))
        if isinstance(before, PPORunConfig) and LENGTH.fullmatch(key) and len(before.phases) == phases:
            _check_length(key, was, value, before)
        elif not f"{key}.".startswith(tuple(f"{name}." for name in HARMLESS)):
            # A differing scale is usually missing; other differing options are given and should not be.
            fix = f"give scale={was}" if key == "scale" else "remove it"
            raise ConfigError(
                f"{key}={value}: the run was started with {was}, and its training depends on it; "
                f"{fix} to continue, or {_another_run(now, key, value)}"
            )
    return changed


def _another_run(config: RunConfig, key: str, value: Any) -> str:
    """Return how to start a new run with another option from the policy of the resumed run `config`."""
    name = config.resume or config.name or "NAME"
    start = config.start_from(name)
    if not start:
        return "start another run with another name="
    return f"start a new run from its policy with +run={config.run or 'NAME'} {start} {key}={value}"


def differences(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return changed options as `drift` does, harmless or not, without those that name a run."""
    old, new = options(before), options(now)
    changed = {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}
    return {key: values for key, values in changed.items() if key not in NAMES}


def moved_by_length(config: RunConfig, changed: Mapping[str, Any]) -> list[str]:
    """Return what would have differed at the full length, if the length is among the `changed` options."""
    lengths = [change for key, change in changed.items() if LENGTH.fullmatch(key)]
    if not isinstance(config, PPORunConfig) or not lengths:
        return []
    ppo, last, play = config.ppo, config.phases[-1], config.self_play
    updates = sum(phase.updates for phase in config.phases) + sum(was - now for was, now in lengths)
    # The shorter run did not start an exploiter that its end would have cut.
    turn = updates % (play.exploiter_every + play.exploiter_updates) if play.exploiter_every else 1
    annealed = {
        "ppo.learning_rate": ppo.adaptive_kl == 0.0 and ppo.final_learning_rate_fraction != 1.0,
        "ppo.entropy_coefficient": ppo.entropy_coefficient > 0.0 and ppo.final_entropy_fraction != 1.0,
        "the share of self-play": last.scripted_start != last.scripted_end,
        "the exploiters": turn == 0 or turn > play.exploiter_every > 0,
    }
    return [name for name, moves in annealed.items() if moves]


def _check_length(key: str, was: int, value: int, before: PPORunConfig) -> None:
    """Reject another length of any phase but the last, and one that moves completed updates."""
    last = f"phases.{len(before.phases) - 1}.updates"
    started = f"{key}={value}: the run was started with {was}"
    if key != last:
        raise ConfigError(f"{started}, and later phases begin after it; remove it, only {last} can be raised")
    if value < was:
        total = sum(phase.updates for phase in before.phases) - was + value
        raise ConfigError(f"{started}; remove it, and set max_updates={total} to stop there")
