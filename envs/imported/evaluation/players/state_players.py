"""External players in OpenSpiel games: functions from states to action probabilities.

    openspiel:uniform   openspiel:cfr:ITERATIONS   openspiel:cfr+:ITERATIONS   openspiel:mcts:SIMULATIONS
    openspiel:ismcts:SIMULATIONS   rlcard:MODEL   module:Name   http://HOST:PORT/PATH   model.zip   model.onnx   RUN
    tiny   smollm2

`READERS` has a reader for each kind. A reader receives the text and the game, and returns the function. Its answers are
checked at every decision, and `CheckedPlayer.replay` queries it twice, since an attack needs a fixed policy.
OpenSpiel's searches are stochastic. Here each information state has its own seed, which makes them fixed policies.
"""

from __future__ import annotations

import inspect
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from sparring.agents.opponents.players import NAMED_MODELS, find_player, trains_language_model
from sparring.configs.core.errors import InputError, UnknownNameError, choose
from sparring.configs.core.files import read_json
from sparring.configs.opponents import is_code, named_source
from sparring.envs.game import Game, games, load
from sparring.envs.imported.evaluation.players.http_player import HttpPlayer
from sparring.envs.imported.evaluation.players.network_states import TablePolicy, read_model, read_policy
from sparring.envs.imported.evaluation.players.rlcard_player import read_rule
from sparring.envs.imported.evaluation.players.sb3_player import read_sb3
from sparring.envs.imported.match import raised_where
from sparring.envs.imported.states import first_state, text_of, whole
from sparring.envs.imported.tree import GameTree
from sparring.eval.paired.response_game import FORMAT, Choices

REPLAYED, WALKS = 100, 1000
"""Number of decisions to query twice, and the maximum number of random games played to collect them."""
SUM_TOLERANCE, CHANGE = 1e-3, 1e-6
"""Largest distance of a sum of probabilities from 1, and of two answers at one information state."""
SLOW = 0.01
"""Seconds per decision above which a report notes that the player is slow."""
CONSTANT = 2.0
"""UCT constant of OpenSpiel's searches, as in its own examples."""
MEMORY_MB = 100
IN_TEXT = "openspiel_text"
"""Name of the game whose record opens language models."""
Answer = TypeVar("Answer")
MOST = 1_000_000
"""Iterations or simulations."""


class Asked:
    """An external player: its errors in one line, and its time."""

    def __init__(self, name: str) -> None:
        self.name, self.decisions, self.seconds = name, 0, 0.0

    def timed(self, decisions: int, answer: Callable[[], Answer]) -> Answer:
        """Return the player's answers to `decisions` decisions. Raises `InputError` for an error."""
        start = time.perf_counter()
        try:
            answers = answer()
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # any exception of an external player becomes one line
            raise InputError(f"{self.name}: raised {raised_where(error)}; fix the player") from error
        self.seconds += time.perf_counter() - start
        self.decisions += decisions
        return answers

    @property
    def remark(self) -> str:
        """A note if the player is slow, else empty."""
        each = self.seconds / max(self.decisions, 1)
        return "" if each < SLOW else (
            f"{self.name} is slow: {each:.3f} seconds a decision, {self.seconds:.0f} seconds for {self.decisions:,}."
        )  # fmt: skip


class CheckedPlayer(Asked):
    """A state player with checked and timed answers."""

    def __init__(self, name: str, policy: TablePolicy) -> None:
        super().__init__(name)
        self._policy = policy
        self._replayed: list[tuple[str, Any, Choices]] = []

    def __call__(self, states: Sequence[Any]) -> list[Choices]:
        """Return the action probabilities in each state. Raises `InputError` for an error or a wrong answer."""
        answers = self.timed(len(states), lambda: list(self._policy(states)))
        if len(answers) != len(states):
            raise InputError(
                f"{self.name}: returned {len(answers)} answers for {len(states)} decisions; fix the player"
            )
        return [self._checked(state, answer) for state, answer in zip(states, answers, strict=True)]

    def likeliest(self, states: Sequence[Any]) -> list[Choices]:
        """Return the most likely action in each state, the first if several are equal."""
        return [[(max(sorted(choices), key=lambda choice: choice[1])[0], 1.0)] for choices in self(states)]

    def _checked(self, state: Any, answer: Mapping[int, float]) -> Choices:
        where, legal = f"{self.name}: {text_of(state)!r}", set(state.legal_actions())
        try:
            choices = [(action_number(action), probability_of(probability)) for action, probability in answer.items()]
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{where}: expected probabilities by action, got {answer!r}; fix the player") from error
        if wrong := next((p for _, p in choices if not 0.0 <= p <= 1.0 + SUM_TOLERANCE), None):
            raise InputError(f"{where}: the probability {wrong} is not in [0, 1]; fix the player")
        if illegal := next(((action, p) for action, p in choices if p > 0.0 and action not in legal), None):
            raise InputError(f"{where}: action {illegal[0]} is not legal ({sorted(legal)}); fix the player")
        total = math.fsum(p for _, p in choices)
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            raise InputError(f"{where}: the probabilities sum to {total:.6g}, not to 1; fix the player")
        return [(action, p / total) for action, p in choices if p > 0.0]

    def replay(self, game: Any) -> None:
        """Query up to `REPLAYED` decisions twice, with a different history of the information state if one was met.

        Raises `InputError` if answers differ: the player changes, or it uses more than its information state.
        """
        met = met_states(game, REPLAYED)
        first = self([states[0] for states in met.values()])
        self._replayed = [(text, states[-1], one) for (text, states), one in zip(met.items(), first, strict=True)]
        self.confirm("when asked again")

    def confirm(self, when: str = "during the attack") -> None:
        """Repeat the queries of `replay`. Raises `InputError` if an answer has changed."""
        again = self([state for _, state, _ in self._replayed])
        changed = [text for (text, _, a), b in zip(self._replayed, again, strict=True) if distance(a, b) > CHANGE]
        if changed:
            raise InputError(
                f"{self.name}: {len(changed)} of {len(again)} answers changed {when}, first at {changed[0]!r}; "
                "fix its seed, or return action_probabilities that depend on the information state alone"
            )


def action_number(action: Any) -> int:
    """Return an action of a player. Raises `TypeError` unless it is an integer; True and "1" are not."""
    if isinstance(action, bool):
        raise TypeError
    return operator.index(action)


def probability_of(value: Any) -> float:
    """Return a probability of a player. Raises `TypeError` for text."""
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def table_of(tree: GameTree, policy: Callable[[Sequence[Any]], Sequence[Choices]]) -> np.ndarray:
    """Return the probabilities of a player at every information state of a game, float64 [I, K]."""
    table = np.zeros(tree.legal.shape)
    for number, choices in enumerate(policy(tree.states)):
        for action, probability in choices:
            table[number, action] = probability
    return table


def distance(first: Choices, second: Choices) -> float:
    """Return the largest difference between two distributions."""
    one, other = dict(first), dict(second)
    return max(abs(one.get(action, 0.0) - other.get(action, 0.0)) for action in {*one, *other})


def met_states(game: Any, most: int) -> dict[str, list[Any]]:
    """Return the first and the last state seen at each of up to `most` information states in random games."""
    random, met = Random(0), dict[str, list[Any]]()
    for _ in range(WALKS):
        state = first_state(game)
        while not state.is_terminal() and len(met) < most:
            if state.is_chance_node():
                outcomes, weights = zip(*state.chance_outcomes(), strict=True)
                state = state.child(random.choices(outcomes, weights)[0])
                continue
            text = f"{state.current_player()} {text_of(state)}"
            met[text] = [met.get(text, [state])[0], state]
            state = state.child(random.choice(state.legal_actions()))
        if len(met) >= most:
            break
    return met


def open_player(text: str, game: Any) -> CheckedPlayer:
    """Return the player that `text` names, in a `pyspiel.Game`. Raises `InputError` for an unknown one."""
    kind = text.partition(":")[0]
    if kind in READERS or is_code(text):
        return CheckedPlayer(text, READERS.get(kind, read_object)(text, game))
    if in_text := text_game_of(text):
        return CheckedPlayer(text, load(in_text.open_player)(text))
    if reader := FILES.get(Path(text).suffix):
        return CheckedPlayer(text, reader(text, game))
    try:
        return CheckedPlayer(text, read_policy(text, game))
    except UnknownNameError as error:
        kinds = f"{', '.join(NAMED)}, an address, a saved response, an SB3 zip, an ONNX file, module:Name or a run"
        raise InputError(f"{text}: expected {kinds}; name one of them") from error


def text_game_of(text: str) -> Game | None:
    """Return the text game that a language model plays here; None for other players and unlisted games."""
    game = next((game for game in games() if game.name == IN_TEXT), None)
    try:
        player = find_player(text, game) if game else ""
    except InputError:
        return None
    if isinstance(player, Path):
        return game if player.is_dir() or trains_language_model(player.parent / "config.yaml") else None
    return game if player in NAMED_MODELS else None


def read_named(text: str, game: Any) -> TablePolicy:
    """Return one of OpenSpiel's own players."""
    _, _, rest = text.partition(":")
    name, _, number = rest.partition(":")
    reader = PLAYERS[choose("player of OpenSpiel", name, PLAYERS)]
    if reader is uniform:
        if number:
            raise InputError(f"{text}: takes no number; write openspiel:uniform")
        return uniform
    if not (number.isdecimal() and number.isascii() and 1 <= int(number) <= MOST):
        raise InputError(f"{text}: expected openspiel:{name}:N with N in [1, {MOST}], such as openspiel:{name}:100")
    policy: TablePolicy = reader(text, game, int(number))
    return policy


def uniform(states: Sequence[Any]) -> list[dict[int, float]]:
    """Sample uniformly among the legal actions."""
    return [dict.fromkeys(legal, 1.0 / len(legal)) for legal in (state.legal_actions() for state in states)]


def read_cfr(text: str, game: Any, iterations: int) -> TablePolicy:
    """Return the average policy of counterfactual regret minimization, OpenSpiel's tabular solver, or of CFR+."""
    import pyspiel

    refuse_unless(text, game, dynamics="SEQUENTIAL", utility=("ZERO_SUM", "CONSTANT_SUM", "GENERAL_SUM"))
    if not game.get_type().provides_information_state_string:
        raise InputError(f"{text}: CFR needs the text of information states, which the game does not provide")
    solver = pyspiel.CFRPlusSolver(game) if text.startswith("openspiel:cfr+") else pyspiel.CFRSolver(game)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    average = solver.tabular_average_policy()
    return lambda states: [dict(average.action_probabilities(text_of(state))) for state in states]


def read_mcts(text: str, game: Any, simulations: int) -> TablePolicy:
    """Return OpenSpiel's tree search with random playouts, which sees the whole state."""
    import pyspiel

    refuse_unless(text, game, dynamics="SEQUENTIAL", information="PERFECT_INFORMATION")

    def action(state: Any) -> int:
        seed = seed_of(state)
        evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
        bot = pyspiel.MCTSBot(game, evaluator, CONSTANT, simulations, MEMORY_MB, True, seed, False)
        return int(bot.step(whole(state)[0]))

    return lambda states: [{action(state): 1.0} for state in states]


def read_ismcts(text: str, game: Any, simulations: int) -> TablePolicy:
    """Return OpenSpiel's search in information sets, which acts in proportion to its visits."""
    import pyspiel

    refuse_unless(text, game, dynamics="SEQUENTIAL", information="IMPERFECT_INFORMATION")

    searched: dict[str, dict[int, float]] = {}  # the draws of hidden cards depend on the history, too

    def probabilities(state: Any) -> dict[int, float]:
        text, seed = text_of(state), seed_of(state)
        if text not in searched:
            bot = pyspiel.ISMCTSBot(seed, pyspiel.RandomRolloutEvaluator(1, seed), CONSTANT, simulations)
            searched[text] = dict(bot.get_policy(state))
        return searched[text]

    return lambda states: [probabilities(state) for state in states]


def seed_of(state: Any) -> int:
    """Return the seed of the information state, from 0 to 2^31 - 1."""
    return crc32(text_of(state).encode()) & 0x7FFFFFFF


def refuse_unless(text: str, game: Any, **needed: str | tuple[str, ...]) -> None:
    """Raise `InputError` for a game whose type has other values than those needed."""
    for key, values in needed.items():
        value = getattr(game.get_type(), key).name
        if value not in ([values] if isinstance(values, str) else values):
            names = values if isinstance(values, str) else " or ".join(values)
            raise InputError(f"{text}: needs a game with {key} {names}, but this game has {value}; name another player")


def read_saved(text: str, game: Any) -> TablePolicy:
    """Return a response saved by `sparring exploit --save`; it acts uniformly in states it did not reach."""
    try:
        content = read_json(Path(text))
        version, name = (content["format"], content["version"]), content["game"]
        seats = [{str(key): int(action) for key, action in seat.items()} for seat in content["seats"]]
    except FileNotFoundError as error:
        raise InputError(f"{text}: no such file; save a response with --save {text}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{text}: is not a response of sparring exploit ({type(error).__name__})") from error
    if version != (FORMAT, 1) or len(seats) != game.num_players():
        raise InputError(f"{text}: expected {FORMAT}, version 1, with {game.num_players()} seats, got {version}")
    if name != str(game):
        raise InputError(f"{text}: is a response in {name}, but the game is {game}; set --id {name}")

    def policy(states: Sequence[Any]) -> list[dict[int, float]]:
        actions = [seats[state.current_player()].get(text_of(state)) for state in states]
        return [
            other if action is None else {action: 1.0} for action, other in zip(actions, uniform(states), strict=True)
        ]

    return policy


def read_object(text: str, game: Any) -> TablePolicy:
    """Return an object of the user's module with `action_probabilities(state, player)` or `step(state)`.

    A class or function that creates the player is called, with the game if it accepts an argument. If it accepts two,
    it creates a player per seat from the game and the seat, like OpenSpiel bots.
    """
    source = named_source(text, "player")
    if inspect.isclass(source) or not (hasattr(source, "action_probabilities") or hasattr(source, "step")):
        if needed(text, source) == 2:
            seats = [acting(text, made(text, source, game, seat), game) for seat in range(game.num_players())]
            return lambda states: [seats[state.current_player()]([state])[0] for state in states]
        source = made(text, source, *[game][: needed(text, source)])
    if isinstance(source, spiel_bots()):  # it crashes, or passes, in another seat
        raise InputError(f"{text}: a bot of OpenSpiel plays one seat; name a function (game, seat) that makes it")
    return acting(text, source, game)


def acting(text: str, source: Any, game: Any) -> TablePolicy:
    """Return a player's answer; for an OpenSpiel bot its probabilities, if it provides them."""
    if hasattr(source, "action_probabilities"):
        compiled = type(source).__module__ == "pyspiel"  # whose policies take the state alone
        return lambda states: [source.action_probabilities(*copied(state)[: 2 - compiled]) for state in states]
    if not hasattr(source, "step"):
        raise InputError(f"{text}: has neither action_probabilities(state, player) nor step(state); add one of them")
    refuse_unless(f"{text} with step(state)", game, dynamics="SEQUENTIAL")
    if isinstance(source, spiel_bots()):
        if source.provides_policy():
            return lambda states: [dict(source.step_with_policy(copied(state)[0])[0]) for state in states]
        return lambda states: [{stepped(source, copied(state)[0]): 1.0} for state in states]
    return lambda states: [{source.step(copied(state)[0]): 1.0} for state in states]


def stepped(bot: Any, state: Any) -> int:
    """Return the action of a bot after setting its position."""
    with suppress(Exception):  # a bot without restart_at has no memory, or is refused when it changes
        bot.restart_at(state)
    return int(bot.step(state))


def spiel_bots() -> Any:
    """Return the class of OpenSpiel's bots."""
    import pyspiel

    return pyspiel.Bot


def needed(text: str, source: Any) -> int:
    """Return the number of arguments, 0 to 2, that creates a player. Raises `InputError` if it is not callable."""
    if not callable(source):
        raise InputError(f"{text}: expected an object with action_probabilities or step, got {type(source).__name__}")
    try:
        parameters = inspect.signature(source).parameters.values()
    except (TypeError, ValueError):  # of classes in C++
        return 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(sum(p.default is p.empty and p.kind in kinds for p in parameters), 2)


def copied(state: Any) -> tuple[Any, int]:
    """Return a copy of a state that a player may modify, and who decides in it."""
    played, seat = whole(state)
    return played.clone(), seat


def made(text: str, source: Any, *arguments: Any) -> Any:
    """Create a player. Raises `InputError` for any exception."""
    try:
        return source(*arguments)
    except (Exception, SystemExit) as error:  # any exception of an external class becomes one line
        raise InputError(f"{text}: raised {raised_where(error)} when made; fix the player") from error


PLAYERS: dict[str, Any] = {
    "uniform": uniform,
    "cfr": read_cfr,
    "cfr+": read_cfr,
    "mcts": read_mcts,
    "ismcts": read_ismcts,
}
NAMED = tuple(f"openspiel:{name}{'' if reader is uniform else ':N'}" for name, reader in PLAYERS.items())
READERS: dict[str, Callable[[str, Any], TablePolicy]] = {
    "openspiel": read_named,
    "http": HttpPlayer,
    "https": HttpPlayer,
    "rlcard": read_rule,
}
FILES: dict[str, Callable[[str, Any], TablePolicy]] = {
    ".json": read_saved,
    ".zip": read_sb3,
    ".onnx": read_model,
    ".pt": read_policy,
}
"""Readers by the suffix of a file."""
