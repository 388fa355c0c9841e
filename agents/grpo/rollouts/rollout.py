"""Games of a `TextTask` played to their end: the learner's decisions with rewards, and the results.

In each step the models decide once for all games and seats, and the task applies all decisions together. A player that
cannot answer fails its game; the others continue, and the failure is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sparring.agents.llm.backend import Backend, Decision, PromptError
from sparring.configs.core.errors import InputError
from sparring.envs.text import GameEnding, GroupFacts, Prompt, RolloutPlan, TextTask

Fail = Callable[[set[int], str], None]
"""Callback for games that cannot continue, with the cause."""
Decided = list[tuple[Prompt, Decision]]


@dataclass(frozen=True)
class DecisionRecord:
    """Decision of the learner, with its game, seat and step of the rollout and the facts `before` it.

    `lines` is the number of lines in a complete answer.
    """

    decision: Decision
    game: int
    seat: int
    step: int
    before: GroupFacts
    lines: int


@dataclass
class RolloutBatch:
    """Result of one plan: `rewards` float64 [len(turns)]."""

    plan: RolloutPlan
    turns: list[DecisionRecord]
    rewards: np.ndarray
    endings: list[GameEnding]
    failed: int
    years: float
    seconds: float
    alerts: list[str] = field(default_factory=list)
    cache: dict[str, float] = field(default_factory=dict)
    """Prompt cache metrics, `cache/...`, of the process that played."""
    reload_seconds: float = 0.0
    """Time in which the weights of the plan were put in place."""
    game_metrics: dict[str, float] = field(default_factory=dict)
    """Metrics of the game, under its own names."""


class Rollouts:
    """Player of plans on `task`; `backend_of` returns the model of a player by name."""

    def __init__(self, task: TextTask, backend_of: Callable[[str], Backend]) -> None:
        self.task, self._decide = task, partial(decide_all, backend_of)

    def play(self, plan: RolloutPlan) -> RolloutBatch:
        """Play the plan's games; the same plan and weights give the same batch."""
        started, task = time.perf_counter(), self.task
        task.reset(plan, self._decide)
        turns: list[DecisionRecord] = []
        step = 0
        while not task.over:
            answered = self._decide(task.prompts(), task.fail)
            turns += [
                DecisionRecord(decision, prompt.game, prompt.seat, step, prompt.facts, prompt.menu.lines)
                for prompt, decision in answered
                if prompt.facts is not None
            ]
            task.apply(answered)
            step += 1
        good = [turn for turn in turns if turn.game not in task.failed]
        paid = task.rewards() if good else np.zeros((0, 0, 0))
        return RolloutBatch(
            plan=plan,
            turns=good,
            rewards=np.array([paid[turn.step, turn.game, turn.seat] for turn in good]),
            endings=task.endings(),
            failed=len(task.failed),
            years=task.years(),
            seconds=time.perf_counter() - started,
            alerts=[f"a game failed: {why}" for why in sorted(set(task.failed.values()))],
            game_metrics=task.metrics(),
        )

    def close(self) -> None:
        """Release the task's resources."""
        self.task.close()


def decide_all(backend_of: Callable[[str], Backend], prompts: Sequence[Prompt], fail: Fail) -> Decided:
    """Return the decisions of all players, one player after another; later players skip failed games."""
    failed: set[int] = set()

    def note(games: set[int], why: str) -> None:
        failed.update(games)
        fail(games, why)

    decided: Decided = []
    for player in sorted({prompt.player for prompt in prompts}):
        asked = [prompt for prompt in prompts if prompt.player == player and prompt.game not in failed]
        decided += decide_batch(partial(backend_of, player), asked, note)
    return decided


def decide_batch(player: Callable[[], Backend], prompts: Sequence[Prompt], fail: Fail) -> Decided:
    """Return the decisions of `player` for its `prompts`.

    Games with an unreadable prompt are passed to `fail` with the cause, and the other prompts are submitted again. On
    any other `InputError` all games fail. A decision does not depend on the other prompts of the batch.
    """
    if not prompts:
        return []
    try:
        return list(zip(prompts, player().decide(prompts), strict=True))
    except PromptError as error:
        failed = {prompts[place].game for place in error.places}
        fail(failed, str(error))
        return decide_batch(player, [prompt for prompt in prompts if prompt.game not in failed], fail)
    except InputError as error:
        fail({prompt.game for prompt in prompts}, str(error))
        return []
