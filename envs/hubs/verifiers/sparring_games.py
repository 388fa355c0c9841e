"""The text matches as a taskset and a multi-agent environment of verifiers 0.4: the taskset `sparring-games`.

A task is a game and a seed. The environment plays the match beside the agents: each prompt is a user's turn, and the
reply is the answer. The agent of a match of one seat is `player`. In a match of all seats every seat is an agent,
`seat_0` and so on, with its own conversation, trace, reward and, if configured, model. Each prompt of a survey, such as
of exploitability, is a separate run; each trace has the survey's result as metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from pydantic import Field, create_model

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import (
    GAMES,
    ILLEGAL,
    INCOMPLETE,
    READ,
    TRUNCATED,
    MatchTurn,
    SurveyAnswer,
    SurveyMatch,
    TextMatch,
    open_match,
)

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


MOST_SEATS = 10
"""Agents of matches of all seats; the largest games have ten seats."""
CHAT = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
"""A plain chat on this machine: a match needs no tools."""


class PlayerEnvConfig(vf.EnvConfig):
    """The agent of a match of one seat."""

    player: vf.AgentConfig = CHAT


_SEATS: dict[str, Any] = {f"seat_{seat}": (vf.AgentConfig, CHAT) for seat in range(MOST_SEATS)}
MatchEnvConfig = create_model("MatchEnvConfig", __base__=PlayerEnvConfig, **_SEATS)
"""The agents: `player`, and one for each seat of matches of all seats."""


class VerifiersMatchEnv(vf.Env[MatchEnvConfig]):  # type: ignore[valid-type]
    """Plays one match of a task."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play the match, or ask all prompts of a survey."""
        match = await asyncio.to_thread(open_match, task.data.game, **task.data.options)
        try:
            turn = await asyncio.to_thread(match.start, task.data.seed)
            if len(match.seats) > MOST_SEATS:
                raise InputError(f"{task.data.game}: has {len(match.seats)} seats; choose one of at most {MOST_SEATS}")
            if isinstance(match, SurveyMatch):
                await self._ask(task, agents, match)
            else:
                await self._play(task, agents, match, turn)
        finally:
            match.close()

    async def _play(self, task: Any, agents: Any, match: TextMatch, turn: MatchTurn) -> None:
        """Have every seat's agent answer its prompts in one conversation, until the match or an exchange is over."""
        counts = {seat: Counter[str]() for seat in match.seats}
        totals = dict.fromkeys(match.seats, 0.0)
        conversations: dict[int, Any] = {}
        async with AsyncExitStack() as stack:
            while not turn.done:
                seat = turn.seat
                if seat not in conversations:
                    agent = _agent(agents, match, seat)
                    opened = agent.interaction(task.with_data(prompt=None))  # every prompt is a turn
                    conversations[seat] = await stack.enter_async_context(opened)
                segment = await conversations[seat].turn(turn.prompt)
                if segment.terminated:
                    break
                cut = _cut(conversations[seat].trace)
                turn = await asyncio.to_thread(match.answer, segment.last_reply, cut=cut)
                counts[seat][turn.answer] += 1
                for payee, reward in turn.rewards.items():
                    totals[payee] += reward
        if not turn.done:
            for payee, reward in match.abandon().items():
                totals[payee] += reward
        for seat, conversation in conversations.items():
            _record(conversation.trace, totals[seat], counts[seat], {"finished": float(turn.done)} | _numbers(turn))

    async def _ask(self, task: Any, agents: Any, match: SurveyMatch) -> None:
        """Ask all questions, as many at once as the run allows, and record the conclusion in every trace."""

        async def answer(seat: int, prompt: str) -> Any:
            return await _agent(agents, match, seat).run(task.with_data(prompt=prompt))

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(answer(seat, prompt)) for seat, prompt in match.questions]
        traces = [each.result() for each in asked]
        if failed := sum(not trace.ok for trace in traces):
            raise InputError(f"{failed} of {len(traces)} prompts have no answer; run again with a server that answers")
        answers = [SurveyAnswer(trace.last_reply, _cut(trace)) for trace in traces]
        end = await asyncio.to_thread(match.conclude, answers)
        for number, (trace, reply) in enumerate(zip(traces, answers, strict=True)):
            seat, _ = match.questions[number]
            _record(trace, end.rewards[seat], {match.status(number, reply): 1}, _numbers(end))


def _agent(agents: Any, match: TextMatch, seat: int) -> Any:
    return getattr(agents, f"seat_{seat}") if len(match.seats) > 1 else agents.player


def _cut(trace: Any) -> bool | None:
    """Return True if the last reply reached its limit; None if only its text shows."""
    last = next((call for call in reversed(trace.calls) if call.error is None), None)
    return True if last is not None and last.finish_reason == "length" else None


def _record(trace: Any, reward: float, counts: Mapping[str, int], numbers: Mapping[str, float]) -> None:
    trace.record_reward("match_reward", reward, 1.0)
    for name in (READ, ILLEGAL, INCOMPLETE, TRUNCATED):
        trace.record_metric(f"{name}_answers", counts.get(name, 0))
    for name, value in numbers.items():
        trace.record_metric(name, value)


def _numbers(turn: MatchTurn) -> dict[str, float]:
    """Return the facts of a turn that are numbers."""
    return {name: float(value) for name, value in turn.facts.items() if isinstance(value, int | float)}


class MatchTaskset(vf.Taskset[MatchTask, MatchTasksetConfig]):
    """`config.matches` tasks with consecutive seeds; the seats rotate."""

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
