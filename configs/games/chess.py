"""Options of chess as two text tasks: P (analysis of a position) and A (arbiter: the next position and its result)."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparring.configs.core.allowed import Form, option

PROGRAM = Form(r"[^\x00\n]+", "a UCI engine: the name of a program on PATH, or its path")
PATH = Form(r"[^\x00\n]+", "a path")
SHARE = "[0, 1]"
NOT_IN_CHESS = (
    "model.backend", "model.compact", "model.show_valid_moves", "model.show_board_context", "model.show_map_windows",
    "model.show_action_counts", "model.temperature", "endpoint",
)  # fmt: skip
"""Options of language models for other games; the tasks have temperatures of their own."""
NOT_SAMPLED = tuple(f"tasks.{task}.{name}" for task in ("analysis", "arbiter") for name in ("temperature", "top_p"))
GAME_SHARES = ("random_share", "engine_share", "self_play_share")


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
    random_share: float = option(1.0, SHARE)
    """Share of games of random moves."""
    engine_share: float = option(0.0, SHARE)
    """Share of games of the engine against random moves."""
    self_play_share: float = option(0.0, SHARE)
    """Share of games of the engine against itself, drawing among its best moves. The three shares sum to 1."""
    train: int = option(2000, "[1, 10000000]")
    """Positions to train on."""
    validation: int = option(200, "[1, 1000000]")
    """Positions to measure on during training."""
    held_out: int = option(500, "[1, 1000000]")
    """Positions to measure on afterwards."""


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

    analysis_share: float = option(0.5, SHARE)
    """Part of the training on P; the rest is on A."""
    mixed: bool = False
    """Both tasks in every step; else first all steps of P, then all of A."""
    analysis: AnalysisConfig = field(default_factory=AnalysisConfig)
    arbiter: ArbiterConfig = field(default_factory=ArbiterConfig)
