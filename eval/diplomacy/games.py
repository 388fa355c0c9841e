"""Play the games of an evaluation: bots and policies here, language models by `language.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import InputError
from sparring.configs.core.status import COMPILING, LOADING, said_if_long, say
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.eval.diplomacy.last_year import last_year_of
from sparring.eval.diplomacy.models import LanguagePlayer, load
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


def settle(options: DiplomacyOptions, found: Path | str | None) -> DiplomacyOptions:
    """The same with the last year of who --ckpt means, where none was given; loads torch, and says so."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    say(LOADING, shown=not options.quiet)
    trained = last_year_of(found) if isinstance(found, Path) and not options.last_year_given else None
    return options if trained is None else replace(options, last_year=trained)


def play(options: DiplomacyOptions, found: Path | str | None, rivals: Mapping[str, Path]) -> Played:
    """Load the simulator and who is to play, and play every cell, with a bar.

    `found` is who --ckpt means, and `rivals` are the adapters among --opponents, by name.
    Raises `InputError` for who cannot play.
    """
    from sparring.agents.distributed.threads import set_threads
    from sparring.configs.core.device import choose_device

    device, threads = str(choose_device(options.device)), set_threads(options.threads)
    player = (
        None
        if found is None
        else load(
            found, temperature=options.temperature or 0.0, device=device, settings=options.settings, rivals=rivals
        )
    )
    _check(options, player)
    if isinstance(player, LanguagePlayer):
        from sparring.eval.diplomacy.language import play_language

        return play_language(options, player, device, threads)
    return _play_cells(options, player, device, threads)


def _check(options: DiplomacyOptions, player: LanguagePlayer | ActorCritic | None) -> None:
    """Raise `InputError` for options that this player does not go with."""
    language = isinstance(player, LanguagePlayer)
    if BASE_MODEL in options.opponents and not (isinstance(player, LanguagePlayer) and BASE_MODEL in player.models):
        what = "a model on a server" if language else "a policy, not an adapter"
        raise InputError(f"--opponents {BASE_MODEL}: {options.ckpt} is {what}; name bots")
    for name in () if language else options.rivals:
        raise InputError(f"--opponents {name}: {options.ckpt} is a policy, not an adapter, and meets bots alone")
    for name in () if language else options.language_only:
        raise InputError(f"--{name}: {options.ckpt} is no language model; leave it out")


def _play_cells(options: DiplomacyOptions, network: ActorCritic | None, device: str, threads: int) -> Played:
    """Bots, or a policy, against six bots of a kind."""
    from tqdm import tqdm

    from sparring.agents.play.diplomacy_matches import play_against
    from sparring.envs.diplomacy.records.history import WatchedBatch
    from sparring.eval.diplomacy.single_power import play_cell, record

    batch = make_batch(options, options.games, 0, device, threads)
    records = []
    with tqdm(options.cells, unit="cell", disable=options.quiet) as bar:
        for one, six in bar:
            bar.set_description(f"{one} vs six {six}")
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
