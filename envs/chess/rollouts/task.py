"""The chess tasks as a `TextTask`: every game is one prompt and one answer, with a verifiable reward.

`CHESS` is the text interface that the descriptor in `envs/chess/__init__.py` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis import Truth, score_analysis
from sparring.envs.chess.arbiter import score_transition
from sparring.envs.chess.config import ChessCloneRunConfig, ChessGRPORunConfig
from sparring.envs.chess.data.positions import TRAIN
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER
from sparring.envs.chess.engines.engine import Engine
from sparring.envs.chess.rollouts import sources
from sparring.envs.chess.rollouts.demonstrations import PIECES, ChessDemonstrations, corpus
from sparring.envs.chess.rollouts.evaluation import preview, references
from sparring.envs.text import (
    Answered,
    DecidePrompts,
    GameEnding,
    GroupFacts,
    Option,
    Prompt,
    RolloutPlan,
    TextGame,
    mix,
)


class ChessTask:
    """Prompts of the training positions, plan after plan; see `envs.text.TextTask`. A game is one answer."""

    def __init__(self, config: ChessGRPORunConfig, *, threads: int = 1) -> None:
        self._config, self._records = config, sources.positions_of(config.env).positions[TRAIN]
        self._engine: Engine | None = sources.engine_of(config.env) if config.tasks.analysis_share > 0 else None

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Choose a position for each group by its seed, a different one for every group while there are enough."""
        self.failed: dict[int, str] = {}
        self._plan, self._rewards, self._over = plan, np.zeros(len(plan.groups) * plan.samples), False
        steps, groups = self._config.grpo.steps, len(plan.groups)
        numbers = _different([group.seed for group in plan.groups], len(self._records))
        self._asked = []
        for group, number in enumerate(numbers):
            task = sources.task_of_group(self._config.tasks, step=plan.step, steps=steps, group=group, groups=groups)
            self._asked.append((task, sources.prompt_text(task, self._records[number])))

    @property
    def over(self) -> bool:
        """True once every prompt is answered or failed."""
        return self._over or len(self.failed) == len(self._rewards)

    def prompts(self) -> list[Prompt]:
        """Return the prompt of every game that did not fail."""
        return [self._prompt(game) for game in range(len(self._rewards)) if game not in self.failed]

    def apply(self, answered: Answered) -> None:
        """Score the answers; a game whose position the engine cannot search fails."""
        answers = {prompt.game: (self._task(prompt.game), prompt.text, answer.text) for prompt, answer in answered}
        if self._engine:
            sources.search_ahead(list(answers.values()), self._engine)
        for game, answer in answers.items():
            self._score(game, answer)
        self._over = True

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""
        for game in games:
            self.failed.setdefault(game, why)

    def rewards(self) -> np.ndarray:
        """Return the rewards, float64 [1, games, 1]."""
        return self._rewards[None, :, None]

    def endings(self) -> list[GameEnding]:
        """Return an ending of every game that did not fail, with 0 points."""
        players = [group.players for group in self._plan.groups]
        good = (game for game in range(len(self._rewards)) if game not in self.failed)
        return [GameEnding(players[game // self._plan.samples], (0,), game // self._plan.samples) for game in good]

    def years(self) -> float:
        """Return 0: an answer takes no game time."""
        return 0.0

    def metrics(self) -> dict[str, float]:
        """Return the mean reward of each task, and whether the built-in search replaced the engine."""
        good = [game for game in range(len(self._rewards)) if game not in self.failed]
        by_task = {task: [self._rewards[game] for game in good if self._task(game) == task] for task in NAMES}
        means = {f"chess/{NAMES[task]}_reward": float(np.mean(rewards)) for task, rewards in by_task.items() if rewards}
        return means | ({"chess/engine_stand_in": float(self._engine.stand_in)} if self._engine else {})

    def close(self) -> None:
        """Do nothing: the process closes the engine."""

    def _task(self, game: int) -> str:
        return self._asked[game // self._plan.samples][0]

    def _prompt(self, game: int) -> Prompt:
        group = game // self._plan.samples
        task, text = self._asked[group]
        planned = self._plan.groups[group]
        return Prompt(
            text=text,
            menu=sources.free_text(self._config.tasks, task),
            seed=mix(planned.seed, self._plan.step, game),
            game=game,
            player=planned.players[0],
            facts=GroupFacts(group, 0, 0, (), crc32(text.encode())),
        )

    def _score(self, game: int, answer: sources.Answer) -> None:
        try:
            self._rewards[game] = reward_of(answer, self._engine)
        except InputError as error:
            self.fail({game}, str(error))


NAMES = {ANALYSIS: "analysis", ARBITER: "arbiter"}


def _different(seeds: list[int], count: int) -> list[int]:
    """Return a number below `count` for each seed: the seed's own or, if an earlier one has it, the next free one."""
    taken: list[int] = []
    for seed in seeds:
        number = seed % count
        while number in taken and len(taken) < count:
            number = (number + 1) % count
        taken.append(number)
    return taken


def reward_of(answer: sources.Answer, truth: Truth | None) -> float:
    """Return the reward of an answer; `truth` may be None for the A task. Raises `InputError` if the engine fails."""
    task, prompt, text = answer
    if task != ANALYSIS:
        return score_transition(prompt, text).total
    assert truth is not None
    return score_analysis(prompt, text, truth).total


def demonstrations(config: ChessCloneRunConfig, *, games: int, seed: int, threads: int = 1) -> ChessDemonstrations:
    """Return reference answers for the training positions."""
    return ChessDemonstrations(config, TRAIN, games=games, seed=seed)


def bot_answers(name: str, prompts: Sequence[Prompt], *, threads: int = 1) -> list[tuple[Option, ...]]:
    """Raise `InputError`: scripted players do not answer the text tasks."""
    raise InputError(f"player {name!r}: scripted chess players cannot answer prompts; name a language model")


CHESS = TextGame(
    format=None,
    corpus=corpus,
    task=ChessTask,
    demonstrations=demonstrations,
    references=references,
    bot_answers=bot_answers,
    pieces=PIECES,
    preview=preview,
)
