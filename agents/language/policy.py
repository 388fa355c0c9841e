"""A language model as a player of a parallel environment that can show its positions as prompts.

All simultaneous decisions, of all seats in all games, are one call and therefore one batch of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from sparring.agents.language.backend import Backend, Decision
from sparring.configs.core.errors import InputError
from sparring.envs.text import Prompt


class TextEnv(Protocol):
    """A parallel environment with text prompts and actions, such as `sparring/Diplomacy-v0`."""

    agents: list[str]

    def prompt(self, agent: str, rules: Any = None) -> Prompt:
        """Return the prompt for an agent's decision, rendered by the game's own `rules`."""

    def submit(self, agent: str, lines: Sequence[str]) -> tuple[np.ndarray, Sequence[Any]]:
        """Return the action for lines of text, and each line with its `problem`, empty if it is valid."""


@dataclass(frozen=True)
class ModelSeat:
    """One agent of one game that a player moves."""

    env: TextEnv
    agent: str


@dataclass
class ParallelEnvPlayer:
    """Player for any number of agents in any number of games, with the model of one backend.

    `rules` define the content of prompts; None is the game's default. Draws depend only on `seed` and the number of
    earlier decisions.
    """

    backend: Backend
    rules: Any = None
    seed: int = 0
    decided: int = 0

    def act(self, env: TextEnv, agents: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Return the actions of `agents` of one game, or of all that still play."""
        seats = [ModelSeat(env, agent) for agent in (env.agents if agents is None else agents)]
        return {seat.agent: action for seat, (action, _) in zip(seats, self.move(seats), strict=True)}

    def move(self, seats: Sequence[ModelSeat]) -> list[tuple[np.ndarray, Decision]]:
        """Return the action for each seat, such as int64 [17], and its decision."""
        seeds = range((self.seed << 40) + self.decided, (self.seed << 40) + self.decided + len(seats))
        self.decided += len(seats)
        prompts = [
            replace(seat.env.prompt(seat.agent, self.rules), seed=seed) for seat, seed in zip(seats, seeds, strict=True)
        ]
        decisions = self.backend.decide(prompts)
        return [(_action(seat, decision), decision) for seat, decision in zip(seats, decisions, strict=True)]


def _action(seat: ModelSeat, decision: Decision) -> np.ndarray:
    """Return the action for a decision; raises `InputError` if the environment reports a problem with a line."""
    action, lines = seat.env.submit(seat.agent, [option.text for option in decision.chosen])
    wrong = next((line.problem for line in lines if line.problem), None)
    if wrong:
        raise InputError(f"{seat.agent}: {wrong}")
    return action
