"""Options of the games: a section for each kind of environment, and the tasks of chess.

Chess is two text tasks: P (analysis of a position) and A (arbiter: the next position and its result). The version in
an id rises when the same actions no longer lead to the same observations or rewards; training under the old version
then differs from training under the new one. `RETIRED` has the ids that are no longer registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparring.configs.core.allowed import Form, option

DOGFIGHT = "sparring/Dogfight-v1"
DIPLOMACY = "sparring/Diplomacy-v0"
CHESS = "sparring/Chess-v0"
OWN = "sparring"
"""The module that registers the project's own ids, which is imported anyway."""
PACKAGES = ("pettingzoo", "openspiel")
"""Packages whose games are played here: the values of `env.package`, and the beginnings of their ids in policies."""
KNOWN_MODULES = ("pettingzoo", "mpe2")
"""Packages of games that a file may name; any other module is imported only when a command line names it."""
OBSERVATIONS = ("auto", "information_state", "observation")
RULES = ("classic", "challenge")
BOT_RATES = ("tick", "agent")
SPAWNS = ("random", "fixed")
WEIGHT = "[-1000, 1000]"
PROBABILITY = "[0, 1]"
ENV_ID = Form(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{0,99}", "an id known to Gymnasium, such as CartPole-v1")
GAME_ID = Form(
    r"[A-Za-z_][A-Za-z0-9_.]{0,199}(:[A-Za-z_]\w{0,99})?",
    "a module such as pettingzoo.classic.connect_four_v3, module:function, or the short name of a game of OpenSpiel",
)
KWARGS = Form(r".*", "a mapping of the game's own options, as in env.kwargs.board_size=3")
FUNCTION = Form(r"([A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?)?", "module:name of a Python function")
PROGRAM = Form(r"[^\x00\n]+", "a UCI engine: the name of a program on PATH, or its path")
PLAYER = Form(r"[^\x00\n]+", "a player of Diplomacy, such as search:positions=2000, a run or a policy")
PATH = Form(r"[^\x00\n]+", "a path")
NOT_IN_CHESS = (
    "model.backend", "model.compact", "model.show_valid_moves", "model.show_board_context", "model.show_map_windows",
    "model.show_action_counts", "model.temperature", "endpoint",
)  # fmt: skip
"""Options of language models for other games; the tasks have temperatures of their own."""
NOT_SAMPLED = tuple(f"tasks.{task}.{name}" for task in ("analysis", "arbiter") for name in ("temperature", "top_p"))
MEMORY = ("network.memory", "ppo.sequence_length")
"""Options of recurrent networks."""
ONLY_IMPORTED = (
    "network.encoder", "self_play.both_seats", "self_play.pool_share",
    "ppo.magnet_coefficient", "ppo.magnet_rate", "ppo.proximal_coefficient",
)  # fmt: skip
"""Options of games whose seats are played by one network, with masks and pictures."""
GAME_SHARES = ("random_share", "engine_share", "self_play_share")


@dataclass
class RewardConfig:
    """Reward weights of the dogfight; see `envs/dogfight/kernels/reward.py` for each term."""

    damage_dealt: float = option(3.0, WEIGHT)
    """Reward for each hp taken from the opponent."""
    damage_taken: float = option(1.0, WEIGHT)
    """Reward subtracted for each hp lost."""
    win: float = option(5.0, WEIGHT)
    """Reward at the end of a won match."""
    lose: float = option(5.0, WEIGHT)
    """Reward subtracted at the end of a lost match."""
    draw: float = option(0.0, WEIGHT)
    """Reward at the end of a drawn match."""
    approach: float = option(0.0001, WEIGHT)
    """Reward for each metre by which the distance shrank."""
    alive: float = option(0.0, WEIGHT)
    """Reward for each step survived."""
    proximity: float = option(0.001, WEIGHT)
    """Reward for each step that ends within 250 m of the opponent."""
    facing: float = option(0.0005, WEIGHT)
    """Reward for each step that ends within 300 m of the opponent, with the nose at most 30 degrees off it."""
    shaping: float = option(0.0, WEIGHT)
    """Weight of the potential-based term, gamma * phi' - phi."""
    exposure: float = option(0.0, PROBABILITY)
    """Part of the potential's aim that counts only where a shot would pass the rear armour."""


@dataclass
class EnvConfig:
    """Environment, and number of copies."""

    id: str = option(DOGFIGHT, ENV_ID)
    """The dogfight, Diplomacy, or any Gymnasium environment (`env=gymnasium env.id=CartPole-v1`)."""
    num_envs: int = option(256, "[1, 1000000]")
    """Matches, or copies of the environment, played at once."""


@dataclass
class DogfightEnvConfig(EnvConfig):
    """Matches of the dogfight."""

    rules: str = option("classic", RULES)
    """classic, or challenge: the observations and rules of the public challenge (docs/envs/dogfight.md)."""
    action_repeat: int = option(10, "[1, 120]")
    """Ticks of 1/120 s for which an action is held."""
    bot_rate: str = option("tick", BOT_RATES)
    """tick: bots decide 120 times a second; agent: once per step. Challenge rules always use agent."""
    spawn: str = option("random", SPAWNS)
    """Positions at the start of a match: drawn for each, or always the same."""
    repeat_unwon: float = option(0.0, PROBABILITY)
    """Chance that a match repeats the physics of the last one in its row that was not won against a bot, so that hard
    physics are drawn more often. The draw is repeated; changed ranges scale it."""
    observe_physics: bool = True
    """Append the 13 parameters of the match's physics to the observation."""
    mirror: bool = False
    """Show every match with the opponent on the right, mirrored where needed, so that less is learned twice."""
    reward: RewardConfig = field(default_factory=RewardConfig)


@dataclass
class DiplomacyEnvConfig(EnvConfig):
    """Games of Diplomacy."""

    id: str = option(DIPLOMACY, ENV_ID)
    last_year: int = option(1910, "[1901, 30000]")
    """Last game year: a game of Diplomacy ends with it."""


@dataclass
class EngineConfig:
    """Engine that analyses positions: labels and rewards of the P task, and games for the data."""

    path: str = option("", PROGRAM)
    """Empty takes Stockfish if it is installed (apt-get install stockfish), else the built-in search, which the run
    names; builtin takes that."""
    depth: int = option(10, "[1, 60]")
    """Search depth in half-moves."""
    processes: int = option(1, "[1, 256]")
    """Engines that search at once."""
    cache: str = option("", PATH)
    """File with the engine's values, kept between runs; empty keeps them in memory."""


@dataclass
class ChessDataConfig:
    """Positions, in games played for them: equal options give equal positions; no position is in two splits."""

    folder: str = option("", PATH)
    """Positions that `python -m sparring.envs.chess.data` wrote; empty plays the games when a run starts."""
    seed: int = option(42, "[0, 2147483647]")
    """Seed of the games and of the split."""
    plies: int = option(8, "[4, 300]")
    """Length of a game, in half-moves."""
    random_share: float = option(1.0, PROBABILITY)
    """Share of games of random moves."""
    engine_share: float = option(0.0, PROBABILITY)
    """Share of games of the engine against random moves."""
    self_play_share: float = option(0.0, PROBABILITY)
    """Share of games of the engine against itself, drawing among its best moves. The three shares sum to 1."""
    train: int = option(2000, "[1, 10000000]")
    """Positions to train on."""
    validation: int = option(200, "[1, 1000000]")
    """Positions to measure on during training."""
    held_out: int = option(500, "[1, 1000000]")
    """Positions to measure on afterwards."""


@dataclass
class ChessEnvConfig(EnvConfig):
    """Chess as text tasks: the engine that is the truth, and the positions."""

    id: str = option(CHESS, ENV_ID)
    engine: EngineConfig = field(default_factory=EngineConfig)
    data: ChessDataConfig = field(default_factory=ChessDataConfig)


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
    outcome: str = option("", FUNCTION)
    """Function from the rewards of a match, summed [seats], to scores [seats], which find the seats in the lead; empty
    takes the sums."""


@dataclass
class AnalysisConfig:
    """Answers to the P task."""

    temperature: float = option(0.5, "(0, 10]")
    """Sampling temperature."""
    top_p: float = option(0.9, "(0, 1]")
    """Draw from the likeliest tokens with this total probability; 1 from all."""
    max_tokens: int = option(256, "[1, 100000]")
    """Most tokens of an answer."""
    padded: bool = True
    """Fields of a fixed width, as the published models use; false: one space between fields."""


@dataclass
class ArbiterConfig:
    """Answers to the A task."""

    temperature: float = option(0.95, "(0, 10]")
    """Sampling temperature."""
    top_p: float = option(0.95, "(0, 1]")
    """Draw from the likeliest tokens with this total probability; 1 from all."""
    max_tokens: int = option(256, "[1, 100000]")
    """Most tokens of an answer."""


@dataclass
class ChessTasksConfig:
    """Shares of the two tasks, and the sampling of each."""

    analysis_share: float = option(0.5, PROBABILITY)
    """Part of the training on P; the rest is on A."""
    mixed: bool = False
    """Both tasks in every step; else first all steps of P, then all of A."""
    analysis: AnalysisConfig = field(default_factory=AnalysisConfig)
    arbiter: ArbiterConfig = field(default_factory=ArbiterConfig)


@dataclass(frozen=True)
class Retired:
    """Fault of the environment, worded to follow "its" or "whose", and the id to use instead."""

    reason: str
    successor: str


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
    module, colon, _ = env.id.partition(":")
    if isinstance(env, ImportedEnvConfig):
        known = env.package == "openspiel" or module.split(".")[0] in KNOWN_MODULES
        return "" if known else module
    return module if colon and module != OWN else ""


def _bare(env_id: str) -> str:
    return env_id.rpartition(":")[2]


@dataclass
class DistillConfig:
    """Imitation of a teacher of Diplomacy (`trainer=distill`)."""

    teacher: str = option("search:positions=2000", PLAYER)
    """Who names the orders to imitate: any player of Diplomacy but a bot."""
    player: str = option("", Form(f"({PLAYER.pattern})?", PLAYER.text))
    """Who plays the games that the teacher comments; empty: the teacher."""
    games: int = option(1120, "[0, 10000000]")
    """Games with new labels, rounded up to whole files of 56; 0 makes none and takes `data` alone."""
    slips: float = option(0.15, PROBABILITY)
    """Part of the phases played with DumbBot's orders, so that students see positions after a mistake."""
    data: list[str] = field(default_factory=list, metadata={"allowed": PATH})
    """Folders of further labels, as runs leave them in data/."""
    epochs: int = option(20, "[1, 100000]")
    """Passes over all labels; an update is one pass."""
    batch_size: int = option(256, "[1, 1000000]")
    """Decisions of a step."""
    learning_rate: float = option(2e-3, "(0, 1]")
    """Step size of AdamW at its highest; it warms up, then falls along a cosine to zero."""
    weight_decay: float = option(0.02, "[0, 100]")
    """Decay of the weight matrices."""
    value_share: float = option(0.25, PROBABILITY)
    """Part of the steps in which the value learns too: the power's share of the squares at the end of the game."""
    held_out: float = option(0.08, "[0, 0.9]")
    """Part of the games that is kept for the measured accuracy."""
