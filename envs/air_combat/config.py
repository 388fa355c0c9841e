"""Options of air combat: its `env` section, the reward, and its run type."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparring.configs.core.allowed import option
from sparring.configs.games import ENV_ID, ONLY_IMPORTED, PROBABILITY, EnvConfig
from sparring.configs.schema import WITHOUT_POOL, NamedOpponentsRunConfig, PhaseConfig, StageConfig
from sparring.envs.air_combat import rules

WEIGHT = "[-1000, 1000]"
GUN_NAMES = ("auto", *rules.GUNS)
TRAINED_AGAINST = tuple(bot for bot in rules.BOTS if bot not in rules.HELD_OUT)


@dataclass
class CombatReward:
    """Weights of the reward; `envs/air_combat/kernels/step.py` has the terms."""

    damage_dealt: float = option(1.0, WEIGHT)
    """Reward for taking the opponent's whole life, in parts as it is taken."""
    damage_taken: float = option(0.5, WEIGHT)
    """Reward subtracted for losing the own life, in parts as it is lost."""
    win: float = option(1.5, WEIGHT)
    """Reward at the end of a won match."""
    lose: float = option(1.5, WEIGHT)
    """Reward subtracted at the end of a lost match."""
    draw: float = option(-1.5, WEIGHT)
    """Reward at the end of a drawn match."""
    shaping: float = option(0.3, WEIGHT)
    """Weight of the potential of angles and range, gamma * phi' - phi."""
    ammunition: float = option(0.0, WEIGHT)
    """Reward subtracted for firing the whole magazine of single rounds, in parts as it is fired."""
    ground: float = option(0.0, WEIGHT)
    """Weight of the ground potential. An impact does not refund it, so it costs this much in addition to the loss."""


@dataclass
class AirCombatEnvConfig(EnvConfig):
    """Matches of air combat."""

    id: str = option(rules.ENV_ID, ENV_ID)
    model: str = option("point_mass", rules.MODELS)
    """Flight model: point_mass (an F-16), f16 with six degrees of freedom, or f4, a point mass. A policy of one also
    flies the others."""
    gun: str = option("auto", GUN_NAMES)
    """cone, or rounds for simulated bullets; auto is rounds for the f16, else cone."""
    action_repeat: int = option(rules.ACTION_REPEAT, "[1, 60]")
    """Ticks of 1/60 s for which an action is held."""
    chase: float = option(0.0, PROBABILITY)
    """Chance that a match begins with one aircraft 300 to 1500 m behind the other, for early shots. Evaluations begin
    even."""
    low_start: float = option(0.0, PROBABILITY)
    """Chance that a match begins at a height of 60 to 1500 m, half of them below 300 m. Evaluations begin high."""
    ground_limit: float = option(0.0, rules.GROUND_LIMIT)
    """Minimum height in m of aircraft flown by actions: a pull-out replaces actions that would end lower. 0: no limit.
    Scripted pilots have their own limit. Applies in evaluations too."""
    missiles: int = option(0, "[0, 8]")
    """Infrared missiles per aircraft at the start."""
    flares: int = option(0, "[0, 120]")
    """Flares per aircraft at the start."""
    radar: bool = False
    """Show the opponent only while radar or eyesight detects it, and for 10 s afterwards."""
    team_size: int = option(1, "[1, 8]")
    """Aircraft per side; one policy flies all of the learner's. env.num_envs counts those and must be a multiple of 2 x
    team_size (two matches)."""
    action_form: str = option("continuous", rules.FORMS)
    """continuous; discrete: levels of pull, roll, throttle and trigger; manoeuvres: a manoeuvre, and weapons free;
    commands: changes of heading, altitude and speed for an autopilot, and the trigger."""
    collisions: float = option(0.0, "[0, 100]")
    """Distance in m at which two aircraft collide and both are lost; 0 for none."""
    load_limit: float = option(0.0, "[0, 20]")
    """Load factor in g, either way, beyond which an aircraft breaks; 0 for none."""
    hard_deck: float = option(0.0, "[0, 3000]")
    """Height in m at which an aircraft is lost; 0 for the ground."""
    randomization: str = option("none", rules.LEVELS)
    """Ranges from which the physics of each match are drawn, in training and in evaluations."""
    observe_physics: bool = True
    """Append the drawn physics to the observation."""
    observe_ground: bool = False
    """Append height, time to impact and the height margin of a pull-out to the observation."""
    reward: CombatReward = field(default_factory=CombatReward)


def combat_options(env: AirCombatEnvConfig) -> rules.CombatOptions:
    """Return the match options beyond two aircraft and their guns."""
    return rules.CombatOptions.of_contract(vars(env))


@dataclass
class AirCombatRunConfig(NamedOpponentsRunConfig):
    """PPO in air combat. The defaults alone are a small valid run: all pilots that are not held out, from the start."""

    game, title, bots, seats = rules.ENV_ID, "air combat", TRAINED_AGAINST, 2
    lacks = (
        *ONLY_IMPORTED, "phases.randomization", "evaluation.regimes_every",
    )  # fmt: skip
    idle = (
        WITHOUT_POOL,
        ("env.randomization=none", ("env.observe_physics",)),
        ("env.gun=cone", ("env.reward.ammunition",)),
        ("env.gun=auto and env.model=point_mass", ("env.reward.ammunition",)),
        ("env.action_form=discrete", ("network.log_std",)),
        ("env.action_form=manoeuvres", ("network.log_std",)),
    )

    env: AirCombatEnvConfig = field(default_factory=AirCombatEnvConfig)
    phases: list[PhaseConfig] = field(
        default_factory=lambda: [PhaseConfig(stages=[StageConfig(bots=list(TRAINED_AGAINST))])]
    )


RUNS = (AirCombatRunConfig,)
"""Run types of air combat."""
