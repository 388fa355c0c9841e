"""Work of the contestants of `llm.py`: positions from games between bots, each requested several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sparring.agents.language.models.adapters import LoraShape
from sparring.agents.language.models.tiny import build_tiny, game_tokenizer
from sparring.envs.diplomacy.rollouts.demonstrations import BotDecision, BotGames
from sparring.envs.text import Prompt

LAST_YEAR = 1910
TEMPERATURE, BETA, RATE = 0.8, 0.04, 1e-5
LORA = LoraShape(16, 32.0, "all")


@dataclass(frozen=True)
class Size:
    """Amount of work: `groups` prompts, `samples` answers to each, by a model of that shape."""

    groups: int
    samples: int
    hidden: int
    layers: int
    seed: int


def model_of(size: Size) -> tuple[Any, Any]:
    """A model of the tiny kind with random weights, and our tokenizer."""
    tokenizer = game_tokenizer("diplomacy")
    return build_tiny(tokenizer, hidden=size.hidden, layers=size.layers, heads=4, seed=size.seed).eval(), tokenizer


def requests_of(size: Size) -> list[Prompt]:
    """One power of each of `groups` games, asked `samples` times with other seeds, as after a fork."""
    games = BotGames(size.groups, bot="dumbbot", last_year=LAST_YEAR, seed=size.seed)
    found: list[BotDecision] = []
    while len(found) < size.groups:
        found += [decisions[number % len(decisions)] for number, decisions in enumerate(games.next())]
    games.close()
    asked: list[Prompt] = []
    for decision in found[: size.groups]:
        asked += [Prompt(decision.text, decision.menu, len(asked) + number) for number in range(size.samples)]
    return asked


def begin(threads: int, seed: int) -> None:
    """Return the common start of every contestant."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
