"""Options of chess: engine, positions and text tasks, and its run types.

There are two text tasks: P (analysis of a position) and A (arbiter: the next position and its result).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

from sparring.configs.core.allowed import option
from sparring.configs.core.errors import ConfigError
from sparring.configs.games import ENV_ID, PATH, PROBABILITY, PROGRAM, EnvConfig
from sparring.configs.language import NEEDS_OPPONENTS
from sparring.configs.language.runs import CloneRunConfig, GRPORunConfig
from sparring.configs.schema import Instead
from sparring.envs.chess import ENV_ID as CHESS

NOT_IN_CHESS = (
    "model.compact", "model.show_valid_moves", "model.show_board_context", "model.show_map_windows",
    "model.show_action_counts", "model.temperature",
)  # fmt: skip
"""Language-model options for other games; each task has its own temperature."""
NOT_SAMPLED = tuple(f"tasks.{task}.{name}" for task in ("analysis", "arbiter") for name in ("temperature", "top_p"))


@dataclass
class EngineConfig:
    """Engine that analyses positions: labels and rewards of the P task, and games for the data."""

    path: str = option("", PROGRAM)
    """Empty: Stockfish if installed (apt-get install stockfish), else the built-in search, with a note in the run.
    builtin: the built-in search."""
    depth: int = option(10, "[1, 60]")
    """Search depth in half-moves."""
    processes: int = option(1, "[1, 256]")
    """Number of parallel engines."""
    cache: str = option("", PATH)
    """File with the engine's values, kept between runs; empty keeps them in memory."""


@dataclass
class ChessDataConfig:
    """Positions of random games: equal options give equal positions; no position is in two splits."""

    folder: str = option("", PATH)
    """Positions that `python -m sparring.envs.chess.data` wrote; empty plays the games when a run starts."""
    seed: int = option(42, "[0, 2147483647]")
    """Seed of the games and of the split."""
    plies: int = option(8, "[4, 300]")
    """Length of a game, in half-moves."""
    train: int = option(2000, "[1, 10000000]")
    """Number of training positions."""
    validation: int = option(200, "[1, 1000000]")
    """Number of positions for evaluation during training."""
    held_out: int = option(500, "[1, 1000000]")
    """Number of positions for the final evaluation."""


@dataclass
class ChessEnvConfig(EnvConfig):
    """Chess as text tasks: the reference engine and the positions."""

    id: str = option(CHESS, ENV_ID)
    engine: EngineConfig = field(default_factory=EngineConfig)
    data: ChessDataConfig = field(default_factory=ChessDataConfig)

    @property
    def program(self) -> str:
        """The engine's program, empty for Stockfish and the built-in search."""
        return self.engine.path if self.engine.path not in ("stockfish", "builtin") else ""


@dataclass
class AnalysisConfig:
    """Answers to the P task."""

    temperature: float = option(0.5, "(0, 10]")
    """Sampling temperature."""
    top_p: float = option(0.9, "(0, 1]")
    """Top-p sampling: sample from the most likely tokens with this total probability; 1 for all tokens."""
    max_tokens: int = option(256, "[1, 100000]")
    """Maximum tokens of an answer."""


@dataclass
class ArbiterConfig:
    """Answers to the A task."""

    temperature: float = option(0.95, "(0, 10]")
    """Sampling temperature."""
    top_p: float = option(0.95, "(0, 1]")
    """Top-p sampling: sample from the most likely tokens with this total probability; 1 for all tokens."""
    max_tokens: int = option(256, "[1, 100000]")
    """Maximum tokens of an answer."""


@dataclass
class ChessTasksConfig:
    """Shares of the two tasks, and the sampling of each."""

    analysis_share: float = option(0.5, PROBABILITY)
    """Fraction of training on P; the rest is on A."""
    mixed: bool = False
    """Both tasks in every step; otherwise first all steps of P, then all of A."""
    analysis: AnalysisConfig = field(default_factory=AnalysisConfig)
    arbiter: ArbiterConfig = field(default_factory=ArbiterConfig)


REMOVED = {
    "tasks.analysis.padded": True,
    "env.data.random_share": Instead("all games are random"),
    "env.data.engine_share": 0.0,
    "env.data.self_play_share": 0.0,
}


@dataclass
class ChessGRPORunConfig(GRPORunConfig):
    """GRPO trains a language model on the text tasks of chess, one answer to a prompt."""

    game, title, seats = CHESS, "chess", 1
    removed = MappingProxyType({**GRPORunConfig.removed, **REMOVED})
    lacks = (*GRPORunConfig.lacks, *NOT_IN_CHESS, *NEEDS_OPPONENTS, "league")

    env: ChessEnvConfig = field(default_factory=ChessEnvConfig)
    tasks: ChessTasksConfig = field(default_factory=ChessTasksConfig)

    def check(self) -> None:
        """Raise an error for an overfit check on one batch if the task changes during training."""
        super().check()
        share, mixed = self.tasks.analysis_share, self.tasks.mixed
        if self.overfit.enabled and not mixed and share not in (0.0, 1.0):
            raise ConfigError(
                f"tasks.analysis_share={share}: overfit.enabled=true trains on one batch, but its task would change; "
                "give 0, 1 or tasks.mixed=true"
            )


@dataclass
class ChessCloneRunConfig(CloneRunConfig):
    """A language model learns the text tasks of chess from the rules and from the engine's analyses."""

    game, title, seats = CHESS, "chess", 1
    removed = MappingProxyType({**CloneRunConfig.removed, **REMOVED})
    lacks = (*CloneRunConfig.lacks, *NOT_IN_CHESS, *NOT_SAMPLED, "clone.bot", "tasks.mixed")

    env: ChessEnvConfig = field(default_factory=ChessEnvConfig)
    tasks: ChessTasksConfig = field(default_factory=ChessTasksConfig)


RUNS = (ChessGRPORunConfig, ChessCloneRunConfig)
"""Run types of chess."""
