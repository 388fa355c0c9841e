"""A language model as a policy: prompts and choices in, decisions out; and as a player of `sparring/Diplomacy-v0`.

Everything that is to be decided at a time, by all powers in all games, is one call, and so one batch of the model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from sparring.agents.llm.backend import Backend, Decision, Request
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.interfaces.parallel_env import DiplomacyParallelEnv
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.text.prompts import PromptRules, render


class LLMPolicy:
    """What a backend's model does."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def act(
        self,
        prompts: Sequence[str],
        choices: Sequence[Choices],
        seeds: Sequence[int],
        positions: Sequence[Mapping[str, np.ndarray]] | None = None,
    ) -> list[Decision]:
        """One decision for each prompt; equal seeds draw equally, whatever else is asked at the same time.

        A power with nothing to order needs no prompt: "" will do. Scripted bots need `positions` instead.
        """
        known = positions if positions is not None else repeat(None, len(prompts))
        asked = zip(prompts, choices, seeds, known, strict=True)
        return self.backend.decide([Request(*one) for one in asked])


@dataclass(frozen=True)
class ModelSeat:
    """One power of one game that a player has to move."""

    env: DiplomacyParallelEnv
    agent: str


@dataclass
class ParallelEnvPlayer:
    """Plays any number of powers in any number of games with one policy.

    `rules` say what prompts show. Draws follow from `seed` and the number of decisions made before.
    """

    policy: LLMPolicy
    rules: PromptRules = field(default_factory=PromptRules)
    seed: int = 0
    decided: int = 0

    def act(self, env: DiplomacyParallelEnv, agents: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """The actions of `agents` of one game, or of all that still play."""
        seats = [ModelSeat(env, agent) for agent in (env.agents if agents is None else agents)]
        return {seat.agent: action for seat, (action, _) in zip(seats, self.move(seats), strict=True)}

    def move(self, seats: Sequence[ModelSeat]) -> list[tuple[np.ndarray, Decision]]:
        """The action int64 [17] for each seat, and the decision that it is."""
        asked = [seat.env.choices(seat.agent) for seat in seats]
        prompts = [self._prompt(seat, choices) for seat, choices in zip(seats, asked, strict=True)]
        seeds = range((self.seed << 40) + self.decided, (self.seed << 40) + self.decided + len(seats))
        self.decided += len(seats)
        decisions = self.policy.act(prompts, asked, seeds, [seat.env.row() for seat in seats])
        return [(_action(seat, decision), decision) for seat, decision in zip(seats, decisions, strict=True)]

    def _prompt(self, seat: ModelSeat, choices: Choices) -> str:
        if not choices.lines:
            return ""
        env = seat.env
        return render(env.row(), POWERS.index(seat.agent), choices, self.rules, last_year=env.last_year)


def _action(seat: ModelSeat, decision: Decision) -> np.ndarray:
    """A decision as the environment takes it; raises `InputError` for one that it would not carry out as written."""
    action, lines = seat.env.submit(seat.agent, [option.text for option in decision.chosen])
    wrong = next((line.problem for line in lines if line.problem), None)
    if wrong:
        raise InputError(f"{seat.agent}: {wrong}")
    return action
