"""Games of a language model in Diplomacy, played in rounds, and their stored results.

A language model is slow for one decision at a time and fast for many, so its games run in parallel, in rounds just
large enough to keep it busy. Each round has equally many games of every pair and power. A failing server or Ctrl-C
loses only the current round; the previous rounds are still a fair comparison. Games with the same number have the same
random draws in every pair, regardless of the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import torch
from annotated_types import Len
from pydantic import Field
from torch import Tensor
from tqdm import tqdm

from sparring.agents.distributed.tasks import KeptGames
from sparring.agents.language.backend import BotBackend
from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.endpoint.kept import key_of
from sparring.agents.language.endpoint.retry import fallbacks_of
from sparring.agents.language.opponents import POLICY
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import say
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.evaluation.matches import (
    DiplomacyMatches,
    PowerPairs,
    SwappedMatches,
    advance,
    compared,
    open_entrant,
)
from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.evaluation.results import PowerRecord, lone_shares, record
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.records.timeline import Odds, Phase, phases_of
from sparring.envs.diplomacy.rollouts.games import BOT, ModelOrders, play_to_end, seats_of_pairs
from sparring.envs.diplomacy.training.opponents import LanguagePlayer
from sparring.eval.paired.evaluation import Cell, PairedPlayers, Plan, Played, play_cells

if TYPE_CHECKING:
    from sparring.agents.language.backend import Decision
    from sparring.agents.language.decoding.scoring import LineOdds
    from sparring.envs.text import Prompt

MOST = 5
"""Number of alternatives of a decision listed with their odds; the rest are summed."""
Pairs = Sequence[tuple[str, str]]
"""Pairs: player of one power, player of six."""
GameEnd = tuple[Annotated[list[Annotated[int, Field(ge=-1, lt=NUM_POWERS)]], Len(NUM_CENTRES, NUM_CENTRES)], int]
"""Final state of a game: owners of the centres, and the year."""


def cells_of(opponents: Sequence[str], protocol: str = "both") -> list[tuple[str, str]]:
    """Pair the policy, alone, as six, or both, with every opponent; only alone in the benchmark."""
    alone, six = protocol != "six", protocol in ("both", "six")
    return [pair for name in opponents for pair in ((POLICY, name),) * alone + ((name, POLICY),) * six]


def rounds_of(games: int, cells: int, at_a_time: int) -> list[range]:
    """Split games 0 to `games` - 1 into rounds of the fewest sevens that make `at_a_time` over all `cells`."""
    size = NUM_POWERS * -(-at_a_time // (NUM_POWERS * cells))
    return [range(begin, min(begin + size, games)) for begin in range(0, games, size)]


class LanguageGames:
    """Games that have ended, by cell and number: the owners of the centres and the last year of each.

    They are read from and stored in the file of cells; the `watched` game is always played.
    """

    def __init__(self, cells: Sequence[Cell], watched: tuple[int, int] | None) -> None:
        self._ended: list[KeptGames[GameEnd]] = [cell.kept_games(GameEnd) for cell in cells]
        if watched:
            self._ended[watched[0]].forget(watched[1])

    def remaining(self, games: range) -> list[tuple[int, int]]:
        """Return the cell and the number of those of `games` of every cell that have not ended."""
        all_games = product(range(len(self._ended)), games)
        return [(cell, game) for cell, game in all_games if self._ended[cell].get(game) is None]

    def add(self, cell: int, game: int, owner: Tensor, year: Tensor) -> None:
        """Store a game that ended with `owner` [34] in `year`."""
        self._ended[cell].add(game, (owner.tolist(), int(year)))

    def ends(self, cell: int, games: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return owners [G, 34] and years [G] of `games` of a cell."""
        owners, years = zip(*(end for game in games if (end := self._ended[cell].get(game))), strict=True)
        return torch.tensor(owners, dtype=torch.int8), torch.tensor(years, dtype=torch.int16)


def play_language(options: DiplomacyOptions, opened: PairedPlayers, plan: Plan, played: Played) -> None:
    """Play all games of a language model into `played`; after a failure or Ctrl-C it has only complete rounds.

    Stored games are not repeated, and every finished game is stored, even in incomplete rounds. With --replay, the
    first game against the last opponent is filmed, with the policy alone if there is one.
    """
    player: LanguagePlayer = opened.player.plays
    entrants = {POLICY: opened.player} | {entrant.name: entrant for entrant in opened.opponents}
    protocol = options.protocol or "both"
    pairs = cells_of(options.opponents, protocol)
    server = follow_server(options, player, plan, pairs)
    play_cells(plan, reference_cells(options, opened, plan), played)
    of_reference = played.records
    if server:
        plan = replace(plan, cells_file=None)  # games are played again, from the answers
    cells = [Cell((entrants[one], entrants[six]), "", plan) for one, six in pairs]
    watched = (len(cells) - (2 if protocol == "both" else 1), 0) if options.replay else None
    language, done = LanguageRounds(options, player, pairs, cells, played, watched), list[int]()
    try:
        for games in language.play():
            done += games
        if server:
            server.discard_kept()
    except (InputError, KeyboardInterrupt):
        if server and without_decisions(server.metrics()):
            server.discard_kept()  # its answers are worthless, and answers with other options are allowed
        note = "the table is of these" if done else "nothing is written"
        rest = "games of one round run in parallel; unfinished ones will be repeated"
        played.cut_note = f"stopped after {len(done)} of {options.games} games per pair; {note}; {rest}"
        raise
    finally:
        for backend in player.models.values():
            backend.close()
        notes = {name: note for model in player.models.values() for name, note in getattr(model, "notes", {}).items()}
        temperature = None if "temperature" in notes else options.temperature or 0.0
        about = player.about | {"temperature": temperature} | served(player)
        if notes:
            about["endpoint_notes"] = list(notes.values())
        played.about["language_model"] = about
        played.records = [*language.records(done), *of_reference] if done else []


def reference_cells(options: DiplomacyOptions, opened: PairedPlayers, plan: Plan) -> list[Cell]:
    """Return the cells of --reference against six of each opponent, none without one."""
    device = plan.matches.device
    if not options.reference:
        return []
    loaded = [six if six.plays is not None else open_entrant(six.name, six.located, device) for six in opened.opponents]
    reference = open_entrant(options.reference, options.reference, device)
    return [Cell((reference, six), "", plan) for six in loaded]


def follow_server(
    options: DiplomacyOptions, player: LanguagePlayer, plan: Plan, pairs: Pairs, beside: Sequence[str] = ()
) -> EndpointBackend | None:
    """Print a server's expected cost and store its answers; return the server, None for models in this process.

    `beside` names the models of its table.
    """
    server = player.models.get(POLICY)
    if not isinstance(server, EndpointBackend):
        return None
    stated = {f"--{name.replace('_', '-')}": getattr(options, name) for name in ("opponents", "last_year", "seed")}
    stated |= {"--start": options.begin and options.begin.plain()}
    rules = {f"model.{name}": value for name, value in vars(player.rules).items()}
    text = rules.pop("model.instructions")
    rules |= {"--past-orders": rules.pop("model.past_orders"), "--prompt": key_of(text)[:12] if text else ""}
    options.follow(
        server, plan.cells_file, stated | {"--protocol": options.protocol or "both", "--table": beside} | rules
    )
    if not options.quiet:
        sampled = pairs[: len(pairs) // len(options.opponents)]  # those of the first opponent
        times = options.games / NUM_POWERS * len(options.opponents)
        forecast = server.forecast(sample_prompts(player, sampled, plan), times)
        say(f"{options.games} games of each pair: {forecast}, if the model plays as {BOT}")
    return server


def sample_prompts(player: LanguagePlayer, pairs: Pairs, plan: Plan) -> list[Prompt]:
    """Return the prompts of seven games of each pair, one with every power, in which a bot is in the model's place."""
    prompts: list[Prompt] = []
    stand_in = ModelOrders(POLICY, BotBackend(BOT, game=GAME.name), player.rules, seed=plan.seed, ask=prompts.extend)
    matches: Any = plan.matches
    with closing(matches.batch(len(pairs) * NUM_POWERS, None)) as batch:
        batch.game_id.copy_(torch.arange(NUM_POWERS).repeat(len(pairs)))
        seats = seats_of_pairs(pairs, NUM_POWERS)
        lineup = [(stand_in if name == POLICY else name, powers) for name, powers in seats.items()]
        play_to_end(batch, lineup, seed=plan.seed)
    return prompts


@dataclass
class LanguageRounds:
    """Rounds of games of a language model; the game to watch is in the first."""

    options: DiplomacyOptions
    player: LanguagePlayer
    pairs: Pairs
    cells: Sequence[Cell]
    played: Played
    watched: tuple[int, int] | None

    def __post_init__(self) -> None:
        self._ended = LanguageGames(self.cells, self.watched)
        self._plan = self.cells[0].plan
        self._matches: Any = self._plan.matches

    def play(self) -> Iterator[range]:
        """Play the remaining games of all rounds; yield the game numbers of each round."""
        number, total, matches = len(self.cells), self._plan.games, self._matches
        with tqdm(total=number * matches.size(total), unit=matches.unit, disable=self._plan.quiet) as bar:
            for games in rounds_of(total, number, self.player.at_a_time):
                remaining = self._ended.remaining(games)
                bar.update(matches.size(number * len(games) - len(remaining)))
                if remaining:
                    watched = remaining.index(self.watched) if self.watched in remaining else None
                    with closing(matches.batch(len(remaining), watched)) as batch:
                        batch.game_id.copy_(torch.tensor([game for _, game in remaining]))
                        self._play_round(remaining, batch, bar, watched)
                yield games

    def records(self, games: Sequence[int]) -> list[PowerRecord]:
        """Return the record of `games` of each cell."""
        records = []
        for index, cell in enumerate(self.cells):
            one, six = cell.pair
            records.append(record(one.name, six.name, *self._ended.ends(index, games), by_power=True))
        return records

    def lone_shares(self, games: Sequence[int]) -> list[Tensor]:
        """Return the shares of squares [G] of the lone power in `games` of each cell."""
        return [lone_shares(self._ended.ends(index, games)[0]) for index in range(len(self.cells))]

    def _play_round(
        self, remaining: Sequence[tuple[int, int]], batch: DiplomacyBatch, bar: Any, watched: int | None
    ) -> None:
        """Play the games `remaining` of one batch to the end, store each, and record the watched one."""
        player, models = self.player, knowing_odds(self.player)
        keeper = OddsKeeper(watched or 0, models) if isinstance(batch, WatchedBatch) else None
        before, waiting = bar.n, set(range(len(remaining)))

        def after_phase() -> None:
            advance(bar, batch, before)
            if keeper:
                keeper.after_phase()
            over = batch.done.tolist()
            for row in [row for row in waiting if over[row]]:
                refuse_fallbacks(served(player).get("endpoint", {}))
                self._ended.add(*remaining[row], batch.owner[row], batch.year[row])
                waiting.remove(row)

        powers = seats_of_pairs(self.pairs, NUM_POWERS)
        rows = torch.tensor([cell * NUM_POWERS + game % NUM_POWERS for cell, game in remaining])
        how: dict[str, Any] = {"seed": self._plan.seed, "watch": keeper.watch if keeper else None}
        acting = {name: ModelOrders(name, model, player.rules, **how) for name, model in player.models.items()}
        lineup = [(acting.get(name, name), seats[rows]) for name, seats in powers.items()]
        play_to_end(batch, lineup, seed=self._plan.seed, after_phase=after_phase)
        if keeper and isinstance(batch, WatchedBatch) and watched is not None:
            one, six = self.cells[remaining[watched][0]].pair
            self.played.films = keeper.added(phases_of(batch.past()))
            self.played.about["players"] = [one.name, *[six.name] * (NUM_POWERS - 1)]
            self.played.about["note"] = note(self.options.temperature or 0.0) if models else ""


class LanguagePairs(SwappedMatches):
    """Pairs of games of a language model, which are played in rounds."""

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[PowerPairs, list[Any]]:  # type: ignore[override]
        """Play the games of a cell, half of them with the model alone, from the draws of equal numbers."""
        player, opponent = cell.pair
        plan = replace(cell.plan, games=cell.plan.games // 2, cells_file=None, quiet=True)
        cells = [Cell(pair, "", plan) for pair in (cell.pair, cell.pair[::-1])]
        rounds = LanguageRounds(self.options, player.plays, cells_of([opponent.name]), cells, Played(), None)
        games = [game for numbers in rounds.play() for game in numbers]
        return compared(player.name, opponent.name, *rounds.lone_shares(games)), []

    def stated(self) -> dict[str, Any]:
        """Also return how the model answers."""
        return DiplomacyMatches.stated(self)


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
    """Raise `InputError` if all of a server's decisions are fallbacks: such games say nothing about its model."""
    if without_decisions(metrics):
        raise InputError(f"endpoint: {fallbacks_of(metrics)}; the games are not the model's")


def without_decisions(metrics: Mapping[str, float]) -> bool:
    """Return whether a server was queried and every decision was a fallback."""
    return bool(metrics) and 0 < metrics["endpoint/decisions"] == metrics["endpoint/fallbacks"]


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
