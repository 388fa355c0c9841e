"""Options of environments of other packages: sections `env` and kinds of run of Gymnasium, PettingZoo and OpenSpiel."""

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
TWIN = ("auto", "off", "on")
GAME_ID = Form(
    r"[A-Za-z_][A-Za-z0-9_.]{0,199}(:[A-Za-z_]\w{0,99})?",
    "a module such as pettingzoo.classic.connect_four_v3, module:function, or the short name of a game of OpenSpiel",
)
KWARGS = Form(r".*", "a mapping of the game's own options, as in env.kwargs.board_size=3")
ROLE = Form(
    r"[^\x00\n]{1,1000}",
    "the names of the seats that share a policy, with * for any letters and + between names, as in adversary_*",
)


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
    """The module of a game, module:function that makes one, a name of OpenSpiel's registry, or module:name of a game
    that the module registers there."""
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"allowed": KWARGS})
    """Options of the game itself: numbers, truth values and texts by name."""
    num_envs: int = option(16, "[1, 1000000]")
    """Matches played at once; a multiple of the seats."""
    workers: int = option(0, "[0, 256]")
    """Processes that step the matches; 0 steps them in the run's own."""
    observation: str = option("auto", OBSERVATIONS, needs=["env.package=openspiel"])
    """What a game of OpenSpiel shows: information_state, observation, or auto, the first of them that it has."""
    twin: str = option("auto", TWIN, needs=["env.package=pettingzoo"])
    """Play the matches of a game of PettingZoo in OpenSpiel: `on`, `off` or `auto`. `auto` does so if OpenSpiel's game
    replays 200 random games equally; `on` raises an error if it does not."""
    seat: int = option(-1, "[-1, 61]", needs=["self_play.both_seats=false"])
    """The only seat that learns, from 0; opponents have the others. -1: all seats, equally often."""
    roles: list[str] = field(default_factory=list, metadata={"allowed": ROLE})
    """The seats of each policy by name, as in [adversary_*,agent_*]; empty: those whose names differ by a number only
    and whose spaces are equal share one."""
    outcome: str = option("", FUNCTION)
    """Function from the rewards of a match, summed [seats], to scores [seats], which find the seats in the lead; empty
    takes the sums."""

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
        """Refuse the attack by sampling where it cannot copy states; raises `ConfigError`."""
        super().check()
        if not (every := self.evaluation.exploit_every):
            return
        label = f"evaluation.exploit_every={every}"
        if self.env.package != "openspiel":
            why = f"needs copies of a game's states, which {self.env.package} does not make"
            raise ConfigError(f"{label}: {why}; leave it out, `sparring exploit RUN` trains best responses")

    def check_opponents(self) -> None:
        """Refuse a test of promotion in a game that cannot have one; raises `ConfigError`."""
        if self.self_play.promotion_games:
            load("sparring.envs.imported.match:check_promotion")(self.env, self.self_play.promotion_games)


def module_of_game(package: str, game_id: str) -> str:
    """Return the module whose code runs when a game of `PACKAGES` is made, empty for the packages' own games."""
    if package == "openspiel":
        return game_id.partition("(")[0].rpartition(":")[0]  # it registers the game
    return "" if KNOWN_GAME.fullmatch(game_id) else game_id.partition(":")[0]


def files_of_game(game_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a game of `PACKAGES` that may name a file; under `id` an id that holds such an option."""
    texts = {"id": game_id, **kwargs}
    return {
        name: text
        for name, text in texts.items()
        if isinstance(text, str) and text and (FILE_OPTION.search(name) or FILE_TEXT.search(text))
    }


RUNS = RunsPlace((GymnasiumRunConfig, ImportedRunConfig))
"""Kinds of run of other packages."""
