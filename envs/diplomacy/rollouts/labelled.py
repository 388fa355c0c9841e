"""Create, write and read positions with a teacher's orders for imitation.

In each game one power, i % 7 in game i, plays against six bots or other players. In every movement phase the teacher
names its orders, the labels. The power plays them, or the orders of a `player` whose mistakes the teacher corrects
(Ross et al. 2011). With probability `slips` it plays the bot's orders instead, so not all positions are the teacher's
own (Laskey et al. 2017). Retreats and adjustments are the bot's.

A folder holds `card.json` and parts of `GAMES_OF_A_PART` games each. A part is a file of named tensors
(`tensor_file.py`); its SHA-256 is in `manifest.json`. Row n of a part is one decision:

    units, dislodged, origin, owner, year, phase, winner, done    the position, as in `batch.STATE`
    power    int8, the power that orders
    orders   int32 [75], the teacher's packed orders for its units, 0 elsewhere
    share    float32, the power's share of the sum of squares at the end of the game
    game     int32, the number of the game
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import make_folder, read_json, write_atomically
from sparring.configs.core.manifest import ManifestError, read_listed, write_listed
from sparring.configs.core.tensor_file import TensorFileError, check_tensors, pack, unpack
from sparring.configs.core.typed import naming
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.rewards.scoring import sum_of_squares
from sparring.envs.diplomacy.rollouts.games import mixed_seats, reseed, seated

SCHEMA = "sparring-labelled-orders-1"
CARD = "card.json"
GAMES_OF_A_PART = 56
BOT = "dumbbot"
Rows = dict[str, Tensor]
"""Decisions by column, [n, ...] each."""
FIELDS = {
    **STATE,
    "power": (0, torch.int8),
    "orders": (codes.NUM_PROVINCES, torch.int32),
    "share": (0, torch.float32),
    "game": (0, torch.int32),
}


@dataclass(frozen=True)
class LabelSettings:
    """Settings of the labels; equal settings give equal parts unless a player's budget is in seconds."""

    teacher: str
    games: int
    """Games, rounded up to whole parts."""
    seed: int
    last_year: int = 1910
    player: str = ""
    """Player of the power; empty: the teacher."""
    slips: float = 0.0
    """Probability that a phase is played with the bot's orders instead."""
    opponents: Sequence[str] = (BOT,)
    """Names of the others, who have the powers in turn (`mixed_seats`)."""

    @property
    def parts(self) -> int:
        """Number of files."""
        return -(-self.games // GAMES_OF_A_PART)


class Labeller:
    """Plays the games of parts; `teacher` None is the bot, with cheap labels; `player` None is the teacher.

    `opponents` are the other players, bots by their names.
    """

    def __init__(
        self,
        settings: LabelSettings,
        teacher: OrderWriter | None,
        player: OrderWriter | None = None,
        opponents: Sequence[str | OrderWriter] = (BOT,),
    ) -> None:
        self.settings, self._teacher, self._player, self._opponents = settings, teacher, player, opponents
        self.batch = DiplomacyBatch(GAMES_OF_A_PART, last_year=settings.last_year, threads=1)

    def part(self, number: int) -> Rows:
        """Play the games of part `number`; return all decisions, in the order in which they were made."""
        batch, (seat, *others) = self.batch, mixed_seats(GAMES_OF_A_PART, len(self._opponents))
        batch.reset()
        batch.game_id.copy_(torch.arange(GAMES_OF_A_PART) + number * GAMES_OF_A_PART)
        seats = seated(batch, [(BOT, seat), *zip(self._opponents, others, strict=True)])
        reseed((self._teacher, self._player, *self._opponents), self.settings.seed * 1_000_003 + number)
        chance = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + number)
        parts: list[Rows] = []
        while not bool(batch.done.all()):
            batch.draw_orders(self.settings.seed)
            for player, powers in seats:
                if not isinstance(player, str):
                    player.write(batch, powers & (batch.done == 0).unsqueeze(1))
            if (rows := self._due(seat)).any():
                parts.append(self._label(rows, seat, chance))
            batch.process()
        batch.check()
        columns = {name: torch.cat([rows[name] for rows in parts]) for name in parts[0]}
        row, power = columns["game"].long(), columns["power"].long()
        columns["share"] = sum_of_squares(batch.owner)[row, power].float()
        columns["game"] = batch.game_id[row]
        return columns

    def close(self) -> None:
        """Stop the worker threads."""
        self.batch.close()

    def _due(self, seat: Tensor) -> Tensor:
        """Return the games in which the power has an order to give, bool [G]."""
        batch = self.batch
        moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)) & (batch.done == 0)
        return moving & self._units(seat).any(dim=1)

    def _units(self, seat: Tensor) -> Tensor:
        """Return the provinces with a unit of the power, bool [G, 75]."""
        return power_of(self.batch.units) == seat.int().argmax(1, keepdim=True)

    def _label(self, due: Tensor, seat: Tensor, chance: torch.Generator) -> Rows:
        """Write the orders to be played in the games `due`; return the teacher's, `game` being the row."""
        batch, seats, units = self.batch, seat & due.unsqueeze(1), self._units(seat)
        bots = batch.orders.clone()
        if self._teacher is not None:
            self._teacher.write(batch, seats)
        taught = batch.orders.masked_fill(~units, 0)
        if self._player is not None:
            batch.orders.copy_(bots)
            self._player.write(batch, seats)
        slips = torch.rand(len(due), generator=chance) < self.settings.slips
        batch.orders.copy_(torch.where(slips.unsqueeze(1), bots, batch.orders))
        rows = due.nonzero().squeeze(1)
        state = {name: values[rows] for name, values in batch.snapshot().items()}
        return state | {"power": seat[rows].int().argmax(1).to(torch.int8), "orders": taught[rows], "game": rows.int()}


def write_labels(
    folder: Path,
    settings: LabelSettings,
    play: Callable[[Sequence[int]], Iterable[tuple[int, Rows]]],
    *,
    about: Mapping[str, Any],
) -> Iterator[tuple[int, Rows]]:
    """Write the parts that `folder` lacks, which `play` makes in any order; yield each number with its rows.

    A part exists as a whole or not at all, so an interrupted call is continued by the next. `about` is added to the
    card. Raises `InputError` for a folder with other settings.
    """
    make_folder(folder)
    plain = asdict(settings) | {"opponents": list(settings.opponents)}
    if (folder / CARD).exists():
        stored = {"opponents": [BOT]} | {name: value for name, value in read_card(folder).items() if name in plain}
        for name in plain:
            if name != "games" and stored.get(name) != plain[name]:
                raise InputError(
                    f"{folder}: was created with {name}={stored.get(name)!r}, not {plain[name]!r}; give another folder"
                )
    missing = [number for number in range(settings.parts) if not _path(folder, number).exists()]
    for number, rows in play(missing):
        write_listed(_path(folder, number), pack({"schema": SCHEMA, "rows": rows}))
        _write_card(folder, plain, about)
        yield number, rows


def _write_card(folder: Path, plain: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    parts = sorted(folder.glob("part_*.pt"))
    card = {"schema": SCHEMA, **plain, **about, "games": len(parts) * GAMES_OF_A_PART, "parts": len(parts)}
    write_atomically(folder / CARD, json.dumps(card, indent=1) + "\n")


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a folder; raises `InputError` if it is missing, damaged or of another schema."""
    try:
        card = read_json(folder / CARD, follow=True)
    except FileNotFoundError as error:
        raise InputError(
            f"{folder}: {CARD} missing; give a folder of labels, such as checkpoints/<run>/data"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / CARD}: cannot be read; create the labels again in another folder") from error
    if not isinstance(card, dict) or card.get("schema") != SCHEMA:
        raise InputError(f"{folder / CARD}: is not a card of {SCHEMA}; create the labels again in another folder")
    return card


def read_labels(folders: Sequence[Path]) -> Rows:
    """Return the decisions of all parts of some folders; games are renumbered to keep their numbers unique.

    Raises `InputError` for a folder without parts, and for a part that is damaged or differs from its manifest.
    """
    read: list[Rows] = []
    begin = 0
    for folder in folders:
        read_card(folder)
        parts = [_read_part(path) for path in sorted(folder.glob("part_*.pt"))]
        if not parts:
            raise InputError(f"{folder}: has no labels yet; create them, or give another folder")
        for rows in parts:
            rows["game"] += begin
        begin = 1 + max(int(rows["game"].max()) for rows in parts)
        read += parts
    return {name: torch.cat([rows[name] for rows in read]) for name in FIELDS}


def _read_part(path: Path) -> Rows:
    try:
        content = unpack(read_listed(path, follow=True))
    except (OSError, ManifestError, TensorFileError) as error:
        raise InputError(f"{path}: {error}; remove it and run the command again, which recreates it") from error
    if content.get("schema") != SCHEMA:
        raise InputError(f"{path}: is not a part of {SCHEMA}; remove it and run the command again")
    rows = content["rows"]
    n = len(rows["power"])
    expected = {name: torch.empty((n, size) if size else n, dtype=kind) for name, (size, kind) in FIELDS.items()}
    with naming(path, InputError, "remove it and run the command again"):
        return check_tensors(rows, expected, "rows")


def _path(folder: Path, number: int) -> Path:
    return folder / f"part_{number:04d}.pt"
