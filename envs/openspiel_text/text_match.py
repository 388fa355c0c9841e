"""An OpenSpiel text game as a match for environment hubs, and a model's exploitability in it.

In a match the caller plays one seat or all, and bots play the others. A survey queries a model several times at every
information state. The shares of its answers form a policy with an exact exploitability. Answers are free text or from a
menu, parsed as in training; a uniformly random legal action replaces an illegal one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparring.configs.core.errors import ConfigError, InputError, choose
from sparring.envs.hubs.matches import (
    ALL,
    ILLEGAL,
    INCOMPLETE,
    READ,
    TRUNCATED,
    CancellableMatch,
    MatchTurn,
    SurveyAnswer,
    SurveyMatch,
    check_seed,
)
from sparring.envs.imported.config import FILE_TEXT
from sparring.envs.imported.states import first_state
from sparring.envs.openspiel_text import GAME
from sparring.envs.openspiel_text.config import MENU, REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.decisions import action_menu, open_text_game, past_chance, random_option
from sparring.envs.openspiel_text.exact import TextDecisions, figures, worst_decisions
from sparring.envs.openspiel_text.prompts import prompt_of
from sparring.envs.openspiel_text.task import CHANCE, FALLBACKS, bot_answers
from sparring.envs.text import Option, Prompt, mix
from sparring.envs.text_moves import CLOSING, CUT, KINDS, LEGAL, STOP, read_free_text

DEFAULT_GAME = "kuhn_poker"
STATUSES = dict(zip((LEGAL, *KINDS), (READ, ILLEGAL, TRUNCATED, INCOMPLETE), strict=True))
"""Names of the kinds of answers in hubs."""
SAMPLES, MOST_SAMPLES, MOST_QUESTIONS = 8, 10_000, 1_000_000
"""Answers at each information state, and in all."""
SEAT = re.compile(r"\d{1,4}")


class OpenSpielMatch(CancellableMatch):
    """One game of OpenSpiel: the caller has a seat, or all; `opponents` have the others.

    Args:
        id: short name of the game, with its options, such as goofspiel(num_cards=3).
        seat: number of the caller's seat, or "all"; empty takes seed % seats, so sequential seeds rotate the seats.
        opponents: bot of the other seats.
        answers: "reasoning", free text whose last line is the action, or "menu", the action alone.

    """

    def __init__(
        self, *, id: str = DEFAULT_GAME, seat: str | int = "", opponents: str = "random", answers: str = REASONING
    ) -> None:
        super().__init__()
        self._game = open_hub_game(id)
        count = int(self._game.num_players())
        self._seat = _checked_seat(seat, count)
        self._bot = choose("opponents", opponents, GAME.bots)
        self._answer = OpenSpielAnswerConfig(choose("answers", answers, (MENU, REASONING)))
        self._prompt: Prompt | None = None

    def start(self, seed: int) -> MatchTurn:
        """Begin a game after the seed's chance outcomes."""
        self._seed, self._moves = check_seed(seed), 0
        count = int(self._game.num_players())
        self.seats = tuple(range(count)) if self._seat == ALL else (int(self._seat or seed % count),)
        self._state = past_chance(first_state(self._game), mix(seed, CHANCE))
        return self._turn("", ())

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Make the move of the caller's current seat, then the bots' moves."""
        if self._prompt is None:
            raise InputError("the match is over, or has not started: start it with a seed")
        kind, option = read_hub_answer(text, self._prompt, self._answer.form, cut=cut)
        problems = (f"{text.strip()[-100:]}: is not a legal action",) if kind == ILLEGAL else ()
        self._move(option or random_option(self._state, mix(self._seed, FALLBACKS, self._moves)))
        return self._turn(kind, problems)

    def abandon(self) -> Mapping[int, float]:
        """Play random actions for the caller to the end, so no answer pays better than one; return the rewards."""
        rewards: Mapping[int, float] = {}
        while self._prompt is not None:
            rewards = self.answer("").rewards
        return rewards

    def close(self) -> None:
        """Do nothing: a game holds memory only."""

    def _move(self, option: Option) -> None:
        self._moves += 1
        self._state = past_chance(self._state.child(option.value), mix(self._seed, CHANCE, self._moves))

    def _turn(self, status: str, problems: tuple[str, ...]) -> MatchTurn:
        """Return the caller's next decision, or the end."""
        while not (over := self._state.is_terminal()) and self._state.current_player() not in self.seats:
            self._go_on()
            prompt = self._asked()
            self._move(bot_answers(self._bot, [prompt])[0][0])
        facts = {"game": str(self._game), "moves": self._moves, "seats": [f"player {seat}" for seat in self.seats]}
        said: dict[str, Any] = {"answer": status, "problems": problems, "facts": facts}
        if over:
            self._prompt, returns = None, self._state.returns()
            rewards = {seat: float(returns[seat]) for seat in self.seats}
            return MatchTurn("", -1, done=True, reward=sum(rewards.values()) / len(rewards), rewards=rewards, **said)
        self._prompt = self._asked()
        return MatchTurn(self._prompt.text, self._prompt.seat, (_texts(self._prompt),), **said)

    def _asked(self) -> Prompt:
        return prompt_of(self._state, self._answer, seed=mix(self._seed, FALLBACKS, self._moves))


@dataclass(frozen=True)
class SurveyedText:
    """A free text as an answer of a model."""

    text: str
    finish_reason: str
    chosen: tuple[Option, ...] = ()


class ExploitabilitySurvey(SurveyMatch):
    """Exploitability of a model that answers in free text, from `samples` answers at every information state.

    Each seat's reward is minus its loss to a best response; the mean is minus exploitability.

    Args:
        id: short name of the game, with its options.
        samples: answers at each information state.

    """

    def __init__(self, *, id: str = DEFAULT_GAME, samples: int = SAMPLES) -> None:
        super().__init__()
        if isinstance(samples, bool) or not isinstance(samples, int) or not 2 <= samples <= MOST_SAMPLES:
            raise InputError(f"samples={samples!r}: must be a whole number in [2, {MOST_SAMPLES}]")
        game = open_hub_game(id)
        self._game, self._samples = str(game), samples
        self._decisions = TextDecisions.of(id, {}, OpenSpielAnswerConfig(REASONING))
        self.seats = tuple(range(game.num_players()))
        if (count := len(self._decisions.prompts) * samples) > MOST_QUESTIONS:
            raise InputError(f"samples={samples}: {game} has {count:,} questions then; at most {MOST_QUESTIONS:,} fit")
        self.questions = [
            (prompt.seat, prompt.text) for prompt in self._decisions.prompts for _ in range(self._samples)
        ]

    def start(self, seed: int) -> MatchTurn:
        """Start again; `seed` seeds the interval's bootstrap."""
        self._seed = check_seed(seed)
        return self._first()

    def status(self, number: int, answer: SurveyAnswer) -> str:
        """Return the status of an answer."""
        prompt = self._decisions.prompts[number // self._samples]
        return read_hub_answer(answer.text, prompt, REASONING, cut=answer.cut)[0]

    def conclude(self, answers: Sequence[SurveyAnswer]) -> MatchTurn:
        """Return exploitability with its 95 % interval, values and best responses by seat, and the largest losses."""
        texts = [SurveyedText(answer.text, CUT if answer.cut else STOP) for answer in answers]
        sampled = self._decisions.sampled(lambda requests: texts, self._samples, self._seed)
        table, tree = sampled.table(), self._decisions.tree
        low, high = sampled.interval(tree.exploitability, self._seed)
        row = figures(tree, table)
        pairs = zip(row["values"], row["best_responses"], strict=True)
        rewards = {seat: value - best for seat, (value, best) in enumerate(pairs)}
        facts: Mapping[str, Any] = {
            "game": self._game,
            "samples": self._samples,
            "information_states": len(self._decisions.asked),
            **row,
            "exploitability_low": low,
            "exploitability_high": high,
            "answers": {STATUSES[kind]: count for kind, count in sampled.kinds().items()},
            "worst": [asdict(lost) for lost in worst_decisions(self._decisions, table)],
        }
        return MatchTurn("", -1, done=True, reward=-row["exploitability"], rewards=rewards, facts=facts)

    def close(self) -> None:
        """Do nothing: a tree holds memory only."""


def open_hub_game(game_id: Any) -> Any:
    """Return the game of a client's option `id`. Raises `InputError`, in one line, for one that is not played."""
    if not isinstance(game_id, str) or not game_id:
        raise InputError(f"id={game_id!r}: must be the name of a game of OpenSpiel, such as {DEFAULT_GAME}")
    if FILE_TEXT.search(game_id):
        raise InputError(f"id={game_id!r}: names a file of the server; leave the option out")
    try:
        return open_text_game(game_id)
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "id=")) from error


def read_hub_answer(text: str, prompt: Prompt, form: str, *, cut: bool | None) -> tuple[str, Option | None]:
    """Return what became of an answer, and the action where that is legal.

    A menu's answer is complete without its closing tag; one that is not legal and lacks it was cut off.
    """
    menu = action_menu(prompt.position)
    if form == REASONING:
        read = read_free_text(text, menu, cut=bool(cut))
    else:
        body, tag, _ = text.partition(CLOSING)
        read = read_free_text(body, menu)
        if read.option is None and (cut if cut is not None else not tag):
            return TRUNCATED, None
    return STATUSES[read.kind], read.option


def _texts(prompt: Prompt) -> tuple[str, ...]:
    return tuple(option.text for option in action_menu(prompt.position).options)


def _checked_seat(seat: Any, count: int) -> str:
    """Return a seat as text, "all" or empty. Raises `InputError` for another."""
    text = seat if isinstance(seat, str) else str(seat) if type(seat) is int else repr(seat)
    if text in ("", ALL) or (SEAT.fullmatch(text) and int(text) < count):
        return text
    raise InputError(f"seat={seat!r}: must be a number from 0 to {count - 1}, {ALL!r}, or empty to rotate the seats")
