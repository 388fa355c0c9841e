"""Whose an option is: some mean something to one game or trainer only, and would be silently ignored by another."""

from __future__ import annotations

import re

from sparring.configs.schema import DIPLOMACY, DOGFIGHT, RunConfig

GYMNASIUM = "Gymnasium's environments"
KINDS = {DOGFIGHT: "the dogfight", DIPLOMACY: "Diplomacy", GYMNASIUM: "Gymnasium"}
"""Kinds of environment, with what help calls them."""

_OWNERS = {
    "env": (DOGFIGHT,),
    "env.id": (),
    "env.num_envs": (),
    "env.normalize_obs": (GYMNASIUM,),
    "env.normalize_reward": (GYMNASIUM,),
    "env.last_year": (DIPLOMACY,),
    "network.activation": (DOGFIGHT, GYMNASIUM),
    "network.log_std_init": (DOGFIGHT, GYMNASIUM),
    "network.log_std_min": (DOGFIGHT, GYMNASIUM),
    "network.log_std_max": (DOGFIGHT, GYMNASIUM),
    "phases.stages": (DOGFIGHT, DIPLOMACY),
    "phases.scripted_start": (DOGFIGHT,),
    "phases.scripted_end": (DOGFIGHT,),
    "phases.randomization": (DOGFIGHT,),
    "phases.events.log_std": (DOGFIGHT, GYMNASIUM),
    "self_play": (DOGFIGHT,),
    "evaluation": (DOGFIGHT,),
    "evaluation.every": (DOGFIGHT, DIPLOMACY),
    "evaluation.games": (DOGFIGHT, DIPLOMACY),
}
"""By key without the numbers of items; one of a group stands for its members, except those named themselves."""

_POLICIES, _LANGUAGE = ("ppo", "sb3"), ("grpo", "clone")
_TRAINERS = {
    "env.num_envs": _POLICIES,
    "network": _POLICIES,
    "ppo": _POLICIES,
    "self_play": _POLICIES,
    "model": _LANGUAGE,
    "grpo": ("grpo",),
    "league": ("grpo",),
    "clone": ("clone",),
}


def kind_of(env_id: str) -> str:
    """Which of `KINDS` an environment is."""
    return env_id if env_id in KINDS else GYMNASIUM


def whose(key: str) -> tuple[str, ...]:
    """The kinds of environment an option such as `phases.0.stages.0.at` means something to; empty for all."""
    return _lookup(key, _OWNERS)


def trainers_of(key: str) -> tuple[str, ...]:
    """The trainers that an option means something to; empty for all."""
    return _lookup(key, _TRAINERS)


def heeds(config: RunConfig, key: str) -> bool:
    """Whether an option means something to the trainer and the game of a configuration."""
    trainers, kinds = trainers_of(key), whose(key)
    return (not trainers or config.trainer in trainers) and (not kinds or kind_of(config.env.id) in kinds)


def _lookup(key: str, owners: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    parts = re.sub(r"\.\d+(?=\.|$)", "", key).split(".")
    groups = [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
    return next((owners[group] for group in groups if group in owners), ())
