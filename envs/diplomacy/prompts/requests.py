"""Prompts of a phase in games with language models, and their answers and those of bots as orders.

`DIPLOMACY_TEXT` is the format of the answers for `envs.text`: tags, lines to test tokenizers, a menu to test servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import location_name, standard_board
from sparring.envs.diplomacy.board.positions import LAST_YEAR
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices, choices
from sparring.envs.diplomacy.orders.completion import CLOSING, OPENING, chosen_by, parse
from sparring.envs.diplomacy.prompts.prompts import PromptRules, render
from sparring.envs.text import Answered, Option, Prompt, TextFormat

LINES = (
    ("A PAR - BUR", "A PAR - GAS", "A PAR - PIC", "A PAR H", "A PAR S A MAR - BUR"),
    ("F BRE - ENG", "F BRE - MAO", "F BRE H"),
)
TRIAL = Choices(
    power=0,
    provinces=(0, 1),
    options=tuple(tuple(Option(text, 0, slot) for text in texts) for slot, texts in enumerate(LINES)),
    lines=len(LINES),
)


def seat_bots(batch: DiplomacyBatch, players: Sequence[Sequence[str]]) -> None:
    """Assign the batch's bots to the `players` [G][7] with a bot's name; the other seats stay open."""
    batch.players.copy_(torch.tensor([[_bot(name) for name in game] for game in players]))


def pending_requests(
    batch: DiplomacyBatch,
    players: Sequence[Sequence[str]],
    rules: PromptRules,
    seed: Callable[[int, int], int] = lambda game, power: 0,
    past: Callable[[int], str] = lambda game: "",
) -> list[Prompt]:
    """Return the prompts of all powers with orders to give in running games, except bots, game by game.

    `seed` returns the seed of a power of a game, `past` the lines on its earlier phases. Games in equal positions, such
    as new forks, share menus and texts, and so the caches keyed by them.
    """
    rendered: dict[tuple[bytes, int], tuple[Choices, str]] = {}
    state = {name: tensor.cpu().numpy() for name, tensor in batch.state.items()}
    prompts = []
    for game in np.flatnonzero(state["done"] == 0).tolist():
        seats = [power for power, name in enumerate(players[game]) if name not in codes.BOTS]
        row = {name: values[game] for name, values in state.items()}
        lines = past(game)
        alike = b"".join(value.tobytes() for value in row.values()) + lines.encode()
        unknown = [power for power in seats if (alike, power) not in rendered]
        listed = batch.legal_orders(game) if unknown else {}
        for power in unknown:
            options = choices(row, listed, power)
            how: dict[str, Any] = {"last_year": batch.last_year, "past": lines}
            text = render(row, power, options, rules, **how) if options.lines else ""
            rendered[alike, power] = options, text
        for power in seats:
            options, text = rendered[alike, power]
            if options.lines:
                prompts.append(Prompt(text, options, seed(game, power), row, game, power, players[game][power]))
    return prompts


def written_orders(batch: DiplomacyBatch, answered: Answered) -> torch.Tensor:
    """Return the answers as orders int32 [G, 75]; 0 for bots and for provinces without an order."""
    orders = np.zeros((batch.num_games, codes.NUM_PROVINCES), dtype=np.int32)
    for prompt, answer in answered:
        menu = prompt.menu
        assert isinstance(menu, Choices)
        menu.write(answer.chosen, orders[prompt.game])
    return torch.from_numpy(orders)


def _bot(name: str) -> int:
    return codes.BOTS.index(name) if name in codes.BOTS else codes.ACTIONS


def bot_answers(name: str, prompts: Sequence[Prompt], *, threads: int = 1) -> list[tuple[Option, ...]]:
    """Return the orders of bot `name`, one of `codes.BOTS`; each depends only on its prompt and seed.

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
    return [chosen_by(chosen, menu) for chosen, menu in zip(orders, menus, strict=True)]


def _position(prompt: Prompt) -> Any:
    if prompt.position is None or not isinstance(prompt.menu, Choices):
        raise InputError(
            f"a request for {prompt.menu.name} without its position: bots need it; give Prompt the game's"
            " rows, such as DiplomacyParallelEnv.row()"
        )
    return prompt.position


def probes() -> list[str]:
    """Return lines with every location of the board in every place of an order, to test a tokenizer."""
    names = [location_name(location) for location in range(len(standard_board().province_of))]
    texts = [WAIVE]
    for location, name in enumerate(names):
        other, third = names[(location + 7) % len(names)], names[(location + 31) % len(names)]
        texts += [f"A {name} H", f"F {name} - {other}", f"A {name} - {other} VIA", f"F {name} S A {other} - {third}"]
        texts += [f"F {name} C A {third} - {other}", f"A {name} S F {third}"]
        texts += [f"F {name} R {other}", f"A {name} D", f"F {name} B"]
    return texts


DIPLOMACY_TEXT = TextFormat(
    opening=OPENING,
    closing=CLOSING,
    probes=probes,
    read=parse,
    trial=TRIAL,
    sample=f"A PAR - BUR\nF STP/SC S A MOS\nWAIVE\n{OPENING}",
)
