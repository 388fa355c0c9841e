"""Options of the dogfight: its `env` section and its run type."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

from sparring.configs.core.allowed import option
from sparring.configs.games import DOGFIGHT, FUNCTION, ONLY_IMPORTED, PROBABILITY, EnvConfig
from sparring.configs.schema import WITHOUT_POOL, NamedOpponentsRunConfig
from sparring.envs.dogfight.rules import BOTS, RULES

WEIGHT = "[-1000, 1000]"
CLOSING = "[0, 90)"


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
    zero_sum: bool = False
    """Each seat gets half of the difference of both seats' rewards, so they add up to zero. The time limit then ends a
    match as a death does."""


@dataclass
class DogfightEnvConfig(EnvConfig):
    """Matches of the dogfight."""

    rules: str = option("classic", RULES)
    """classic, or challenge: the observations and rules of the public challenge (docs/envs/dogfight.md)."""
    action_repeat: int = option(10, "[1, 120]")
    """Ticks of 1/120 s for which an action is held."""
    observe_physics: bool = True
    """Append the 13 parameters of the match's physics to the observation."""
    closing: float = option(0.0, CLOSING, needs=("env.rules=classic",))
    """Second at which a circle starts to close on the arena's centre until the time limit; a fighter outside loses one
    hp per second. 0: never."""
    mirror: bool = False
    """Mirror observations to put the opponent on the right, so symmetric situations are learned once."""
    reward: RewardConfig = field(default_factory=RewardConfig)


@dataclass
class DogfightRunConfig(NamedOpponentsRunConfig):
    """PPO in the dogfight. The defaults alone are a small valid run: all five bots from the start."""

    game, title, bots, seats = DOGFIGHT, "the dogfight", BOTS, 2
    lacks = ONLY_IMPORTED
    removed = MappingProxyType({
        **NamedOpponentsRunConfig.removed,
        "env.bot_rate": "tick", "env.spawn": "random", "env.repeat_unwon": 0.0,
    })  # fmt: skip
    idle = (
        WITHOUT_POOL,
        ("env.reward.shaping=0.0", ("env.reward.exposure",)),
        ("env.rules=challenge", ("env.observe_physics",)),
    )  # fmt: skip

    env: DogfightEnvConfig = field(default_factory=DogfightEnvConfig)
    reward: str = option("", FUNCTION)
    """Function of your own in place of the simulator's reward, module:name (docs/tutorials/own_reward.md)."""


RUNS = (DogfightRunConfig,)
"""Run types of the dogfight."""
