"""The text matches as a taskset and an environment of verifiers 0.4: the taskset `sparring-games`.

A task is a game and a seed. The environment plays the match beside the model: its first turn is the prompt, every reply
an answer, and the next prompt the user's turn. The trace has the sum of the rewards as its reward, `match_reward`, and
the counts of illegal, incomplete and truncated answers as metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import GAMES, ILLEGAL, INCOMPLETE, READ, TRUNCATED, open_match

try:
    import verifiers.v1 as vf
except ImportError as error:
    raise InputError(f"verifiers 0.4 or later is needed ({error}): `sparring install verifiers`") from error

__all__ = ["MatchTaskset", "VerifiersMatchEnv"]


class MatchTasksetConfig(vf.TasksetConfig):
    """Which matches: `game`, its `options` (matches.py), and seeds from `first_seed`."""

    game: str = GAMES[0]
    options: dict[str, Any] = Field(default_factory=dict)
    first_seed: int = 0
    matches: int = 140


class MatchData(vf.TaskData):
    """One match."""

    game: str
    options: dict[str, Any]
    seed: int


class MatchTask(vf.Task[MatchData, vf.State, vf.TaskConfig]):
    """A match; it is scored by the environment."""


class MatchEnvConfig(vf.EnvConfig):
    """The model that plays."""

    player: vf.AgentConfig = vf.AgentConfig()


class VerifiersMatchEnv(vf.Env[MatchEnvConfig]):
    """Plays one match of a task."""

    async def run(self, task: Any, agents: Any) -> None:
        """Answer each reply with the next prompt, until the match or the exchange is over."""
        match = await asyncio.to_thread(open_match, task.data.game, **task.data.options)
        counts, total = Counter[str](), 0.0
        try:
            turn = match.start(task.data.seed)
            async with agents.player.interaction(task) as interaction:
                segment = await interaction.turn()  # the task's prompt is the first
                while not segment.terminated:
                    turn = await asyncio.to_thread(match.answer, segment.last_reply)
                    counts[turn.answer] += 1
                    total += turn.reward
                    if turn.done:
                        break
                    segment = await interaction.turn(turn.prompt)
            trace = interaction.trace
            trace.record_reward("match_reward", total, 1.0)
            for name in (READ, ILLEGAL, INCOMPLETE, TRUNCATED):
                trace.record_metric(f"{name}_answers", counts[name])
        finally:
            match.close()


class MatchTaskset(vf.Taskset[MatchTask, MatchTasksetConfig]):
    """`config.matches` tasks with seeds in sequence, so that the seats rotate."""

    def load(self) -> Iterator[MatchTask]:
        """Yield the tasks. Raises `InputError` for an unknown game or option."""
        config = self.config
        match = open_match(config.game, **config.options)
        try:
            for seed in range(config.first_seed, config.first_seed + config.matches):
                data = MatchData(
                    name=f"{config.game}#{seed}",
                    prompt=match.start(seed).prompt,
                    game=config.game,
                    options=config.options,
                    seed=seed,
                )
                yield MatchTask(data, config.task)
        finally:
            match.close()
