"""Section `env` of a run: what all games share; `envs/<game>/config.py` has the rest.

The version in an id increases when the same actions no longer lead to the same observations or rewards, so training
under the two versions differs. `RETIRED` lists the ids that are no longer registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparring.configs.core.allowed import Form, option

DOGFIGHT = "sparring/Dogfight-v1"
DIPLOMACY_BOTS = ("random", "chaos", "defensive", "territorial", "coordinated", "dumbbot")
SEED_BOTS = ("chaos_seed", "coordinated_seed", "territorial_seed", "dumbbot_seed")
"""Variants of bots from the original system (docs/envs/diplomacy_bots.md)."""
OWN = "sparring"
"""The module that registers the project's own ids, which is imported anyway."""
PACKAGES = ("pettingzoo", "openspiel")
"""Supported game packages: the values of `env.package`, and the prefixes of their ids in policies."""
PROBABILITY = "[0, 1]"
ENV_ID = Form(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{0,99}", "an id known to Gymnasium, such as CartPole-v1")
FUNCTION = Form(r"([A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?)?", "module:name of a Python function")
PROGRAM = Form(r"[^\x00\n]+", "a UCI engine: the name of a program on PATH, or its path")
PATH = Form(r"[^\x00\n]+", "a path")
APPENDED = ("observe_physics", "observe_ground")
"""Options and contract keys that append columns to an observation; policies without them can still play."""
MEMORY = ("network.memory", "ppo.sequence_length")
"""Options of recurrent networks."""
EXPLOITED = ("evaluation.exploit_every", "evaluation.exploit_moves")
"""Options only for games whose states can be copied."""
ONLY_IMPORTED = ("network.encoder", "self_play.both_seats", "self_play.pool_share", *EXPLOITED)
"""Options of games whose seats are played by one network, with masks and pictures, and those of copies."""
STYLES = (
    "network.styles", "self_play.exploiter_every", "self_play.exploiter_updates", "self_play.lineages",
)  # fmt: skip
"""Options of populations, for two-seat games in which all seats decide in every step."""


@dataclass
class EnvConfig:
    """Environment and number of copies."""

    id: str = option(DOGFIGHT, ENV_ID)
    """The dogfight, Diplomacy, or any Gymnasium environment (`env=gymnasium env.id=CartPole-v1`)."""
    num_envs: int = option(256, "[1, 1000000]")
    """Number of parallel matches or copies of the environment."""

    @property
    def program(self) -> str:
        """Program in `env.engine.path` that the environment starts; empty if there is none or it is a known one."""
        return ""

    @property
    def module(self) -> str:
        """Module whose code runs when the environment is created; empty if the module is known and harmless."""
        module, colon, _ = self.id.partition(":")
        return module if colon and module != OWN else ""

    @property
    def files(self) -> dict[str, str]:
        """Options by key whose text may name a file for the environment to read or write."""
        return {}


@dataclass(frozen=True)
class Retired:
    """Fault of the environment, worded to follow "its" or "whose", and the id to use instead."""

    reason: str
    successor: str


POLICY_FORMAT, POLICY_FORMAT_VERSION = "sparring-checkpoint", 2
"""Of a policy's file. 1: no policy uses mirrored observations. 2: the contract key `mirror` states whether it does."""
ADAPTER = "sparring-adapter"
"""Format entry of adapter files."""
DOGFIGHT_V0 = "sparring/Dogfight-v0"
RETIRED = {
    DOGFIGHT_V0: Retired(
        "scripted bots and challenge observations differed from the game they are named after", DOGFIGHT
    )
}
LET_IT_PLAY = "eval/run.py --env-version 0"
"""Option that lets an old policy play in its environment's new version."""


def is_retired(env_id: str) -> bool:
    """Return whether an id, with or without the prefix `module:`, is no longer registered."""
    return _bare(env_id) in RETIRED


def id_message(env_id: str) -> str:
    """Return the error for a retired `env.id`: the reason and the id to use."""
    old = RETIRED[_bare(env_id)]
    return f"env.id={env_id}: is no longer registered, because its {old.reason}; use env.id={old.successor}"


def run_message(run: object, env_id: str) -> str:
    """Return the message for a run that cannot resume, with the alternative."""
    old = RETIRED[_bare(env_id)]
    return (
        f"{run}: was trained under {_bare(env_id)}, whose {old.reason}, and cannot be resumed under {old.successor}; "
        f"start a new run under another name=; the old policies can play with {LET_IT_PLAY}"
    )


def current_id(env_id: str) -> str:
    """Return the id under which an environment is registered today: `env_id` itself unless it is retired."""
    return RETIRED[_bare(env_id)].successor if is_retired(env_id) else env_id


def is_imported(env: Mapping[str, Any]) -> bool:
    """Return whether an `env` section, or the id in a policy's contract, is of a game of another package."""
    return "package" in env or str(env.get("id", "")).startswith(tuple(f"{package}:" for package in PACKAGES))


def _bare(env_id: str) -> str:
    return env_id.rpartition(":")[2]
