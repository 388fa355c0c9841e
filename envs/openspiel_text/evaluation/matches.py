"""Matches of a language model against references in OpenSpiel games of any size.

The model takes every seat equally often, and a reference has all other seats: uniform play, OpenSpiel's searches and
solver, other models, policies of the game, or Python objects (`envs.imported.evaluation.players`). The matches,
tables and intervals are those of the other games of OpenSpiel. From a menu a local model draws by its probabilities. A
free text, and every answer of a server, is sampled, and a random legal action replaces one that is not legal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.agents.language.endpoint.price import spent
from sparring.agents.opponents.players import Player, is_server
from sparring.configs.core.status import say
from sparring.envs.imported.states import first_state
from sparring.envs.openspiel_text.answers import read_decision
from sparring.envs.openspiel_text.config import REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.decisions import action_menu, past_chance, random_option
from sparring.envs.openspiel_text.evaluation.models import ModelPolicy, open_model
from sparring.envs.openspiel_text.evaluation.options import (
    GAMES,
    UNIFORM,
    ExactConditions,
    OpenSpielTextOptions,
    conditions,
    cost,
    find_model,
    follow,
    open_stated_game,
    priced,
)
from sparring.envs.openspiel_text.prompts import prompt_of
from sparring.envs.openspiel_text.task import FALLBACKS
from sparring.envs.text import Prompt, mix
from sparring.envs.text_moves import CLOSING, KINDS, LEGAL
from sparring.eval.command import Evaluation
from sparring.eval.paired.evaluation import PairedGame, PairedPlayers, Plan, Played, evaluate
from sparring.eval.stats.tables import PairConditions

if TYPE_CHECKING:
    from sparring.envs.imported.evaluation.matches import SeatMatches

PLAYOUTS = 20
"""Random games from which the number of decisions is estimated, for the price."""


class SampledPolicy:
    """A model's answers as a policy of states; they are drawn again each time, in free text or from a menu.

    `kinds` counts them. `seed` is the games' seed, and `asked` is the number of answers since their start.
    """

    def __init__(self, backend: Any, answer: OpenSpielAnswerConfig) -> None:
        self._backend, self._answer = backend, answer
        self.kinds = Counter[str]()
        self.seed, self.asked = 0, 0

    def __call__(self, states: Sequence[Any]) -> list[dict[int, float]]:
        """Return probability 1 for the action of the answer in each state, or for its random replacement."""
        prompts = [
            prompt_of(state, self._answer, seed=mix(self.seed, self.asked + number))
            for number, state in enumerate(states)
        ]
        self.asked += len(prompts)
        chosen = []
        for prompt, answer in zip(prompts, self._backend.decide(prompts), strict=True):
            read = read_decision(prompt, answer)
            self.kinds[read.kind] += 1
            option = read.option or random_option(prompt.position, mix(prompt.seed, FALLBACKS))
            chosen.append({option.value: 1.0})
        return chosen


def evaluate_matches(options: OpenSpielTextOptions) -> Evaluation:
    """Play the model against the opponents, and return the report. Raises `InputError` for bad input."""
    if options.price:
        stated = stated_conditions(options)
        return priced(match_price(options, stated, open_stated_game(stated), len(options.opponents)))
    return evaluate(TEXT, options)


def find(name: str, opponent: bool) -> Player:
    """Locate the model of --ckpt; opponents are located once the game is known."""
    return name if opponent else find_model(name)


def stated_conditions(options: OpenSpielTextOptions) -> ExactConditions:
    """Return the game and the form of the answers."""
    return conditions(options, find_model(options.ckpt) if options.ckpt else "")


def open_players(
    options: OpenSpielTextOptions, located: Player | None, opponents: Sequence[str], device: str, like: Any = None
) -> PairedPlayers:
    """Open the model and its opponents in the game. Raises `InputError` for players that cannot play it."""
    from sparring.envs.imported.evaluation.players.state_players import CheckedPlayer, open_player
    from sparring.envs.imported.evaluation.players.state_seats import StateSeats

    class TextSeats(StateSeats):
        """The model in any seats."""

        path = located if isinstance(located, Path) else None
        training: dict[str, Any] = {}  # noqa: RUF012 - never written
        kinds: Any = None
        server: Any = None

        def reseed(self, seed: int) -> None:
            super().reseed(seed)
            if isinstance(policy, SampledPolicy):
                policy.seed, policy.asked = seed, 0

    stated = stated_conditions(options)
    game = open_stated_game(stated)
    rivals = [StateSeats(open_player(text, game), text) for text in opponents]
    resources = ExitStack()
    if located is None:
        return PairedPlayers(None, rivals)
    served = isinstance(located, str) and is_server(located)
    if served:
        say(match_price(options, stated, game, len(rivals)), enabled=not options.quiet)
    model = open_model(located, device=device, temperature=stated.temperature, settings=options.settings)
    resources.callback(model.backend.close)
    follow(options, model, located, stated)
    sampled = served or stated.answer.form == REASONING  # a server may choose from a menu without exact probabilities
    policy = SampledPolicy(model.backend, stated.answer) if sampled else ModelPolicy(model.backend, stated.answer)
    player = TextSeats(CheckedPlayer(model.name, policy), model.name)
    player.kinds = getattr(policy, "kinds", None)
    player.server = model.backend if model.endpoint else None
    if player.server and (options.rated or options.hypotheses):  # without `extras`

        @resources.push
        def discard(error: type[BaseException] | None, *_: Any) -> None:
            if error is None:
                player.server.discard_kept()

    return PairedPlayers(player, rivals, resources=resources)


def match_price(options: OpenSpielTextOptions, stated: ExactConditions, game: Any, opponents: int) -> str:
    """Return the requests, tokens and price of the matches on a server, estimated from random games."""
    prompts: list[Prompt] = []
    for number in range(PLAYOUTS):
        state, moves = past_chance(first_state(game), number), 0
        while not state.is_terminal():
            prompts.append(prompt_of(state, stated.answer))
            moves += 1
            state = past_chance(state.child(random_option(state, mix(number, moves)).value), mix(number, moves))
    batch = number_of_games(options, game.num_players())
    games = batch * max(options.max_games // batch, 1) if options.hypotheses else batch * opponents
    times = games / PLAYOUTS / game.num_players()  # the model has one of the seats
    names = max(action_menu(prompt.position).longest for prompt in prompts) + len(CLOSING)  # no fewer than tokens
    most = stated.answer.max_tokens if stated.answer.form == REASONING else names
    price = cost(options, prompts, times, OpenSpielAnswerConfig(REASONING, most))
    return f"{'at most ' if options.hypotheses else ''}{games} games, estimated from random ones: {price}"


def matches(options: OpenSpielTextOptions, players: Sequence[Any], device: str, threads: int) -> SeatMatches:
    """Return matches of the game. Raises `InputError` for more than two seats if pairs are compared."""
    from sparring.envs.imported.evaluation.command import seat_matches
    from sparring.envs.imported.evaluation.policy import ImportedGame

    stated = stated_conditions(options)
    return seat_matches(options, ImportedGame("openspiel", stated.game, stated.kwargs), device)


def number_of_games(options: OpenSpielTextOptions, seats: int) -> int:
    """Return the number of games against an opponent. Raises `InputError` unless every seat is played equally often."""
    from sparring.envs.imported.evaluation.command import number_of_games as checked

    return checked(options.games or -(-GAMES // seats) * seats, seats)


def games_of(options: OpenSpielTextOptions, played: SeatMatches) -> int:
    """Return the number of games of a cell."""
    return number_of_games(options, len(played.seats))


def pair_conditions(options: OpenSpielTextOptions, played: SeatMatches) -> PairConditions:
    """Return the game, how it is answered, and how often every seat is played."""
    from sparring.envs.imported.evaluation.results import COLUMNS, options_text, reward_and_moves

    stated, game, seats = stated_conditions(options), played.game, len(played.seats)
    each = f"games each, {games_of(options, played) // seats} from every seat"
    words = f"{game.name}{options_text(game.kwargs)} in text, answers {stated.answer.form}"
    fields = {"kwargs": dict(game.kwargs), "answer": stated.answer.form, "temperature": stated.temperature}
    return PairConditions(
        "imported", "imported_payoff", game.name, words, fields, COLUMNS, reward_and_moves, counted=each
    )


def repeated(records: Sequence[Any]) -> list[str]:
    """Return a note on opponents whose games were all identical."""
    from sparring.envs.imported.evaluation.results import repetition_notes

    return repetition_notes(records)


def extras(options: OpenSpielTextOptions, opened: PairedPlayers, plan: Plan, played: Played) -> None:
    """Add the results by seat, the answers by kind, and what a server counted, whose kept answers are done with."""
    from sparring.envs.imported.evaluation.results import more_tables

    played.tables = more_tables(plan.matches.seats, played.records, ())  # type: ignore[attr-defined]
    if kinds := opened.player.kinds:
        counts = {kind: kinds[kind] for kind in (LEGAL, *KINDS)}
        texts = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        played.tables.append(f"Answers: {texts}. A random legal action replaces each that is not legal.")
        played.about["answers"] = counts
    if server := opened.player.server:
        server.discard_kept()
        played.about["endpoint"] = server.metrics()
        played.tables.append(spent(played.about["endpoint"]))


TEXT = PairedGame(
    None,
    find,
    open_players,
    matches,
    conditions=pair_conditions,
    anchors=(UNIFORM,),
    games=games_of,
    notes=repeated,
    extras=extras,
    results="openspiel_text",
)
