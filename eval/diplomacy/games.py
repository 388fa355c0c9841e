"""Games of bots and policies, and what is kept of them; `language.py` plays those of language models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.eval.command import show_cells
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
    options: DiplomacyOptions, player: PolicyOrders | OrderWriter | None, device: str, threads: int
) -> Played:
    """Play bots, a policy, a search or a Python object against six equal ones, of any kind but a policy."""
    from sparring.agents.opponents.diplomacy import PolicyOrders, open_player
    from sparring.agents.play.diplomacy_matches import play_against
    from sparring.envs.diplomacy.records.history import WatchedBatch
    from sparring.envs.diplomacy.rollouts.games import one_of_seven, play_to_end
    from sparring.eval.diplomacy.results import record

    players = {name: open_player(name) for name in options.opponents}
    batch = make_batch(options, options.games, 0, device, threads)
    records = []
    for one, six in show_cells(options.cells, " vs six ".join, shown=not options.quiet):
        if isinstance(player, PolicyOrders):
            play_against(batch, player.network, players[six], seed=options.seed)
        else:
            own = one_of_seven(batch.num_games)
            play_to_end(batch, [(player or players.get(one, one), own), (players[six], ~own)], seed=options.seed)
        records.append(record(one, six, batch.owner, batch.year, by_power=player is not None))
    phases = phases_of(batch.past()) if isinstance(batch, WatchedBatch) else []
    batch.close()
    one, six = options.cells[-1]
    return Played(records, phases, [one, *[six] * (NUM_POWERS - 1)])


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
