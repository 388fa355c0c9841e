"""Language models against opponents in Diplomacy, alone and six times, in all games of all pairs at once.

Asking a language model is slow and asking it for many at a time is not, so nothing waits for anything else: one batch
holds every game. Games of equal number have the same draws in every pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tqdm import tqdm

from agents.llm.endpoint.backend import EndpointBackend
from agents.llm.games import Cast, one_against_six, play_games
from agents.llm.transformers_backend import TransformersBackend
from envs.diplomacy.batch import DiplomacyBatch
from envs.diplomacy.history import WatchedBatch
from envs.diplomacy.positions import FIRST_YEAR
from envs.diplomacy.recording import phases_of
from eval.diplomacy_games import Played, make_batch
from eval.diplomacy_models import POLICY, LanguagePlayer
from eval.diplomacy_odds import OddsKeeper, note
from eval.diplomacy_options import Options
from eval.one_against_six import Record, record

Cells = Sequence[tuple[str, str]]
"""Who plays alone, and who plays the other six."""


def cells_of(opponents: Sequence[str], protocol: str = "both") -> list[tuple[str, str]]:
    """The policy alone, six of it, or either, against every opponent."""
    alone, six = protocol in ("both", "alone"), protocol in ("both", "six")
    return [pair for name in opponents for pair in ((POLICY, name),) * alone + ((name, POLICY),) * six]


def play_language(options: Options, player: LanguagePlayer, device: str, threads: int) -> Played:
    """Play all games; with --replay the first with the last opponent is kept, one with the policy alone if there is."""
    protocol = options.protocol or "both"
    cells, games = cells_of(options.opponents, protocol), options.games
    players = [game for one, six in cells for game in one_against_six(one, six, games)]
    cast = Cast(players, player.models, player.rules)
    watched = (len(cells) - (2 if protocol == "both" else 1)) * games
    batch = make_batch(options, len(cast.players), watched, device, threads)
    batch.game_id.copy_(torch.arange(games).repeat(len(cells)))
    keeper = OddsKeeper(watched, knowing_odds(player)) if isinstance(batch, WatchedBatch) else None
    with tqdm(total=len(cast.players) * _years(batch), unit="game-year", disable=options.quiet) as bar:

        def after_phase() -> None:
            _advance(bar, batch)
            if keeper:
                keeper.after_phase()

        play_games(batch, cast, seed=options.seed, watch=keeper.watch if keeper else None, after_phase=after_phase)
    about = player.about | {"temperature": options.temperature or 0.0} | served(player)
    played = Played(_records(options, cells, batch), about=about)
    if keeper and isinstance(batch, WatchedBatch):
        played.phases = keeper.added(phases_of(batch.past()))
        played.players = [_shown(options, name) for name in cast.players[watched]]
        played.note = note(options.temperature or 0.0) if knowing_odds(player) else ""
    batch.close()
    for backend in player.models.values():
        backend.close()
    return played


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


def _records(options: Options, cells: Cells, batch: DiplomacyBatch) -> list[Record]:
    """What came of each cell."""
    found = []
    for number, pair in enumerate(cells):
        own = slice(number * options.games, (number + 1) * options.games)
        one, six = (_shown(options, name) for name in pair)
        found.append(record(one, six, batch.owner[own], batch.year[own], by_power=True))
    return found


def _advance(bar: Any, batch: DiplomacyBatch) -> None:
    """Count a game's years, all of them once it is over, so that the bar ends with the games."""
    over = int((batch.done > 0).sum())
    years = int((batch.year[batch.done == 0].long() - FIRST_YEAR).sum())
    bar.set_postfix_str(f"{over} of {batch.num_games} games over", refresh=False)
    bar.update(years + over * _years(batch) - bar.n)


def _years(batch: DiplomacyBatch) -> int:
    return batch.last_year - FIRST_YEAR + 1


def _shown(options: Options, name: str) -> str:
    """What tables call a player."""
    return (options.ckpt or name) if name == POLICY else name
