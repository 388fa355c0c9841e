"""Answers of scripted bots to prompts, computed from the position instead of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.positions import LAST_YEAR
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.orders.completion import chosen_by
from sparring.envs.text import Option, Prompt


def bot_answers(name: str, prompts: Sequence[Prompt], *, threads: int = 1) -> list[tuple[Option, ...]]:
    """Return the orders of bot `name`, one of `codes.BOTS`; each depends on its own prompt and seed only.

    Raises `InputError` for another name and for a prompt without a position.
    """
    bot = codes.BOTS.index(choose("bot", name, codes.BOTS))
    positions = [_position(prompt) for prompt in prompts]
    if not positions:
        return []
    batch = DiplomacyBatch(len(prompts), last_year=LAST_YEAR, threads=threads)
    batch.load({name: torch.from_numpy(np.stack([row[name] for row in positions])) for name in STATE})
    menus: list[Any] = [prompt.menu for prompt in prompts]
    batch.players.fill_(codes.ACTIONS)
    batch.players[torch.arange(len(prompts)), torch.tensor([menu.power for menu in menus])] = bot
    batch.game_id.copy_(torch.tensor([prompt.seed % 2**31 for prompt in prompts]))
    batch.draw_orders(0)
    orders = batch.orders.numpy().copy()
    batch.close()
    return [chosen_by(own, menu) for own, menu in zip(orders, menus, strict=True)]


def _position(prompt: Prompt) -> Any:
    if prompt.position is None or not isinstance(prompt.menu, Choices):
        raise InputError(
            f"a request for {prompt.menu.name} without its position: a bot reads no prompt; give Prompt the game's"
            " rows, such as DiplomacyParallelEnv.row()"
        )
    return prompt.position
