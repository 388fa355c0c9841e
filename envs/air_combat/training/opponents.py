"""Air combat data from which `agents/opponents/duelists.py` creates players, and evaluation conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space

from sparring.agents.opponents.duelists import DuelGame, Duelist
from sparring.configs.core.errors import choose, moved
from sparring.envs.air_combat import GAME, rules, spaces
from sparring.envs.air_combat.batch import AirCombatBatch

AUTO = "auto"
"""Value in a run's options for the flight model's default gun."""

__getattr__ = moved(__name__, {"Pilot": "sparring.agents.opponents.duelists:Duelist"})


def contract_of(obs_dim: int, stated: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the contract of a policy with `obs_dim` inputs; without one in its file, options are off."""
    ours = stated if stated.get("id") == rules.ENV_ID else {}
    options = rules.CombatOptions.of_contract(ours)
    if obs_dim == len(options.observation) + len(rules.OBSERVATION_GROUND):
        options = replace(options, observe_ground=True)
    if obs_dim != len(options.observation):
        return None
    trained = {"version": rules.VERSION, "layout": options.layout, "action_repeat": rules.ACTION_REPEAT} | {
        key: ours[key] for key in ("version", "layout", "action_repeat") if key in ours
    }
    return {"id": rules.ENV_ID, **trained, "obs_dim": obs_dim, **options.contract, **options.action_sizes}


def spaces_of(contract: Mapping[str, Any]) -> tuple[Box, Space[Any]]:
    """Return the spaces of matches of a contract, those of `AirCombatParallelEnv`."""
    options = rules.CombatOptions.of_contract(contract)
    return spaces.observation_space(options), spaces.action_space(options)


DUELS = DuelGame(
    GAME,
    contract_of,
    spaces_of,
    steering=3,
    actions="actions",
    wanted=f"one input float32 [1, D], D being {len(rules.OBSERVATION)} or what the options of an exported policy show,"
    f" and one output float32 [1, A], A being {len(rules.ACTION_NAMES)} or what they take",
)
open_player, frozen_pilots, load_observing_policy = DUELS.open, DUELS.frozen, DUELS.loaded


def trained_matches(training: Mapping[str, Any]) -> tuple[str, str]:
    """Return the flight model, and the gun if named, of a policy's training matches, from its metadata.

    Without any it is the point mass, and no gun is named.
    """
    env = training.get("config", {}).get("env", {})
    model, gun = env.get("model", rules.MODELS[0]), env.get("gun", AUTO)
    return choose("model", model, rules.MODELS), "" if gun == AUTO else choose("gun", gun, rules.GUNS)


def ground_limit(pilots: Sequence[Duelist], given: float | None = None) -> float:
    """Return the ground limit of a match in m: the given one, else the highest of the pilots' own matches."""
    own = (pilot.training.get("config", {}).get("env", {}).get("ground_limit", 0.0) for pilot in pilots)
    return max(map(float, own)) if given is None else given


@dataclass(frozen=True)
class CombatConditions:
    """Conditions of matches, `duel_matches.DuelSettings`; the options are those of `AirCombatBatch`."""

    model: str = "point_mass"
    gun: str = ""
    action_repeat: int = rules.ACTION_REPEAT
    max_ticks: int = rules.MAX_TICKS
    device: str = "cpu"
    threads: int = 0
    options: rules.CombatOptions = rules.PLAIN
    low_start: float = 0.0
    ground_limit: float = 0.0
    drawn: str = ""
    """Level from which the physics of each match is drawn; empty for the options' level."""

    @property
    def gun_name(self) -> str:
        """The named gun, or by default the flight model's."""
        return self.gun or rules.usual_gun(self.model)

    def batch(self, games: int) -> AirCombatBatch:
        """Create a batch of `games` matches under these conditions."""
        conditions, drawn = dict(vars(self)), self.drawn
        del conditions["drawn"]
        if self.options.randomization == "none" and drawn not in ("", "none"):
            conditions["options"] = replace(self.options, randomization=drawn, observe_physics=False)
        batch = AirCombatBatch(games, **conditions)
        if drawn and batch.options.randomization != "none":
            batch.set_ranges(np.array(rules.ranges(drawn)))
        return batch

    def under(self, ranges: np.ndarray) -> CombatConditions:
        """Return these conditions: the physics is not randomized."""
        return self

    def filmed(self) -> CombatConditions:
        """Return these conditions: a match is filmed from its snapshots."""
        return self
