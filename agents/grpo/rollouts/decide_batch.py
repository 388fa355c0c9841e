"""Having prompts answered by their players, some of which may not be able to answer for every game."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sparring.agents.llm.backend import Backend, Decision, PromptError
from sparring.configs.core.errors import InputError
from sparring.envs.text import Prompt

Fail = Callable[[set[int], str], None]
"""Is given games that cannot go on, and the cause."""
Decided = list[tuple[Prompt, Decision]]


def decide_all(backend_of: Callable[[str], Backend], prompts: Sequence[Prompt], fail: Fail) -> Decided:
    """What all players decide, player by player; a game that failed with one is no longer shown to the next."""
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
    """What `player` decides for its `prompts`.

    Games with a prompt that it cannot read are given to `fail` with the cause, and the others are asked for again;
    where it cannot be asked at all, so are all of them. A decision does not depend on which others there are.
    """
    if not prompts:
        return []
    try:
        return list(zip(prompts, player().decide(prompts), strict=True))
    except PromptError as error:
        hurt = {prompts[place].game for place in error.places}
        fail(hurt, str(error))
        return decide_batch(player, [prompt for prompt in prompts if prompt.game not in hurt], fail)
    except InputError as error:
        fail({prompt.game for prompt in prompts}, str(error))
        return []
