"""The policy that a new run begins with, `init_from`: its weights and the statistics of its observations.

The policy must have been trained on the same observations, actions and rules, with a network of the same shape. The
optimizer, all counters, opponents and records are new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sparring.agents.distributed.processes import Processes
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.tasks.task import TrainingEnv
from sparring.agents.run.preflight import initial_policy
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPORunConfig

STATISTICS = "normalizer"
"""Contract key of what was learned about observations; `TrainingEnv.adopt` reads it."""
BOUNDS = ("log_std_init", "log_std_min", "log_std_max")
"""Options of a network's shape that may differ: weights fit anyway, and exploration is clamped to the run's bounds."""


def begin_from(config: PPORunConfig, network: ActorCritic, env: TrainingEnv, processes: Processes) -> str:
    """Load the policy `config.init_from` into `network` and `env`, in every process; return a line about it.

    Raises `InputError` if it cannot be read, or if game, observations, actions or network do not match.
    """
    contract, weights, line = processes.run_on_rank0(lambda: _read(config, network, env.contract))
    network.load_state_dict(weights)
    network.clamp_log_std()
    env.adopt(contract)
    return line


def _read(
    config: PPORunConfig, network: ActorCritic, wanted: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """Return contract and weights of the policy, if they match, and a line about it."""
    found = load_checkpoint(initial_policy(config))
    given = f"init_from={config.init_from}"
    _check_same(given, "", found.contract, wanted, ignored=(STATISTICS,))
    _check_same(given, "network.", found.network.shape, network.shape, ignored=BOUNDS)
    run, update = found.training.get("run", "unknown run"), found.training.get("update", "?")
    return found.contract, found.network.state_dict(), f"begins with the policy of {run} after update {update}"


def _check_same(
    given: str, prefix: str, found: Mapping[str, Any], wanted: Mapping[str, Any], *, ignored: tuple[str, ...]
) -> None:
    """Raise `ConfigError` with the first entry that differs."""
    for key in dict.fromkeys([*wanted, *found]):
        was, now = found.get(key), wanted.get(key)
        if key not in ignored and was != now:
            raise ConfigError(
                f"{given}: was trained with {prefix}{key}={was}, this run has {now}; begin with another one"
            )
