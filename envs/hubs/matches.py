"""Text matches for environment hubs, one decision at a time: a prompt, an answer, a reward.

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
"""Used instead of a seat's name if the caller plays all seats."""
LARGEST_SEED = 2**31 - 1
READ, ILLEGAL, INCOMPLETE, TRUNCATED = "read", "illegal", "incomplete", "truncated"
"""Status of an answer: complete, with an illegal order, with missing orders, or truncated without a closing tag. Orders
that were read always count; other units get their first legal order."""


@dataclass(frozen=True)
class MatchTurn:
    """The caller's view: a prompt to answer, or the end, with the outcome of the previous answer.

    Attributes:
        prompt: text to complete; empty at the end.
        seat: number of the seat to answer, such as a power; -1 at the end.
        legal: legal lines of the answer, one list for each; empty for free text.
        reward: reward since the previous answer: the mean over the caller's seats, 0 until one receives a reward.
        rewards: the same of each of the caller's seats, by its number.
        answer: status of the previous answer, one of `read`, `illegal`, `incomplete`, `truncated`; empty at first.
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
        """End the match without further answers; return the outstanding reward of each of the caller's seats."""

    def cancel(self) -> None:
        """End a call that runs in another thread soon, with an `InputError`. The match can only be closed then."""

    def close(self) -> None:
        """Release the match's resources."""


class CancellableMatch:
    """Shared base of the matches: another thread can cancel a call."""

    seats: tuple[int, ...] = (0,)

    def __init__(self) -> None:
        self._cancelled = Event()

    def abandon(self) -> Mapping[int, float]:
        """End the match without further answers; return no rewards."""
        return {}

    def cancel(self) -> None:
        """End a call that runs in another thread soon, with an `InputError`. The match can only be closed then."""
        self._cancelled.set()

    def _go_on(self) -> None:
        """Raise `InputError` if the match was cancelled; called in every loop."""
        if self._cancelled.is_set():
            raise InputError("the match was cancelled: its client has gone")


@dataclass(frozen=True)
class SurveyAnswer:
    """An answer to one prompt of a survey; `cut` says whether it was cut off, None if only the text shows."""

    text: str
    cut: bool | None = None


class SurveyMatch(CancellableMatch, ABC):
    """Independent prompts with a joint result of their answers.

    As a match it asks one after the other. A hub may ask all `questions` at once, each in its own conversation, and
    `conclude` from the ordered answers.
    """

    questions: Sequence[tuple[int, str]]
    """Seat and prompt of each."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: list[SurveyAnswer] = []
        self._open = False

    @abstractmethod
    def start(self, seed: int) -> MatchTurn:
        """Restart; `seed` is for random numbers in the conclusion."""

    @abstractmethod
    def close(self) -> None:
        """See `TextMatch.close`."""

    @abstractmethod
    def status(self, number: int, answer: SurveyAnswer) -> str:
        """Return the status of the answer to question `number`, `READ` or another."""

    @abstractmethod
    def conclude(self, answers: Sequence[SurveyAnswer]) -> MatchTurn:
        """Return the end, with rewards and the joint result as facts."""

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
