"""Descriptor of a game for the rest of the project, defined in the game's own `__init__.py`.

Registries, `--env`, lists of bots, suggestions and the trainers' adapters read it: a new game needs its package and an
entry point of the group `sparring.games`. Heavy objects are named as "module:name" and imported on first use:
the descriptors need neither torch nor Warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError, choose, moved, require_package
from sparring.configs.core.parts import parts

EXTRAS = {"chess": "chess"}
"""Packages that only some games need, and the extra of Sparring that installs each."""


__getattr__ = moved(__name__, {"text_game": "sparring.envs.text"})

WIN_RATE = "win rate"
FOREIGN_POLICIES = {".onnx": "ONNX models", ".zip": "SB3 zips"}
"""Policies that other programs wrote, by suffix."""

HELD_OUT_PREFIX = "held_out:"
"""Start of the names of scripted players that no run trains against."""


@dataclass(frozen=True)
class BuiltPlayer:
    """A player that is built from options in its name, KIND or KIND:KEY=VALUE,KEY=VALUE."""

    kind: str
    keys: tuple[str, ...]
    reader: str
    """Function "module:name" of the text that raises `InputError` for wrong options."""


@dataclass(frozen=True)
class TextMatchPlace:
    """A match in text that hubs of environments offer (`envs/hubs/matches.py`)."""

    name: str
    opens: str
    """Function "module:name" of its options, all by keyword, that returns a `TextMatch`."""
    seat_option: str = ""
    """Option that names the caller's seat, or all seats; empty for a match of one seat."""
    private: bool = False
    """Prompts tell a seat what no other seat may know, so each seat needs a conversation of its own."""
    compact: tuple[tuple[str, Any], ...] = ()
    """Options for models that know the project's own prompts, and no chat."""


@dataclass(frozen=True)
class Game:
    """Descriptor of a game. References are "module:name", and empty if the game does not have the object."""

    name: str
    """Name for `--env`, and prefix of the names of its released policies."""
    id: str
    """Registered id, with the version."""
    title: str
    """Name within sentences."""
    seats: int
    """Number of players of a match."""
    bots: tuple[str, ...]
    """Scripted players by number."""
    first_run: str
    """Run file that trains a first policy."""
    response_run: str = ""
    """Run file of a best response to one of its policies."""
    response_options: tuple[str, ...] = ()
    """Options of a policy's own matches that its contract leaves open, and that best responses to it have."""
    order: int = 100
    """Its position in lists, ascending; the first game is the one that a command means where none is named."""
    held_out: tuple[str, ...] = ()
    """Scripted players that evaluations name and runs do not train against."""
    held_out_set: tuple[str, ...] = ()
    """Opponents that evaluations sum up apart: the set held_out, which released policies may belong to."""
    batch: str = ""
    """Native batch of matches."""
    parallel_env: str = ""
    """PettingZoo environment with all seats open, which act together."""
    aec_env: str = ""
    """PettingZoo environment with all seats open, which act in turn."""
    variants: tuple[str, ...] = ()
    """Those of the bots that play only where they are named."""
    env: str = ""
    """`gymnasium.Env` with one seat open."""
    vector_env: str = ""
    """`gymnasium.vector.VectorEnv` with one seat open in each match."""
    text_envs: tuple[tuple[str, str], ...] = ()
    """Ids and `gymnasium.Env`s of the game's tasks in text, each of one step."""
    version: int = 1
    """Increased when the same actions no longer lead to the same observations or rewards."""
    changes: tuple[str, ...] = ()
    """What each of the latest versions changed, oldest first: policies of the versions before these still play."""
    win: str = WIN_RATE
    """What its win rates count, in a few words."""
    physics: str = ""
    """Bounds of its parameters between two levels, `f(previous, level, fraction)` float32 [K, 2], where its physics can
    be randomized."""
    action_space: str = ""
    """`gymnasium.Space` of one seat's native action, made without arguments; empty where its contract says all."""
    mirror: str = ""
    """Symmetry (`envs.batched.SeatView`) of policies with `mirror` in their contract."""
    array_mirror: str = ""
    """The same on arrays of NumPy, for policies that play without torch."""
    contract_keys: tuple[str, ...] = ()
    """Keys of its policies' contracts, in addition to ids and sizes."""
    network: str = ""
    """Family of its own networks, a `NetworkFamily`; empty if it uses the common network."""
    export: str = ""
    """ONNX export `(checkpoint, path, *, free)` of its policies, returns the difference; empty: the common one."""
    foreign_policies: tuple[str, ...] = ()
    """Suffixes of `FOREIGN_POLICIES` that can play it."""
    runs: str = ""
    """Kinds of run, a tuple of `RunConfig` classes, each with the game's section `env`."""
    ppo_task: str = ""
    """Adapter for PPO training (`agents/ppo/tasks`)."""
    open_player: str = ""
    """Function `(x, device="cpu", **options)` that makes a player of anything that names one: a bot, a file, a run, a
    Python object."""
    built_players: tuple[BuiltPlayer, ...] = ()
    """Players that `open_player` builds from options."""
    policy_loader: str = ""
    """Loader of its policies for `sparring.load`: a function of a file and a device."""
    evaluation: str = ""
    """Evaluation of `eval/run.py` and `sparring.evaluate`: a `GameEvaluation`, its options and what plays them."""
    results: tuple[str, int] = ("", 0)
    """Kind and version of the JSON file of its evaluations."""
    comparable: tuple[str, ...] = ()
    """Entries of that file that must agree for its win rates to be comparable, beside id, games, seed and options."""
    payoff: str = ""
    """Payoff matrix of `eval/payoff.py` and `sparring.payoff`: a `GamePayoff`, its options and what plays them."""
    exploit: str = ""
    """Best responses of `eval/exploit.py`, where `response_run` does not say all: fields of a `ResponseGame`."""
    attackers: tuple[str, ...] = ()
    """Its attacks where none is named, in place of those that train."""
    play: str = ""
    """Page for people of `eval/play.py` and `sparring.play`: a `BrowserGame`, its options and what serves it."""
    speeds: str = ""
    """What `sparring bench` measures of it, `Speed`s."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Names for `--env` and `env=` of some of the games that `env.id` chooses among, each with that id."""
    needs: tuple[str, ...] = ()
    """Modules of other parts without which the game is not listed."""
    text_game: str = ""
    """Text interface for language models, an `envs.text.TextGame`."""
    text_matches: tuple[TextMatchPlace, ...] = ()
    """Its matches in text for hubs of environments."""

    @property
    def default_bots(self) -> tuple[str, ...]:
        """Bots that play where none are named."""
        return tuple(bot for bot in self.bots if bot not in self.variants)

    def builds(self, text: object) -> bool:
        """Return whether a text names one of `built_players`; raises `InputError` for wrong options."""
        for player in self.built_players:
            if isinstance(text, str) and (text == player.kind or text.startswith(f"{player.kind}:")):
                load(player.reader)(text)
                return True
        return False

    def opponent(self, opponent: Any, contract: dict[str, Any], device: Any = "cpu") -> Any:
        """Return a scripted player's name, or a player that can play matches of `contract` in an environment.

        Raises `InputError` for an unknown name, for another contract, and for a policy with memory.
        """
        player = load(self.open_player)(opponent, device).opponent()
        if not isinstance(player, str):
            player.check(contract)
            player.refuse_memory("which an environment does not carry for an opponent")
        return player

    @property
    def language_models(self) -> bool:
        """True if language models can play it."""
        return bool(self.text_game)


@cache
def games() -> tuple[Game, ...]:
    """Return all games by their `order`, those of other installed packages last."""
    return tuple(parts("games").values())


def aliases() -> dict[str, tuple[Game, str]]:
    """Return the names that stand for a game and a value of `env.id`, each with both."""
    return {name: (game, env_id) for game in games() for name, env_id in game.aliases}


def game_of(env_id: str) -> Game | None:
    """Return the game with this id, None if the project has no such game."""
    return next((game for game in games() if game.id == env_id), None)


def game_named(name: str) -> Game:
    """Return the game with this name; raises `UnknownNameError`."""
    choose("game", name, [game.name for game in games()])
    return next(game for game in games() if game.name == name)


def game_with_id(env_id: str) -> Game:
    """Return the game with this id; raises `InputError` for an unknown id."""
    game = game_of(env_id)
    if game is None:
        raise InputError(f"env.id={env_id}: is not a game here; choose from {', '.join(g.id for g in games())}")
    return game


def check_plays(path: Path, game: Game | None = None) -> None:
    """Raise `InputError` for a file of another project's format, unless such files play `game`."""
    if path.suffix in FOREIGN_POLICIES and not (game and path.suffix in game.foreign_policies):
        only = ", ".join(entry.title for entry in games() if path.suffix in entry.foreign_policies)
        why = f", and actions of {game.title} are not plain numbers" if game else ""
        kind = FOREIGN_POLICIES[path.suffix]
        raise InputError(f"{path}: {kind} play only {only} and in Gymnasium{why}; give a .pt file or a run's name")


def plain_bot(name: str) -> str:
    """Return the bot that `name` is a variant of, such as chaos for chaos_seed; any other name is returned as it is."""
    return name.removesuffix("_seed") if any(name in game.variants for game in games()) else name


def load(reference: str) -> Any:
    """Import the object named "module:name". References come from `Game` records, never from files or command lines.

    Raises `InputError` if it needs a package of an extra that is missing.
    """
    module, _, name = reference.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sparring."):
            raise InputError(f"{module}: this installation lacks it; install sparring with all its parts") from error
        if error.name in EXTRAS:
            require_package(error.name, EXTRAS[error.name])
        raise
