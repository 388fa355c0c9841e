"""Play the games of bots and policies, and what is kept of games; those of language models are in `language.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.eval.command import show_cells
from sparring.eval.diplomacy.options import DiplomacyOptions

if TYPE_CHECKING:
    from sparring.agents.policies.actor_critic import ActorCritic
    from sparring.envs.diplomacy.batch import DiplomacyBatch
    from sparring.eval.diplomacy.single_power import PowerRecord


@dataclass
class Played:
    """What came of the cells, and the game to watch: its phases, its seven players, and what its odds are."""

    records: list[PowerRecord]
    phases: list[Phase] = field(default_factory=list)
    players: list[str] = field(default_factory=list)
    note: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    """What the results say of a language model."""
    cut: BaseException | None = None
    """What ended the games before all were played; the records are of those that were."""


def play_bots(options: DiplomacyOptions, network: ActorCritic | None, device: str, threads: int) -> Played:
    """Bots, or a policy, against six bots of a kind."""
    from sparring.agents.play.diplomacy_matches import play_against
    from sparring.envs.diplomacy.records.history import WatchedBatch
    from sparring.eval.diplomacy.single_power import play_cell, record

    batch = make_batch(options, options.games, 0, device, threads)
    records = []
    for one, six in show_cells(options.cells, " vs six ".join, shown=not options.quiet):
        if network is None:
            records.append(play_cell(batch, one, six, options.seed))
        else:
            play_against(batch, network.to(batch.device), six, seed=options.seed)
            records.append(record(one, six, batch.owner, batch.year, by_power=True))
    phases = phases_of(batch.past()) if isinstance(batch, WatchedBatch) else []
    batch.close()
    one, six = options.cells[-1]
    return Played(records, phases, [one, *[six] * (NUM_POWERS - 1)])


def make_batch(options: DiplomacyOptions, games: int, watched: int, device: str, threads: int) -> DiplomacyBatch:
    """A batch with its kernels loaded; with --replay one that keeps what happens in the game `watched`."""
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
