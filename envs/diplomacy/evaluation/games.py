"""Games of bots, policies and language models, and what is kept of them.

A language model is slow for one decision at a time and fast for many, so its games run in parallel, in rounds just
large enough to keep it busy. Each round has equally many games of every pair and power. A failing server or Ctrl-C
loses only the current round, and the rounds before it are a fair comparison by themselves. Games of equal number have
the same random draws in every pair, whatever the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import torch
from annotated_types import Len
from pydantic import Field
from torch import Tensor
from tqdm import tqdm

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.llm.endpoint.backend import EndpointBackend
from sparring.agents.llm.endpoint.retry import fallbacks_of
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.agents.opponents.language import POLICY
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.board.positions import FIRST_YEAR
from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.evaluation.results import PowerRecord, record
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.records.timeline import Odds, Phase, phases_of
from sparring.envs.diplomacy.rollouts.games import ModelOrders, one_of_seven, play_to_end, seats_of_pairs
from sparring.envs.diplomacy.training.opponents import LanguagePlayer, PolicyOrders, open_player

if TYPE_CHECKING:
    from sparring.agents.llm.backend import Decision
    from sparring.agents.llm.decoding.scoring import LineOdds
    from sparring.envs.diplomacy.movement_batch import OrderWriter
    from sparring.envs.text import Prompt


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
    saved: KeptFile | None = None,
) -> Played:
    """Play bots, a policy, a search or a Python object against six equal ones; `policies` are files of opponents.

    `saved` has the cells that were played before, and keeps the others, but for one whose first game is shown.
    """
    opponents = {name: open_player(policies.get(name, name), device) for name in options.opponents}
    last = options.cells[-1]
    cells = []
    for lone, six in options.cells:
        players = opponents.get(lone, lone) if player is None else player, opponents[six]
        cells.append(BotCell(options, (lone, six), players, device, threads, recorded=(lone, six) == last))
    bar: dict[str, Any] = {"label": BotCell.__str__, "unit": "game-year", "quiet": options.quiet}
    results = KeptResults[Any](saved.file, tuple[PowerRecord, list[Any]]) if saved else None
    keys = ["" if cell.recorded and options.replay else f"{saved.key} {cell}" for cell in cells] if saved else ()
    bar["sizes"] = [years_of(options)] * len(cells)
    played = finish_tasks(play_cell, cells, options.runner, cached=results, keys=keys, **bar)
    lone, six = last
    return Played([record for record, _ in played], played[-1][1], [lone, *[six] * (NUM_POWERS - 1)])


@dataclass(frozen=True)
class BotCell:
    """Games of one player against six others, a task of an executor; the first is recorded if it is to be `shown`."""

    options: DiplomacyOptions
    names: tuple[str, str]
    players: tuple[str | OrderWriter, str | OrderWriter]
    device: str
    threads: int
    recorded: bool

    def __str__(self) -> str:
        return "{} vs six {}".format(*self.names)


def play_cell(cell: BotCell, bar: tqdm[NoReturn]) -> tuple[PowerRecord, list[Phase]]:
    """Play the games of a cell; return their record, and the phases of the first one if it is to be shown."""
    from sparring.envs.diplomacy.training.task import play_against

    options, (player, opponent) = cell.options, cell.players
    batch = make_batch(options, options.games, 0 if cell.recorded else None, cell.device, cell.threads)
    try:
        if isinstance(player, PolicyOrders) and options.ckpt:
            play_against(batch, player.network, opponent, seed=options.seed)
        else:
            seats, after_phase = one_of_seven(batch.num_games), partial(advance, bar, batch, bar.n)
            play_to_end(batch, [(player, seats), (opponent, ~seats)], seed=options.seed, after_phase=after_phase)
        by_power = bool(options.ckpt)
        return (
            record(*cell.names, batch.owner, batch.year, by_power=by_power),
            phases_of(batch.past()) if isinstance(batch, WatchedBatch) else [],
        )
    finally:
        batch.close()


def game_years(options: DiplomacyOptions, cells: int) -> tqdm[NoReturn]:
    """Return a bar over the years of the games of all cells."""
    return tqdm(total=cells * years_of(options), unit="game-year", disable=options.quiet)


def years_of(options: DiplomacyOptions) -> int:
    """Return the years of the games of one cell."""
    return options.games * (options.last_year - FIRST_YEAR + 1)


def advance(bar: tqdm[NoReturn], batch: DiplomacyBatch, before: float) -> None:
    """Advance the bar by years; a finished game counts all, so that the bar ends with the games."""
    over = int((batch.done > 0).sum())
    years = int((batch.year[batch.done == 0].long() - FIRST_YEAR).sum())
    bar.set_postfix_str(f"{over} of {batch.num_games} games over", refresh=False)
    bar.update(before + years + over * (batch.last_year - FIRST_YEAR + 1) - bar.n)


def make_batch(options: DiplomacyOptions, games: int, watched: int | None, device: str, threads: int) -> DiplomacyBatch:
    """Return a batch with its kernels loaded; with --replay it records the game `watched`, if any."""
    conditions: dict[str, Any] = {"device": device, "last_year": options.last_year, "threads": threads}
    with said_if_long(COMPILING, enabled=not options.quiet):
        if options.replay and watched is not None:
            batch: DiplomacyBatch = WatchedBatch(games, watched=watched, **conditions)
        else:
            batch = DiplomacyBatch(games, **conditions)
        batch.load_kernels()
    return batch


MOST = 5
"""Alternatives of a decision listed with the odds; the others are summed up."""
Cells = Sequence[tuple[str, str]]
"""Pairs: player of one power, player of six."""
GameEnd = tuple[Annotated[list[Annotated[int, Field(ge=-1, lt=NUM_POWERS)]], Len(NUM_CENTRES, NUM_CENTRES)], int]
"""Final state of a game: owners of the centres, and the year."""


def cells_of(opponents: Sequence[str], protocol: str = "both") -> list[tuple[str, str]]:
    """Pair the policy, alone, as six, or both, with every opponent; in the benchmark alone."""
    alone, six = protocol != "six", protocol in ("both", "six")
    return [pair for name in opponents for pair in ((POLICY, name),) * alone + ((name, POLICY),) * six]


def rounds_of(games: int, cells: int, at_a_time: int) -> list[range]:
    """Split games 0 to `games` - 1 into rounds of the fewest sevens that make `at_a_time` over all `cells`."""
    size = NUM_POWERS * -(-at_a_time // (NUM_POWERS * cells))
    return [range(begin, min(begin + size, games)) for begin in range(0, games, size)]


@dataclass(frozen=True)
class KeptFile:
    """The file of games that have ended, and the key of all that they depend on."""

    file: Path
    key: str


class LanguageGames:
    """Games that have ended, by pair and number: the owners of the centres and the last year of each.

    They are read from `kept` and kept there; the game that is `shown` is played in any case.
    """

    def __init__(self, cells: Cells, saved: KeptFile | None, watched: tuple[int, int] | None) -> None:
        self._names = [f"{saved.key if saved else ''} {lone} vs six {six}" for lone, six in cells]
        self._results = KeptResults[GameEnd](saved.file, GameEnd) if saved else None
        self._ends = self._results.read() if self._results else {}
        if watched:
            self._ends.pop(self._name(*watched), None)

    def _name(self, cell: int, game: int) -> str:
        return f"{self._names[cell]} {game}"

    def remaining(self, games: range) -> list[tuple[int, int]]:
        """Return the pair and the number of those of `games` of every pair that have not ended."""
        all_games = product(range(len(self._names)), games)
        return [(cell, game) for cell, game in all_games if self._name(cell, game) not in self._ends]

    def add(self, cell: int, game: int, owner: Tensor, year: Tensor) -> None:
        """Keep a game that ended with `owner` [34] in `year`."""
        name, end = self._name(cell, game), (owner.tolist(), int(year))
        self._ends[name] = end
        if self._results:
            self._results.add(name, end)

    def ends(self, cell: int, games: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return owners [G, 34] and years [G] of `games` of a pair."""
        owners, years = zip(*(self._ends[self._name(cell, game)] for game in games), strict=True)
        return torch.tensor(owners, dtype=torch.int8), torch.tensor(years, dtype=torch.int16)

    def discard(self) -> None:
        """Remove the file, once all games have ended."""
        if self._results:
            self._results.discard()


def play_language(
    options: DiplomacyOptions, player: LanguagePlayer, device: str, threads: int, saved: KeptFile | None = None
) -> Played:
    """Play all games; if a model fails or on Ctrl-C, show the complete rounds and put the cause in `cut`.

    Games that `saved` has are not played again, and it keeps each that ends, in complete rounds or not. With
    --replay, show the first game against the last opponent, with the policy alone if there is one.
    """
    cells, played = cells_of(options.opponents, options.protocol or "both"), Played([])
    both = (options.protocol or "both") == "both"
    watched = (len(cells) - (2 if both else 1), 0) if options.replay else None
    ended, done = LanguageGames(cells, saved, watched), list[int]()
    try:
        for games in _rounds(options, player, cells, played, (device, threads), ended, watched):
            done += games
        ended.discard()
    except (InputError, KeyboardInterrupt) as error:
        played.cut = error
    finally:
        for backend in player.models.values():
            backend.close()
    notes = {name: note for model in player.models.values() for name, note in getattr(model, "notes", {}).items()}
    temperature = None if "temperature" in notes else options.temperature or 0.0
    played.about = player.about | {"temperature": temperature} | served(player)
    if notes:
        played.about["endpoint_notes"] = list(notes.values())
    played.records = _records(options, cells, ended, done) if done else []
    return played


def _rounds(
    options: DiplomacyOptions,
    player: LanguagePlayer,
    cells: Cells,
    played: Played,
    machine: tuple[str, int],
    ended: LanguageGames,
    watched_game: tuple[int, int] | None,
) -> Iterator[range]:
    """Play what is left of all rounds; the game to watch is in the first and is stored in `played`."""
    with game_years(options, len(cells)) as bar:
        for games in rounds_of(options.games, len(cells), player.at_a_time):
            remaining = ended.remaining(games)
            bar.update((len(cells) * len(games) - len(remaining)) * years_of(options) // options.games)
            if remaining:
                watched = remaining.index(watched_game) if watched_game in remaining else None
                with closing(make_batch(options, len(remaining), watched, *machine)) as batch:
                    batch.game_id.copy_(torch.tensor([game for _, game in remaining]))
                    _play_round(options, player, cells, remaining, batch, bar, played, watched, ended)
            yield games


def _play_round(
    options: DiplomacyOptions,
    player: LanguagePlayer,
    cells: Cells,
    remaining: Sequence[tuple[int, int]],
    batch: DiplomacyBatch,
    bar: Any,
    played: Played,
    watched: int | None,
    ended: LanguageGames,
) -> None:
    """Play the games `remaining` of one batch to their ends, keep each, and record the watched one."""
    keeper = OddsKeeper(watched or 0, knowing_odds(player)) if isinstance(batch, WatchedBatch) else None
    before, waiting = bar.n, set(range(len(remaining)))

    def after_phase() -> None:
        advance(bar, batch, before)
        if keeper:
            keeper.after_phase()
        over = batch.done.tolist()
        for row in [row for row in waiting if over[row]]:
            refuse_fallbacks(served(player).get("endpoint", {}))
            ended.add(*remaining[row], batch.owner[row], batch.year[row])
            waiting.remove(row)

    powers = seats_of_pairs(cells, NUM_POWERS)
    rows = torch.tensor([cell * NUM_POWERS + game % NUM_POWERS for cell, game in remaining])
    how: dict[str, Any] = {"seed": options.seed, "watch": keeper.watch if keeper else None}
    models = {name: ModelOrders(name, model, player.rules, **how) for name, model in player.models.items()}
    lineup = [(models.get(name, name), seats[rows]) for name, seats in powers.items()]
    play_to_end(batch, lineup, seed=options.seed, after_phase=after_phase)
    if keeper and isinstance(batch, WatchedBatch) and watched is not None:
        played.phases = keeper.added(phases_of(batch.past()))
        lone, six = (_display_name(options, name) for name in cells[remaining[watched][0]])
        played.players = [lone, *[six] * (NUM_POWERS - 1)]
        played.note = note(options.temperature or 0.0) if knowing_odds(player) else ""


def knowing_odds(player: LanguagePlayer) -> dict[str, TransformersBackend]:
    """Return the models in this process, which give the probabilities of orders."""
    return {name: backend for name, backend in player.models.items() if isinstance(backend, TransformersBackend)}


def served(player: LanguagePlayer) -> dict[str, dict[str, float]]:
    """Return a server's metrics: requests, cost, failures; nothing for models in this process."""
    metrics: dict[str, float] = {}
    for backend in player.models.values():
        if isinstance(backend, EndpointBackend):
            metrics |= backend.metrics()
    return {"endpoint": metrics} if metrics else {}


def refuse_fallbacks(metrics: Mapping[str, float]) -> None:
    """Raise `InputError` if none of a server's decisions is its own: such games say nothing about its model."""
    if metrics and 0 < metrics["endpoint/decisions"] == metrics["endpoint/fallbacks"]:
        raise InputError(f"endpoint: {fallbacks_of(metrics)}; the games are not the model's")


def _records(options: DiplomacyOptions, cells: Cells, ended: LanguageGames, games: Sequence[int]) -> list[PowerRecord]:
    """Return the record of `games` of each cell."""
    records = []
    for cell, (lone, six) in enumerate(cells):
        owner, year = ended.ends(cell, games)
        records.append(record(_display_name(options, lone), _display_name(options, six), owner, year, by_power=True))
    return records


def _display_name(options: DiplomacyOptions, name: str) -> str:
    """Return a player's name in tables."""
    return (options.ckpt or name) if name == POLICY else name


class OddsKeeper:
    """Collect the odds of one `game` while it is played: callbacks of its players and of `play_to_end`.

    `models` are those that compute odds; one on a server does not.
    """

    def __init__(self, game: int, models: Mapping[str, TransformersBackend]) -> None:
        self._game, self._models = game, models
        self._phases: list[list[Odds]] = [[]]

    def watch(self, prompt: Prompt, decision: Decision) -> None:
        """Record a decision."""
        if prompt.game == self._game and prompt.player in self._models:
            lines = self._models[prompt.player].odds(prompt, decision)
            self._phases[-1] += [_line_odds(prompt.seat, line) for line in lines]

    def after_phase(self) -> None:
        """Start the next phase."""
        self._phases.append([])

    def added(self, phases: Sequence[Phase]) -> list[Phase]:
        """Return the game's phases, with odds where there are any."""
        with_odds: list[Phase] = []
        for number, phase in enumerate(phases):
            odds = self._phases[number] if number < len(self._phases) else []
            with_odds.append({**phase, "odds": odds} if odds else phase)
        return with_odds


def note(temperature: float) -> str:
    """Return a note on the odds."""
    return (
        "Exact: over all legal options of this line, given the lines before, at temperature "
        f"{temperature or 1.0:g}{'' if temperature else '; in the game the likeliest token was taken each time'}."
    )


def _line_odds(power: int, line: LineOdds) -> Odds:
    shares = zip(line.options, line.probabilities.tolist(), strict=True)
    alternatives = [(option.text, share) for option, share in shares if option != line.chosen]
    return {
        "power": power,
        "text": line.chosen.text,
        "probability": line.of_chosen,
        "others": alternatives[:MOST],
        "rest": (len(alternatives[MOST:]), sum(share for _, share in alternatives[MOST:])),
    }
