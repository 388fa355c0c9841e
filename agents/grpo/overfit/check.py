"""Overfit check during a run: the batch's prompts are answered before the first step and after every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sparring.agents.grpo.overfit.report import HEAD, banner, line, outcome, write_report
from sparring.agents.grpo.overfit.verdict import OverfitCriterion, OverfitRow, judge
from sparring.agents.grpo.rollouts.rollout import RolloutBatch, Rollouts
from sparring.agents.llm.decoding.constraint import constraint_of
from sparring.agents.llm.models.adapters import LEARNER, Adapters
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.agents.run.session import RunSession
from sparring.configs.core.errors import InputError
from sparring.configs.core.typed import Number, read
from sparring.configs.schema import GRPORunConfig
from sparring.envs.game import text_game
from sparring.envs.text import RolloutPlan

METRICS = {
    "policy_loss": "loss/policy",
    "kl_term": "loss/kl",
    "kl_share": "loss/kl_share",
    "kl": "kl/mean",
    "entropy": "policy/entropy_mean",
    "advantage_range": "advantage/range_mean",
    "gradient_norm": "benchmark/grad_norm",
    "beta": "kl/beta",
    "skipped": "processing/skip_rate",
}
"""Fields of a row that are metrics of the step; those of a step without training are 0."""


class OverfitState(TypedDict):
    """`OverfitCheck.state_dict`."""

    rows: list[OverfitRow]
    reward: Number


class OverfitCheck:
    """Rows of a run, and the measurement of the learner in `adapters` on one batch."""

    def __init__(self, config: GRPORunConfig, adapters: Adapters, tokenizer: Any) -> None:
        self._config, self.rows = config, list[OverfitRow]()
        game = text_game(config.env.id)
        temperature = 0.0 if config.overfit.greedy else config.model.temperature
        backend = TransformersBackend.of(
            replace(config.model, temperature=temperature),
            adapters.model,
            tokenizer,
            constraint=constraint_of(tokenizer, game.format),
            playing=partial(adapters.playing, LEARNER),
            name=LEARNER,
        )
        self._rollouts = Rollouts(game.task(config), lambda name: backend)
        self._reward: float | None = None

    def banner(self) -> list[str]:
        """Return the settings and the head of the table."""
        return [banner(self._config), HEAD]

    def measure(self, plan: RolloutPlan) -> tuple[float, float]:
        """Return mean reward and share of positive rewards of one answer to every prompt. Raises `InputError`."""
        batch = self._rollouts.play(replace(plan, samples=1))
        if not len(batch.rewards):
            raise InputError(f"the overfit check has no answer to score: {batch.alerts[0] if batch.alerts else ''}")
        self._reward = float(np.mean(batch.rewards))
        return self._reward, float(np.mean(batch.rewards > 0))

    def add(self, plan: RolloutPlan, batch: RolloutBatch, metrics: Mapping[str, float]) -> dict[str, float]:
        """Measure after a step with these results; return the step's metrics `overfit/...`."""
        before = self._reward
        assert before is not None
        after, positive = self.measure(plan)
        values = {name: float(metrics.get(key, 0.0)) for name, key in METRICS.items()}
        seconds = batch.seconds + metrics.get("benchmark/training_time_s", 0.0)
        ended = float(np.mean([_ended(turn.decision) for turn in batch.turns]))
        found = {"before": before, "after": after, "positive": positive, "ended": ended, "seconds": seconds}
        self.rows.append(OverfitRow(step=len(self.rows) + 1, **found, **values))
        return {"overfit/greedy_reward": after, "overfit/positive_share": positive, "overfit/ended_share": ended}

    def last_line(self) -> str:
        """Return the table's newest line."""
        return line(self.rows[-1])

    def conclude(self, session: RunSession) -> bool:
        """Write the report, say the verdict, and return whether all criteria hold."""
        criteria: Sequence[OverfitCriterion] = judge(self.rows, self._config.overfit)
        try:
            paths = write_report(session.folder.path, self._config, self.rows, criteria)
        except OSError as error:
            raise InputError(f"{session.folder.path}: the report is not written ({error.strerror})") from error
        for one in criteria:
            session.say(f"  {'held  ' if one.held else 'FAILED'} {one.name}: {one.found}")
        session.say(f"{outcome(criteria)}: {', '.join(map(str, paths))}")
        return all(one.held for one in criteria)

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and the last reward."""
        return {"rows": [asdict(row) for row in self.rows], "reward": self._reward}

    def load_state_dict(self, state: Any) -> None:
        """Continue from a `state_dict`; raises `ContentError` for what is none."""
        found = read(OverfitState, state)
        self.rows, self._reward = found["rows"], found["reward"]

    def close(self) -> None:
        """Release the task."""
        self._rollouts.close()


def _ended(decision: Any) -> bool:
    """Return whether the last token, the end of the answer, was drawn and not forced."""
    return bool(len(decision.allowed_counts) and decision.allowed_counts[-1] > 1)
