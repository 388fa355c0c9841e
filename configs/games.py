"""Section `env` of a run: of games of other packages, and what all share; `envs/<game>/config.py` has the others.

The version in an id rises when the same actions no longer lead to the same observations or rewards; training under the
old version then differs from training under the new one. `RETIRED` has the ids that are no longer registered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparring.configs.core.allowed import Form, option

DOGFIGHT = "sparring/Dogfight-v1"
DIPLOMACY_BOTS = ("random", "chaos", "defensive", "territorial", "coordinated", "dumbbot")
SEED_BOTS = ("chaos_seed", "coordinated_seed", "territorial_seed", "dumbbot_seed")
"""Variants of bots as they are in the original system (docs/envs/diplomacy_bots.md)."""
OWN = "sparring"
"""The module that registers the project's own ids, which is imported anyway."""
PACKAGES = ("pettingzoo", "openspiel")
"""Packages whose games are played here: the values of `env.package`, and the beginnings of their ids in policies."""
FUNCTIONS = ("parallel_env", "env", "raw_env")
"""Functions of a module that make its game, the preferred one first: all seats act at once where that is offered."""
KNOWN_GAME = re.compile(
    rf"(pettingzoo\.(atari|butterfly|classic|magent|mpe|sisl)|mpe2)\.[a-z]\w*_v\d+(:({'|'.join(FUNCTIONS)}))?"
)
"""Games of PettingZoo that a file may name: numbered modules of its packages, made by their own functions. Any other
module or function runs only when a command line names it."""
FILE_OPTION = re.compile(
    r"(file|filename|path|dir)s?$|(^|_)(file|filename|path|dir|directory|folder)s?(_|$)", re.IGNORECASE
)
"""Names of a game's own options that give a file, which the game reads or writes."""
FILE_TEXT = re.compile(r"[/\\]|(file|filename|path|dir)s?\s*=", re.IGNORECASE)
"""A path, or a game inside another with such an option, as in efg_game(filename=x)."""
OBSERVATIONS = ("auto", "information_state", "observation")
PROBABILITY = "[0, 1]"
ENV_ID = Form(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{0,99}", "an id known to Gymnasium, such as CartPole-v1")
GAME_ID = Form(
    r"[A-Za-z_][A-Za-z0-9_.]{0,199}(:[A-Za-z_]\w{0,99})?",
    "a module such as pettingzoo.classic.connect_four_v3, module:function, or the short name of a game of OpenSpiel",
)
KWARGS = Form(r".*", "a mapping of the game's own options, as in env.kwargs.board_size=3")
FUNCTION = Form(r"([A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?)?", "module:name of a Python function")
ROLE = Form(
    r"[^\x00\n]{1,1000}",
    "the names of the seats that share a policy, with * for any letters and + between names, as in adversary_*",
)
PROGRAM = Form(r"[^\x00\n]+", "a UCI engine: the name of a program on PATH, or its path")
PATH = Form(r"[^\x00\n]+", "a path")
APPENDED = ("observe_physics", "observe_ground")
"""Options, and keys of a contract, that append columns to an observation; policies without them play all the same."""
MEMORY = ("network.memory", "ppo.sequence_length")
"""Options of recurrent networks."""
EXPLOITED = ("evaluation.exploit_every", "evaluation.exploit_moves")
"""Options of games whose states can be copied."""
ONLY_IMPORTED = ("network.encoder", "self_play.both_seats", "self_play.pool_share", *EXPLOITED)
"""Options of games whose seats are played by one network, with masks and pictures, and those of copies."""
STYLES = (
    "network.styles", "self_play.below_share", "self_play.exploiter_every", "self_play.exploiter_updates",
    "self_play.lineages",
)  # fmt: skip
"""Options of populations, in games of two seats in which all decide in every step."""
MAGNET = ("ppo.magnet_coefficient", "ppo.magnet_rate", "ppo.proximal_coefficient")
"""Options of self-play by magnetic mirror descent."""


@dataclass
class EnvConfig:
    """Environment, and number of copies."""

    id: str = option(DOGFIGHT, ENV_ID)
    """The dogfight, Diplomacy, or any Gymnasium environment (`env=gymnasium env.id=CartPole-v1`)."""
    num_envs: int = option(256, "[1, 1000000]")
    """Matches, or copies of the environment, played at once."""

    @property
    def program(self) -> str:
        """Program, named in `env.engine.path`, that the environment starts; empty if there is none, or a known one."""
        return ""


@dataclass
class GymnasiumEnvConfig(EnvConfig):
    """Copies of any Gymnasium environment, with values of any size."""

    id: str = option("CartPole-v1", ENV_ID)
    normalize_obs: bool = False
    """Divide by a running standard deviation, after subtracting a running mean."""
    normalize_reward: bool = False
    """Divide by a running standard deviation of the discounted return."""
    scale_actions: bool = True
    """Scale actions from [-1, 1] to bounds that do not suit a new network: integers, and those outside [-4, 4], within
    [-0.3, 0.3] or on one side of 0. Otherwise all are clipped."""
    vector: bool = True
    """Step the environment's own vector environment, where its id has one that restarts episodes in time."""


@dataclass
class ImportedEnvConfig(EnvConfig):
    """Matches of a game of another package."""

    package: str = option("pettingzoo", PACKAGES)
    """pettingzoo: any game with its interface, AECEnv or ParallelEnv. openspiel: a game of OpenSpiel (extra
    open-spiel)."""
    id: str = option("pettingzoo.classic.tictactoe_v3", GAME_ID)
    """The module of a game, module:function that makes one, or a name of OpenSpiel's registry."""
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"allowed": KWARGS})
    """Options of the game itself: numbers, truth values and texts by name."""
    num_envs: int = option(16, "[1, 1000000]")
    """Matches played at once; a multiple of the seats."""
    workers: int = option(0, "[0, 256]")
    """Processes that step the matches; 0 steps them in the run's own."""
    observation: str = option("auto", OBSERVATIONS, needs=["env.package=openspiel"])
    """What a game of OpenSpiel shows: information_state, observation, or auto, the first of them that it has."""
    roles: list[str] = field(default_factory=list, metadata={"allowed": ROLE})
    """The seats of each policy by name, as in [adversary_*,agent_*]; empty: those whose names differ by a number only
    and whose spaces are equal share one."""
    outcome: str = option("", FUNCTION)
    """Function from the rewards of a match, summed [seats], to scores [seats], which find the seats in the lead; empty
    takes the sums."""


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
"""Option for an old policy in its environment's new version."""


def is_retired(env_id: str) -> bool:
    """Return whether an id, with or without `module:` before it, was registered and is not any more."""
    return _bare(env_id) in RETIRED


def id_message(env_id: str) -> str:
    """Return the error for a retired `env.id`: the reason and the id to use."""
    old = RETIRED[_bare(env_id)]
    return f"env.id={env_id}: is no longer registered, because its {old.reason}; use env.id={old.successor}"


def run_message(run: object, env_id: str) -> str:
    """Return why a run, named by its folder, cannot resume, and the alternative."""
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


def module_of(env: EnvConfig) -> str:
    """Return the module whose code runs when an environment is made, empty if that is known and harmless."""
    if isinstance(env, ImportedEnvConfig):
        return module_of_game(env.package, env.id)
    module, colon, _ = env.id.partition(":")
    return module if colon and module != OWN else ""


def module_of_game(package: str, game_id: str) -> str:
    """Return the module whose code runs when a game of `PACKAGES` is made, empty for the packages' own games."""
    return "" if package == "openspiel" or KNOWN_GAME.fullmatch(game_id) else game_id.partition(":")[0]


def files_of_game(game_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a game of `PACKAGES` that may name a file; under `id` an id that holds such an option."""
    texts = {"id": game_id, **kwargs}
    return {
        name: text
        for name, text in texts.items()
        if isinstance(text, str) and text and (FILE_OPTION.search(name) or FILE_TEXT.search(text))
    }


def files_of(env: EnvConfig) -> dict[str, str]:
    """Return what `files_of_game` does for an environment, by the options' keys; empty for other kinds."""
    named = files_of_game("", env.kwargs) if isinstance(env, ImportedEnvConfig) else {}
    return {f"env.kwargs.{name}": text for name, text in named.items()}


def _bare(env_id: str) -> str:
    return env_id.rpartition(":")[2]
