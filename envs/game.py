"""What a game is to the rest of the project: a small record, made in the game's own `__init__.py`.

Registries, `--env`, lists of bots, suggestions and the trainers' adapters read it, so that a new game needs its room,
its name in `ROOMS` and its options in `configs/`. Everything heavy is named as "module:name" and imported when it is
first used: the records need neither torch nor Warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import InputError, choose

if TYPE_CHECKING:
    from sparring.envs.text import TextGame

ROOMS = ("dogfight", "diplomacy")
"""Packages beside this file that define a `GAME`."""


@dataclass(frozen=True)
class Game:
    """A game. References are "module:name" and empty where a game does not have the thing."""

    name: str
    """What `--env` calls it, also the beginning of its released policies' names."""
    id: str
    """Its registered id, with the version."""
    title: str
    """What sentences call it."""
    seats: int
    """Players of one match."""
    bots: tuple[str, ...]
    """Scripted players by number."""
    first_run: str
    """The run file that trains a first policy."""
    batch: str
    """The native batch of matches."""
    parallel_env: str
    """All seats open, as a PettingZoo environment."""
    env: str = ""
    """One seat open, as a `gymnasium.Env`."""
    vector_env: str = ""
    """One seat open in many matches, as a `gymnasium.vector.VectorEnv`."""
    version: int = 1
    """Rises when the same actions no longer lead to the same observations or rewards."""
    win: str = "won"
    """What its win rates are shares of, in a few words."""
    randomized: bool = False
    """Whether its physics can be randomized."""
    action_space: str = ""
    """The `gymnasium.Space` of one seat's native action, made without arguments."""
    mirror: str = ""
    """The symmetry (`play.learner_env.SeatView`) of policies whose contract says `mirror`."""
    contract_keys: tuple[str, ...] = ()
    """What the contract of a policy for it says besides ids and sizes."""
    network_shape: str = ""
    """The shape of its own network of a `NetworkConfig`; empty where it learns with the common one."""
    ppo_task: str = ""
    """The adapter through which PPO trains on it (`agents/ppo/tasks`)."""
    evaluation: str = ""
    """The command `main(arguments) -> exit code` behind `eval/run.py`."""
    language_models: bool = False
    """Whether language models can play it."""
    text_game: str = ""
    """What language models need to play and learn it, an `envs.text.TextGame`."""


@cache
def games() -> tuple[Game, ...]:
    """All games of the project."""
    return tuple(import_module(f"sparring.envs.{room}").GAME for room in ROOMS)


def game_of(env_id: str) -> Game | None:
    """The game with this id, None where it is none of ours."""
    return next((game for game in games() if game.id == env_id), None)


def game_named(name: str) -> Game:
    """The game with this name; raises `UnknownNameError`."""
    choose("game", name, [game.name for game in games()])
    return next(game for game in games() if game.name == name)


def game_with_id(env_id: str) -> Game:
    """The game with this id; raises `InputError` where it is none of ours."""
    game = game_of(env_id)
    if game is None:
        raise InputError(f"env.id={env_id}: is no game of this project; choose from {', '.join(g.id for g in games())}")
    return game


def text_game(env_id: str) -> TextGame:
    """What the game with this id offers in text; raises `InputError` where it has nothing to read."""
    game = game_with_id(env_id)
    if not game.text_game:
        raise InputError(f"env.id={env_id}: language models cannot play it")
    found: TextGame = load(game.text_game)
    return found


def load(reference: str) -> Any:
    """Import what "module:name" names. References come from `Game` records, never from files or command lines."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
