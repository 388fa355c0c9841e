"""Language models against opponents in Diplomacy, alone and six times, in games of all pairs at once.

Asking a language model is slow and asking it for many at a time is not, so games are played side by side, in rounds
just large enough to keep the model busy. Each round has as many games of every pair, with every power played as often:
what ends the evaluation, be it a server or Ctrl-C, costs the round under way, and the rounds before it are a fair
comparison by themselves. Games of equal number have the same draws in every pair, whatever the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from sparring.agents.llm.endpoint.backend import EndpointBackend
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.board.positions import FIRST_YEAR
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.records.timeline import phases_of
from sparring.envs.diplomacy.text_games.games import Lineup, one_against_six, play_games
from sparring.eval.diplomacy.games import Played, make_batch
from sparring.eval.diplomacy.models import POLICY, LanguagePlayer
from sparring.eval.diplomacy.option_odds import OddsKeeper, note
from sparring.eval.diplomacy.options import DiplomacyOptions
from sparring.eval.diplomacy.single_power import PowerRecord, record

Cells = Sequence[tuple[str, str]]
"""Who plays alone, and who plays the other six."""
Ends = tuple[Tensor, Tensor]
"""How games ended, pair by pair: owners of the centres [C, G, 34] and years [C, G]."""


def cells_of(opponents: Sequence[str], protocol: str = "both") -> list[tuple[str, str]]:
    """The policy alone, six of it, or either, against every opponent."""
    alone, six = protocol in ("both", "alone"), protocol in ("both", "six")
    return [pair for name in opponents for pair in ((POLICY, name),) * alone + ((name, POLICY),) * six]


def rounds_of(games: int, cells: int, at_a_time: int) -> list[range]:
    """Games 0 to `games` - 1 cut into rounds, each of the fewest sevens that make `at_a_time` in all `cells`."""
    size = NUM_POWERS * -(-at_a_time // (NUM_POWERS * cells))
    return [range(begin, min(begin + size, games)) for begin in range(0, games, size)]


def play_language(options: DiplomacyOptions, player: LanguagePlayer, device: str, threads: int) -> Played:
    """Play all games, or as many rounds as are whole when a model fails or Ctrl-C comes, which is then in `cut`.

    With --replay the first game with the last opponent is kept, one with the policy alone if there is.
    """
    cells, played = cells_of(options.opponents, options.protocol or "both"), Played([])
    ends: list[Ends] = []
    try:
        for end in _rounds(options, player, cells, played, (device, threads)):
            ends.append(end)
    except (InputError, KeyboardInterrupt) as error:
        played.cut = error
    finally:
        for backend in player.models.values():
            backend.close()
    played.about = player.about | {"temperature": options.temperature or 0.0} | served(player)
    played.records = _records(options, cells, ends) if ends else []
    return played


def _rounds(
    options: DiplomacyOptions, player: LanguagePlayer, cells: Cells, played: Played, machine: tuple[str, int]
) -> Iterator[Ends]:
    """Play round after round; the game to watch is in the first and goes to `played`."""
    years = len(cells) * options.games * (options.last_year - FIRST_YEAR + 1)
    with tqdm(total=years, unit="game-year", disable=options.quiet) as bar:
        for games in rounds_of(options.games, len(cells), player.at_a_time):
            asked = replace(options, replay=None) if games.start else options
            players = [game for one, six in cells for game in one_against_six(one, six, len(games))]
            watched = (len(cells) - (2 if (options.protocol or "both") == "both" else 1)) * len(games)
            with closing(make_batch(asked, len(players), watched, *machine)) as batch:
                batch.game_id.copy_(torch.tensor(games).repeat(len(cells)))
                cast = Lineup(players, player.models, player.rules)
                _play_round(asked, player, cast, batch, bar, played, watched)
                yield _ends(batch, len(cells))


def _play_round(
    options: DiplomacyOptions,
    player: LanguagePlayer,
    cast: Lineup,
    batch: DiplomacyBatch,
    bar: Any,
    played: Played,
    watched: int,
) -> None:
    """Play the games of one batch to their ends, and keep the one that is watched."""
    keeper = OddsKeeper(watched, knowing_odds(player)) if isinstance(batch, WatchedBatch) else None
    before = bar.n

    def after_phase() -> None:
        _advance(bar, batch, before)
        if keeper:
            keeper.after_phase()

    play_games(batch, cast, seed=options.seed, watch=keeper.watch if keeper else None, after_phase=after_phase)
    if keeper and isinstance(batch, WatchedBatch):
        played.phases = keeper.added(phases_of(batch.past()))
        played.players = [_shown(options, name) for name in cast.players[watched]]
        played.note = note(options.temperature or 0.0) if knowing_odds(player) else ""


def knowing_odds(player: LanguagePlayer) -> dict[str, TransformersBackend]:
    """The player's models in this process, which can say how likely an order was."""
    return {name: backend for name, backend in player.models.items() if isinstance(backend, TransformersBackend)}


def served(player: LanguagePlayer) -> dict[str, dict[str, float]]:
    """What a server was asked, what it cost and how often it failed; nothing of models in this process."""
    metrics: dict[str, float] = {}
    for backend in player.models.values():
        if isinstance(backend, EndpointBackend):
            metrics |= backend.metrics()
    return {"endpoint": metrics} if metrics else {}


def _ends(batch: DiplomacyBatch, cells: int) -> Ends:
    """Copies of how the games of a batch ended."""
    owner, year = batch.owner.to("cpu", copy=True), batch.year.to("cpu", copy=True)
    return owner.view(cells, -1, owner.shape[1]), year.view(cells, -1)


def _records(options: DiplomacyOptions, cells: Cells, ends: Sequence[Ends]) -> list[PowerRecord]:
    """What came of each cell in all rounds."""
    owner, year = (torch.cat(parts, dim=1) for parts in zip(*ends, strict=True))
    shown = [(_shown(options, one), _shown(options, six)) for one, six in cells]
    return [record(one, six, owner[cell], year[cell], by_power=True) for cell, (one, six) in enumerate(shown)]


def _advance(bar: Any, batch: DiplomacyBatch, before: int) -> None:
    """Count a game's years, all of them once it is over, so that the bar ends with the games."""
    over = int((batch.done > 0).sum())
    years = int((batch.year[batch.done == 0].long() - FIRST_YEAR).sum())
    bar.set_postfix_str(f"{over} of {batch.num_games} games over", refresh=False)
    bar.update(before + years + over * (batch.last_year - FIRST_YEAR + 1) - bar.n)


def _shown(options: DiplomacyOptions, name: str) -> str:
    """What tables call a player."""
    return (options.ckpt or name) if name == POLICY else name
