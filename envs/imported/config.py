"""Options of imported environments: `env` sections and run types for Gymnasium, PettingZoo and OpenSpiel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sparring.configs.core.allowed import Form, option
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.parts import RunsPlace
from sparring.configs.games import (
    ENV_ID,
    FUNCTION,
    MEMORY,
    ONLY_IMPORTED,
    PACKAGES,
    STYLES,
    EnvConfig,
)
from sparring.configs.schema import (
    DOGFIGHT_CHECKS,
    GYMNASIUM,
    IMPORTED,
    RANDOM,
    NamedOpponentsRunConfig,
    NetworkConfig,
    PhaseConfig,
    PPORunConfig,
    StageConfig,
)
from sparring.envs.game import load

FUNCTIONS = ("parallel_env", "env", "raw_env")
"""Factory functions of a game module, the preferred one first: simultaneous moves where available."""
KNOWN_GAME = re.compile(
    rf"(pettingzoo\.(atari|butterfly|classic|magent|mpe|sisl)|mpe2)\.[a-z]\w*_v\d+(:({'|'.join(FUNCTIONS)}))?"
)
"""PettingZoo games that a file may name: versioned modules with their own factory functions. Any other module or
function runs only if the command line names it."""
FILE_OPTION = re.compile(
    r"(file|filename|path|dir)s?$|(^|_)(file|filename|path|dir|directory|folder)s?(_|$)", re.IGNORECASE
)
"""Names of game options that refer to a file the game reads or writes."""
FILE_TEXT = re.compile(r"[/\\]|(file|filename|path|dir)s?\s*=", re.IGNORECASE)
"""A path, or a nested game with such an option, as in efg_game(filename=x)."""
OBSERVATIONS = ("auto", "information_state", "observation")
TWIN = ("auto", "off", "on")
GAME_ID = Form(
    r"[A-Za-z_][A-Za-z0-9_.]{0,199}(:[A-Za-z_]\w{0,99})?",
    "a module such as pettingzoo.classic.connect_four_v3, module:function, or the short name of an OpenSpiel game",
)
KWARGS = Form(r".*", "a mapping of the game's options, as in env.kwargs.board_size=3")
ROLE = Form(
    r"[^\x00\n]{1,1000}",
    "the names of the seats that share a policy, with * for any letters and + between names, as in adversary_*",
)


@dataclass
class GymnasiumEnvConfig(EnvConfig):
    """Copies of any Gymnasium environment, with observations and rewards of any scale."""

    id: str = option("CartPole-v1", ENV_ID)
    normalize_obs: bool = False
    """Divide by a running standard deviation, after subtracting a running mean."""
    normalize_reward: bool = False
    """Divide by a running standard deviation of the discounted return."""
    scale_actions: bool = True
    """Scale actions from [-1, 1] to bounds that do not suit a new network: integers, and those outside [-4, 4], within
    [-0.3, 0.3] or on one side of 0. Otherwise all are clipped."""
    vector: bool = True
    """Use the environment's own vector environment if its id has one that resets episodes in the same step."""


@dataclass
class ImportedEnvConfig(EnvConfig):
    """Matches of an imported game."""

    package: str = option("pettingzoo", PACKAGES)
    """pettingzoo: any game with an AECEnv or ParallelEnv interface. openspiel: an OpenSpiel game (extra open-spiel)."""
    id: str = option("pettingzoo.classic.tictactoe_v3", GAME_ID)
    """The module of a game, module:function that makes one, a name of OpenSpiel's registry, or module:name of a game
    that the module registers there."""
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"allowed": KWARGS})
    """Options of the game itself: numbers, booleans and strings by name."""
    num_envs: int = option(16, "[1, 1000000]")
    """Matches played at once; a multiple of the seats."""
    workers: int = option(0, "[0, 256]")
    """Number of worker processes that step the matches; 0 steps them in the main process."""
    observation: str = option("auto", OBSERVATIONS, needs=["env.package=openspiel"])
    """Observation of an OpenSpiel game: information_state, observation, or auto for the first one available."""
    twin: str = option("auto", TWIN, needs=["env.package=pettingzoo"])
    """Play a PettingZoo game in OpenSpiel: `on`, `off` or `auto`. `auto` does so if OpenSpiel's game reproduces 200
    random games exactly; `on` raises an error if it does not."""
    seat: int = option(-1, "[-1, 61]", needs=["self_play.both_seats=false"])
    """The seat that learns, counted from 0; opponents play the others. -1: all seats, equally often."""
    roles: list[str] = field(default_factory=list, metadata={"allowed": ROLE})
    """The seats of each policy by name, as in [adversary_*,agent_*]. Empty: seats with equal spaces and names that
    differ only by a number share one."""
    outcome: str = option("", FUNCTION)
    """Function that maps a match's total rewards [seats] to the scores [seats] that rank the seats. Empty: the totals
    are the scores."""

    @property
    def module(self) -> str:
        """See `EnvConfig`."""
        return module_of_game(self.package, self.id)

    @property
    def files(self) -> dict[str, str]:
        """See `EnvConfig`."""
        return {f"env.kwargs.{name}": text for name, text in files_of_game("", self.kwargs).items()}


@dataclass
class GymnasiumRunConfig(PPORunConfig):
    """PPO in a Gymnasium environment, without opponents."""

    game, title, ppo_task = GYMNASIUM, "Gymnasium", "sparring.envs.imported.training.gymnasium:GymnasiumTask"
    lacks = (
        "phases.stages", "phases.scripted_start", "phases.scripted_end", "phases.randomization", "self_play",
        "evaluation", *MEMORY, *STYLES, *ONLY_IMPORTED,
    )  # fmt: skip

    env: GymnasiumEnvConfig = field(default_factory=GymnasiumEnvConfig)
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig("training")])


@dataclass
class ImportedRunConfig(NamedOpponentsRunConfig):
    """PPO in a game of PettingZoo or OpenSpiel, by self-play and against a random player."""

    trainers: ClassVar[tuple[str, ...]] = ("ppo",)
    game, title, bots, seats = IMPORTED, "imported games", (RANDOM,), 2
    ppo_task = "sparring.envs.imported.training.task:ImportedTask"
    lacks = (
        "network.gsde", "ppo.gsde_every", "phases.randomization", *DOGFIGHT_CHECKS, *STYLES,
    )  # fmt: skip

    env: ImportedEnvConfig = field(default_factory=ImportedEnvConfig)
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(encoder="by_size"))
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig(stages=[StageConfig(bots=[RANDOM])])])

    def check(self) -> None:
        """Raise `ConfigError` if the sampling attack cannot copy the game's states."""
        super().check()
        if not (every := self.evaluation.exploit_every):
            return
        label = f"evaluation.exploit_every={every}"
        if self.env.package != "openspiel":
            why = f"needs to copy game states, which {self.env.package} does not support"
            raise ConfigError(f"{label}: {why}; leave it out; `sparring exploit RUN` trains best responses")

    def check_opponents(self) -> None:
        """Raise `ConfigError` if the game does not support a promotion test."""
        if self.self_play.promotion_games:
            load("sparring.envs.imported.match:check_promotion")(self.env, self.self_play.promotion_games)


def module_of_game(package: str, game_id: str) -> str:
    """Return the module whose code runs when a game is created, empty for the packages' own games."""
    if package == "openspiel":
        return game_id.partition("(")[0].rpartition(":")[0]  # it registers the game
    return "" if KNOWN_GAME.fullmatch(game_id) else game_id.partition(":")[0]


def files_of_game(game_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a game that may name a file; the key `id` holds an id with such an option."""
    texts = {"id": game_id, **kwargs}
    return {
        name: text
        for name, text in texts.items()
        if isinstance(text, str) and text and (FILE_OPTION.search(name) or FILE_TEXT.search(text))
    }


RUNS = RunsPlace((GymnasiumRunConfig, ImportedRunConfig))
"""Run types of other packages."""
