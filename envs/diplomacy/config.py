"""Options of Diplomacy: its `env` section and its run types."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

from sparring.configs import schema
from sparring.configs.core.allowed import Form, option
from sparring.configs.core.session import NetworkConfig
from sparring.configs.games import ENV_ID, MEMORY, ONLY_IMPORTED, PATH, PROBABILITY, STYLES, EnvConfig
from sparring.configs.language import CloneConfig
from sparring.configs.language.runs import CloneRunConfig, GRPORunConfig
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.board.codes import ENV_ID as DIPLOMACY

PLAYER = Form(r"[^\x00\n]+", "a player of Diplomacy, such as search:positions=2000, a run or a policy")
PLAYER_OR_NONE = Form(f"({PLAYER.pattern})?", PLAYER.text)


@dataclass
class DiplomacyEnvConfig(EnvConfig):
    """Games of Diplomacy."""

    id: str = option(DIPLOMACY, ENV_ID)
    last_year: int = option(1910, "[1901, 30000]")
    """Last game year, after which a game ends."""


@dataclass
class DiplomacyCloneConfig(CloneConfig):
    """Behaviour cloning of a bot, or of a teacher among bots (`trainer=clone`)."""

    teacher: str = option("", PLAYER_OR_NONE)
    """Player of one power in every game of `bot`, who labels the orders of all powers; empty: the bot."""


@dataclass
class DistillConfig:
    """Imitation of a teacher of Diplomacy (`trainer=distill`)."""

    teacher: str = option("search:positions=2000", PLAYER)
    """Teacher whose orders are imitated: any Diplomacy player except a bot."""
    player: str = option("", PLAYER_OR_NONE)
    """Player of the games that the teacher labels; empty: the teacher."""
    games: int = option(1120, "[0, 10000000]")
    """Games with new labels, rounded up to whole files of 56; 0 uses only `data`."""
    opponents: list[str] = field(default_factory=lambda: ["dumbbot"], metadata={"allowed": PLAYER})
    """Players of the other powers of these games, seated in turn: bots, policies, searches."""
    slips: float = option(0.15, PROBABILITY)
    """Fraction of phases played with DumbBot's orders, to show students positions after a mistake."""
    data: list[str] = field(default_factory=list, metadata={"allowed": PATH})
    """Folders of further labels, in the format of a run's data/."""
    epochs: int = option(20, "[1, 100000]")
    """Passes over all labels; an update is one pass."""
    batch_size: int = option(256, "[1, 1000000]")
    """Decisions per step."""
    learning_rate: float = option(2e-3, "(0, 1]")
    """Peak learning rate of AdamW, with warm-up and cosine decay to zero."""
    value_share: float = option(0.25, PROBABILITY)
    """Fraction of steps that also train the value: the power's share of squares at the end of the game."""
    held_out: float = option(0.08, "[0, 0.9]")
    """Fraction of games held out to measure accuracy."""
    workers: int = option(1, "[1, 1024]")
    """Number of label files created in parallel on this machine, one process each."""
    executor: str = option("local", ("local", "ray"))
    """Where labels are created: local, or ray for the cluster at RAY_ADDRESS or this machine, with the same Sparring
    version."""


@dataclass
class DiplomacyRunConfig(schema.NamedOpponentsRunConfig):
    """PPO in Diplomacy on orders; all six other powers of a game are the same opponent or snapshot."""

    game, title, bots, seats, multiple = DIPLOMACY, "Diplomacy", BOTS, 7, 7
    lacks = (
        "network.activation", "network.log_std_init", "network.log_std_min", "network.log_std_max", "network.gsde",
        "ppo.gsde_every", "phases.randomization", "phases.events.log_std",
        "self_play.promotion_games", *schema.DOGFIGHT_CHECKS, *MEMORY, *STYLES,
        *ONLY_IMPORTED,
    )  # fmt: skip
    idle = (schema.WITHOUT_POOL,)

    env: DiplomacyEnvConfig = field(default_factory=DiplomacyEnvConfig)


@dataclass
class DiplomacyGRPORunConfig(GRPORunConfig):
    """GRPO trains a language model to play Diplomacy."""

    game, title, seats, multiple = DIPLOMACY, "Diplomacy", 7, 7
    lacks = (*GRPORunConfig.lacks, "dry_run", "overfit")

    env: DiplomacyEnvConfig = field(default_factory=DiplomacyEnvConfig)


@dataclass
class DiplomacyCloneRunConfig(CloneRunConfig):
    """A language model clones a bot of Diplomacy."""

    game, title, seats, multiple = DIPLOMACY, "Diplomacy", 7, 7
    lacks = (*CloneRunConfig.lacks, "dry_run")

    env: DiplomacyEnvConfig = field(default_factory=DiplomacyEnvConfig)
    clone: DiplomacyCloneConfig = field(default_factory=DiplomacyCloneConfig)


@dataclass
class DiplomacyDistillRunConfig(schema.RunConfig):
    """A policy of Diplomacy imitates a teacher, such as the search."""

    trainers = ("distill",)
    removed = MappingProxyType({"distill.weight_decay": 0.02, "distill.executor_address": "auto"})
    game, title, seats, multiple = DIPLOMACY, "Diplomacy", 7, 7
    lacks = (*DiplomacyRunConfig.lacks, "network.all_phases", "self_play", "env.num_envs")

    trainer: str = option("distill", schema.TRAINERS)
    env: DiplomacyEnvConfig = field(default_factory=DiplomacyEnvConfig)
    init_from: str = option("", schema.TEXT)
    """Policy with the initial weights of a new run: a file or a run's name."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    evaluation: schema.EvaluationConfig = field(default_factory=schema.EvaluationConfig)


RUNS = (DiplomacyRunConfig, DiplomacyGRPORunConfig, DiplomacyCloneRunConfig, DiplomacyDistillRunConfig)
"""Run types of Diplomacy."""
