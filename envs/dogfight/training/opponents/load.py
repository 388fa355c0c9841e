"""Dogfight data from which `agents/opponents/duelists.py` creates players."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.agents.opponents.duelists import DuelGame
from sparring.agents.opponents.onnx_file import OnnxFile
from sparring.configs.core.errors import moved
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.batch import observation_size
from sparring.envs.dogfight.interfaces.spaces import action_space, observation_space
from sparring.envs.dogfight.rules import ACTION_REPEAT, ENV_ID, RULES, VERSION
from sparring.envs.dogfight.training.opponents.held_out import HELD_OUT_SOURCES
from sparring.envs.dogfight.training.opponents.practice import PRACTICE_SOURCES

SIZES = {observation_size(rules, physics): (rules, physics) for rules in reversed(RULES) for physics in (False, True)}
"""(rules, physics parameters observed) by numbers in an observation: 224, 46 and 59."""
MAX_PARAMETERS = 250_000
MAX_BYTES = 10_000_000
"""File size limit of the public challenge."""
_STATED = ("id", "version", "action_repeat")
"""Contract entries of an exported policy that the input size does not determine."""

__getattr__ = moved(__name__, {"Entrant": "sparring.agents.opponents.duelists:Duelist"})


def contract_of(obs_dim: int, stated: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the contract of a policy with `obs_dim` inputs, with defaults for missing entries."""
    if obs_dim not in SIZES:
        return None
    rules, observe_physics = SIZES[obs_dim]
    ours = str(stated.get("id", "")).startswith("sparring/")
    trained = {key: stated[key] for key in _STATED if key in stated} if ours else {}
    game = {"id": ENV_ID, "version": VERSION, "action_repeat": ACTION_REPEAT, **trained}
    observed = {"rules": rules, "obs_dim": obs_dim, "observe_physics": observe_physics}
    return game | observed | {"continuous": 3, "binary": 0, "mirror": False}


def notes_on(file: OnnxFile, name: str) -> tuple[str, ...]:
    """Return a note on an ONNX agent that is too large for the public challenge."""
    limits = {"parameters": (file.parameters, MAX_PARAMETERS), "bytes": (file.size, MAX_BYTES)}
    over = [f"{size:,} {what} (at most {most:,})" for what, (size, most) in limits.items() if size > most]
    if not over or file.contract["rules"] != "challenge":
        return ()
    return (f"{name} has {' and '.join(over)}, so the public challenge would refuse it",)


DUELS = DuelGame(
    GAME,
    contract_of,
    lambda contract: (observation_space(contract["rules"], contract["observe_physics"]), action_space()),
    steering=2,
    actions="turn, throttle and shoot",
    wanted="one input float32 [1, D], D being 224 (challenge), 59 or 46 (classic), and one output float32 [1, 3]",
    onnx_notes=notes_on,
    scripts=HELD_OUT_SOURCES | PRACTICE_SOURCES,
)
open_player, load_policy, frozen_policies, load_observing_policy = DUELS.open, DUELS.load, DUELS.frozen, DUELS.loaded
