"""Task of each group: first all steps of P, then all of A, or both in every step."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.configs.games.chess import AnalysisConfig, ArbiterConfig, ChessTasksConfig
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER
from sparring.envs.text import FreeText

NAMES = {ANALYSIS: "the analysis", ARBITER: "the arbiter"}


@dataclass(frozen=True)
class TaskPhase:
    """Steps with the same tasks; `tasks` is "P", "A" or "P+A"."""

    tasks: str
    steps: int


def phases(tasks: ChessTasksConfig, steps: int) -> list[TaskPhase]:
    """Return the phases of `steps` steps, without empty ones."""
    if tasks.mixed:
        return [TaskPhase(f"{ANALYSIS}+{ARBITER}", steps)]
    first = _part(tasks.analysis_share, steps)
    found = (TaskPhase(ANALYSIS, first), TaskPhase(ARBITER, steps - first))
    return [phase for phase in found if phase.steps]


def task_of_group(tasks: ChessTasksConfig, *, step: int, steps: int, group: int, groups: int) -> str:
    """Return the task of group number `group` in step number `step`."""
    place, total = (group, groups) if tasks.mixed else (step, steps)
    return ANALYSIS if place < _part(tasks.analysis_share, total) else ARBITER


def sampling(tasks: ChessTasksConfig, task: str) -> AnalysisConfig | ArbiterConfig:
    """Return the options of a task's answers."""
    return tasks.analysis if task == ANALYSIS else tasks.arbiter


def free_text(tasks: ChessTasksConfig, task: str) -> FreeText:
    """Return how answers to a task are sampled."""
    one = sampling(tasks, task)
    return FreeText(one.max_tokens, NAMES[task], temperature=one.temperature, top_p=one.top_p)


def _part(share: float, total: int) -> int:
    """Return the share of `total`, at least 1 and at most all but 1 if both tasks have a share."""
    part = round(share * total)
    return min(max(part, 1), total - 1) if 0 < share < 1 and total > 1 else part
