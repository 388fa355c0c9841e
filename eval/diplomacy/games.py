"""Games of bots and policies, and what is kept of them; `language.py` plays those of language models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tqdm import tqdm

from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.board.positions import FIRST_YEAR
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.eval.diplomacy.options import DiplomacyOptions

if TYPE_CHECKING:
    from sparring.agents.opponents.diplomacy import PolicyOrders
    from sparring.envs.diplomacy.batch import DiplomacyBatch
    from sparring.envs.diplomacy.movement_batch import OrderWriter
    from sparring.eval.diplomacy.results import PowerRecord


@dataclass
class Played:
    """Records of the cells, and the game to watch: its phases, seven players and a note on its odds."""

    records: list[PowerRecord]
    phases: list[Phase] = field(default_factory=list)
    players: list[str] = field(default_factory=list)
    note: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    """Description of a language model, for the results."""
    cut: BaseException | None = None
    """Cause of an early end; the records are then of the games played."""


def play_bots(
    options: DiplomacyOptions,
    player: PolicyOrders | OrderWriter | None,
    device: str,
    threads: int,
    policies: Mapping[str, Path],
) -> Played:
    """Play bots, a policy, a search or a Python object against six equal ones; `policies` are files of opponents."""
    from sparring.agents.opponents.diplomacy import PolicyOrders, open_player
    from sparring.agents.ppo.tasks.diplomacy import play_against
    from sparring.envs.diplomacy.records.history import WatchedBatch
    from sparring.envs.diplomacy.rollouts.games import one_of_seven, play_to_end
    from sparring.eval.diplomacy.results import record

    players = {name: open_player(policies.get(name, name), device) for name in options.opponents}
    batch = make_batch(options, options.games, 0, device, threads)
    records = []
    own, bar = one_of_seven(batch.num_games), game_years(options, len(options.cells))
    for one, six in options.cells:
        bar.set_description(f"{one} vs six {six}")
        after_phase = partial(advance, bar, batch, bar.n)
        if isinstance(player, PolicyOrders):
            play_against(batch, player.network, players[six], seed=options.seed)
            after_phase()
        else:
            seats = [(player or players.get(one, one), own), (players[six], ~own)]
            play_to_end(batch, seats, seed=options.seed, after_phase=after_phase)
        records.append(record(one, six, batch.owner, batch.year, by_power=player is not None))
    bar.close()
    phases = phases_of(batch.past()) if isinstance(batch, WatchedBatch) else []
    batch.close()
    one, six = options.cells[-1]
    return Played(records, phases, [one, *[six] * (NUM_POWERS - 1)])


def game_years(options: DiplomacyOptions, cells: int) -> tqdm[NoReturn]:
    """Return a bar over the years of the games of all cells."""
    years = cells * options.games * (options.last_year - FIRST_YEAR + 1)
    return tqdm(total=years, unit="game-year", disable=options.quiet)


def advance(bar: tqdm[NoReturn], batch: DiplomacyBatch, before: float) -> None:
    """Advance the bar by years; a finished game counts all, so that the bar ends with the games."""
    over = int((batch.done > 0).sum())
    years = int((batch.year[batch.done == 0].long() - FIRST_YEAR).sum())
    bar.set_postfix_str(f"{over} of {batch.num_games} games over", refresh=False)
    bar.update(before + years + over * (batch.last_year - FIRST_YEAR + 1) - bar.n)


def make_batch(options: DiplomacyOptions, games: int, watched: int, device: str, threads: int) -> DiplomacyBatch:
    """Return a batch with its kernels loaded; with --replay it records the game `watched`."""
    from sparring.envs.diplomacy.batch import DiplomacyBatch
    from sparring.envs.diplomacy.records.history import WatchedBatch

    conditions: dict[str, Any] = {"device": device, "last_year": options.last_year, "threads": threads}
    with said_if_long(COMPILING, shown=not options.quiet):
        if options.replay:
            batch: DiplomacyBatch = WatchedBatch(games, watched=watched, **conditions)
        else:
            batch = DiplomacyBatch(games, **conditions)
        batch.load_kernels()
    return batch
