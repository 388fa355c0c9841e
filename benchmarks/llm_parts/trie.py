"""Cost of the legal orders of a position as tokens: the trie of a power with many units.

An order's text is encoded when it is first met, with all others that are new in one call of the tokenizer; later
positions find most of theirs known. A trie belongs to a position, so that of a group's samples is made once for all.
Measured are the positions with the most units to move that a bot comes to, in processor time of all threads.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.llm_parts.work import LAST_YEAR, Size, begin
from sparring.agents.llm.decoding.constraint import Constraint
from sparring.agents.llm.models.tiny import game_tokenizer
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, NUM_POWERS
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT

POSITIONS = 9


def measure(size: Size, *, rounds: int, threads: int) -> dict[str, float]:
    """Return median units and milliseconds over positions, each the median of `rounds`; `most` is the largest."""
    begin(threads, size.seed)
    tokenizer, positions = game_tokenizer("diplomacy"), largest(size)
    found = [milliseconds(tokenizer, asked, size.samples, rounds) for asked in positions]
    units = [float(asked.lines) for asked in positions]
    middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
    return {"units": statistics.median(units), "most": max(units), "positions": float(len(units)), **middle}


def largest(size: Size) -> list[Choices]:
    """The most units that one power had to move in each phase of as many games as there are groups; of these the most.

    It is a DumbBot among players at random, since among its equals no power becomes as great.
    """
    row = torch.arange(size.groups)
    batch = DiplomacyBatch(size.groups, last_year=LAST_YEAR, threads=1)
    batch.reset()
    batch.players.fill_(BOTS.index("random"))
    batch.players[row, row % NUM_POWERS] = BOTS.index("dumbbot")
    found: list[Choices] = []
    while not bool(batch.done.all()):
        found += sorted(_moves(batch), key=lambda asked: asked.lines)[-1:]
        batch.draw_orders(size.seed)
        batch.process()
    batch.close()
    return sorted(found, key=lambda asked: asked.lines)[-POSITIONS:]


def _moves(batch: DiplomacyBatch) -> Iterator[Choices]:
    """Return the DumbBot's legal orders in each game that goes on, without adjustment phases."""
    for game in torch.nonzero(batch.done == 0).flatten().tolist():
        row = {name: tensor[game].numpy() for name, tensor in batch.state.items()}
        asked = choices(row, batch.legal_orders(game), game % NUM_POWERS)
        if asked.lines and not asked.winter:
            yield asked


def milliseconds(tokenizer: Any, position: Choices, samples: int, rounds: int) -> dict[str, float]:
    """Return the times of a trie whose orders are all `new`, all `known`, and known and shared by all `samples`.

    Medians of `rounds`, after one to warm up.
    """
    times: dict[str, list[float]] = {"new": [], "known": [], "shared": []}
    for _ in range(1 + rounds):
        constraint = Constraint(tokenizer, DIPLOMACY_TEXT)
        for name, asked in (("new", [position]), ("known", [position]), ("shared", [position] * samples)):
            began = time.process_time()
            constraint.compile(asked)
            times[name].append(1000.0 * (time.process_time() - began))
    return {name: statistics.median(values[1:]) for name, values in times.items()}
