"""Matches in text, one decision at a time, for the hubs of environments: a prompt, an answer, a reward.

A match is seeded and shares nothing with other matches: equal seeds and answers give equal games. A game's record names
its matches (`Game.text_matches`): one game of Diplomacy or of OpenSpiel, the two tasks of chess, and the exploitability
of a model in a game of OpenSpiel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from threading import Event
from typing import Any, Protocol

from sparring.configs.core.errors import InputError, choose, moved
from sparring.envs.game import games, load

__getattr__ = moved(
    __name__,
    {
        "POWERS": "sparring.envs.diplomacy.board.map_file",
        "DiplomacyMatch": "sparring.envs.diplomacy.interfaces.text_match",
        "ChessMatch": "sparring.envs.chess.interfaces.text_match",
    },
)

MATCHES = {match.name: match for game in games() for match in game.text_matches}
GAMES = tuple(MATCHES)
ALL = "all"
"""In place of the name of a seat: the caller has all seats."""
LARGEST_SEED = 2**31 - 1
READ, ILLEGAL, INCOMPLETE, TRUNCATED = "read", "illegal", "incomplete", "truncated"
"""What became of an answer: all orders were in it; one is not legal; some are missing; and it was cut off as well, with
no closing tag. The orders that were read count in any case, and the first legal one of each unit that lacks one."""


@dataclass(frozen=True)
class MatchTurn:
    """What the caller sees: a prompt to answer, or the end, with the outcome of the answer before.

    Attributes:
        prompt: text to complete; empty at the end.
        seat: number of the seat asked, such as a power; -1 at the end.
        legal: legal lines of the answer, one list for each; empty for free text.
        reward: reward since the answer before: the mean of the caller's seats, 0 until some are paid.
        rewards: the same of each of the caller's seats, by its number.
        answer: what became of the answer before, one of `read`, `illegal`, `incomplete`, `truncated`; empty at first.
        problems: lines of that answer that are not legal, with the reasons.
        facts: plain data on the state: year, phase and centres, the task, or the number of moves.

    """

    prompt: str
    seat: int
    legal: tuple[tuple[str, ...], ...] = ()
    done: bool = False
    reward: float = 0.0
    rewards: Mapping[int, float] = field(default_factory=dict)
    answer: str = ""
    problems: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class TextMatch(Protocol):
    """One match."""

    seats: tuple[int, ...]
    """Numbers of the caller's seats, after `start`."""

    def start(self, seed: int) -> MatchTurn:
        """Start a new match. Raises `InputError` for a seed outside [0, 2147483647]."""

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Play a completion; `cut` says whether it was cut off, None if only the text shows. Raises `InputError`."""

    def abandon(self) -> Mapping[int, float]:
        """End the match without further answers; return what each of the caller's seats is still paid."""

    def cancel(self) -> None:
        """End a call that runs in another thread soon, with an `InputError`. The match can only be closed then."""

    def close(self) -> None:
        """Free what the match holds."""


class CancellableMatch:
    """What the matches share: a call can be ended by another thread."""

    seats: tuple[int, ...] = (0,)

    def __init__(self) -> None:
        self._cancelled = Event()

    def abandon(self) -> Mapping[int, float]:
        """End the match without further answers; return what each of the caller's seats is still paid: nothing."""
        return {}

    def cancel(self) -> None:
        """End a call that runs in another thread soon, with an `InputError`. The match can only be closed then."""
        self._cancelled.set()

    def _go_on(self) -> None:
        """Raise `InputError` if the match was cancelled; every loop of a call comes by here."""
        if self._cancelled.is_set():
            raise InputError("the match was cancelled: its client has gone")


@dataclass(frozen=True)
class SurveyAnswer:
    """An answer to one prompt of a survey; `cut` says whether it was cut off, None if only the text shows."""

    text: str
    cut: bool | None = None


class SurveyMatch(CancellableMatch, ABC):
    """Prompts that are independent of each other, and what their answers say together.

    As a match it asks one after the other. A hub may ask all `questions` at once, each in a conversation of its own,
    and `conclude` from the answers in their order.
    """

    questions: Sequence[tuple[int, str]]
    """Seat and prompt of each."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: list[SurveyAnswer] = []
        self._open = False

    @abstractmethod
    def start(self, seed: int) -> MatchTurn:
        """Start again; the seed is of random numbers in the conclusion."""

    @abstractmethod
    def close(self) -> None:
        """See `TextMatch.close`."""

    @abstractmethod
    def status(self, number: int, answer: SurveyAnswer) -> str:
        """Return what became of the answer to question `number`, one of `READ` and the others."""

    @abstractmethod
    def conclude(self, answers: Sequence[SurveyAnswer]) -> MatchTurn:
        """Return the end: its rewards, and as facts what the answers say together."""

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Take the answer to the question before; return the next, or the end."""
        if not self._open:
            raise InputError("the match is over, or has not started: start it with a seed")
        self._go_on()
        answer = SurveyAnswer(text, cut)
        status = self.status(len(self._answers), answer)
        self._answers.append(answer)
        self._open = len(self._answers) < len(self.questions)
        turn = self._question() if self._open else self.conclude(self._answers)
        return replace(turn, answer=status)

    def _first(self) -> MatchTurn:
        self._answers, self._open = [], True
        return self._question()

    def _question(self) -> MatchTurn:
        seat, prompt = self.questions[len(self._answers)]
        return MatchTurn(prompt, seat, facts={"question": len(self._answers) + 1, "questions": len(self.questions)})


def open_match(game: str, **options: Any) -> TextMatch:
    """Return a match of `game`, one of `GAMES`. Raises `InputError` for what is unknown or out of range."""
    kind: Callable[..., TextMatch] = load(MATCHES[choose("game", game, GAMES)].opens)
    known = [name for name, one in signature(kind).parameters.items() if one.kind is one.KEYWORD_ONLY]
    for name in options:
        choose(f"option of {game}", name, known)
    return kind(**options)


def check_seed(seed: int) -> int:
    """Return the seed. Raises `InputError` unless it is a whole number in [0, 2147483647]."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed={seed!r}: must be a whole number in [0, {LARGEST_SEED}]")
    return seed
