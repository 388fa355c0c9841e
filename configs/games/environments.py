"""Options of environments, one section for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparring.configs.core.allowed import Form, option
from sparring.configs.games.chess import ChessDataConfig, EngineConfig

DOGFIGHT = "sparring/Dogfight-v1"
DIPLOMACY = "sparring/Diplomacy-v0"
CHESS = "sparring/Chess-v0"
RULES = ("classic", "challenge")
BOT_RATES = ("tick", "agent")
SPAWNS = ("random", "fixed")
WEIGHT = "[-1000, 1000]"
PROBABILITY = "[0, 1]"
ENV_ID = Form(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{0,99}", "an id known to Gymnasium, such as CartPole-v1")


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
