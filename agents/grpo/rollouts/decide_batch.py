"""Batched decisions of the players, with failures confined to the games that they concern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sparring.agents.llm.backend import Backend, Decision, PromptError
from sparring.configs.core.errors import InputError
from sparring.envs.text import Prompt

Fail = Callable[[set[int], str], None]
"""Callback for games that cannot continue, with the cause."""
Decided = list[tuple[Prompt, Decision]]


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
