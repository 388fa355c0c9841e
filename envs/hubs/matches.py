"""Matches in text, one decision at a time, for the hubs of environments: a prompt, an answer, a reward.

A match is seeded and shares nothing with other matches: equal seeds and answers give equal games. `DiplomacyMatch` is
one game with some powers, one or all seven, played by the caller and the others by bots; its powers are asked one
after the other, and the phase is adjudicated after the last. `ChessMatch` is one prompt and one answer. Rewards are
those of this project: `scoring.py`, `analysis.py` and `arbiter.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol

from sparring.configs.core.errors import InputError, choose
from sparring.envs.reasoning import without_reasoning
from sparring.envs.text import Prompt, mix

if TYPE_CHECKING:
    from sparring.envs.chess.data.positions import PositionRecord

GAMES = ("diplomacy", "chess_analysis", "chess_arbiter")
POWERS = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
ALL = "all"
"""In place of a power: the caller has all seven seats."""
LARGEST_SEED = 2**31 - 1
MOST_POSITIONS, LAST_YEAR = 20_000, 1999
"""Largest options of a match, which bound the work of one call: about ten seconds on one core at the first use."""
READ, ILLEGAL, INCOMPLETE, TRUNCATED = "read", "illegal", "incomplete", "truncated"
"""What became of an answer: all orders were in it; one is not legal; some are missing; and it was cut off as well, with
no closing tag. The orders that were read count in any case, and the first legal one of each unit that lacks one."""


@dataclass(frozen=True)
class MatchTurn:
    """What the caller sees: a prompt to answer, or the end, with the outcome of the answer before.

    Attributes:
        prompt: text to complete; empty at the end.
        seat: number of the power asked, 0 in chess; -1 at the end.
        legal: legal lines of the answer, one list for each; empty for free text.
        reward: reward since the answer before: the mean of the caller's seats, 0 until a phase is adjudicated.
        rewards: the same of each of the caller's seats, by its number.
        answer: what became of the answer before, one of `read`, `illegal`, `incomplete`, `truncated`; empty at first.
        problems: lines of that answer that are no legal orders, with the reasons.
        facts: plain data on the state: year, phase and centres, or the task.

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

    def start(self, seed: int) -> MatchTurn:
        """Start a new match. Raises `InputError` for a seed outside [0, 2147483647]."""

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Play a completion; `cut` says whether it was cut off, None if only the text shows. Raises `InputError`."""

    def cancel(self) -> None:
        """End a call that runs in another thread soon, with an `InputError`. The match can only be closed then."""

    def close(self) -> None:
        """Free what the match holds."""


class CancellableMatch:
    """What the matches share: a call can be ended by another thread."""

    def __init__(self) -> None:
        self._cancelled = Event()

    def cancel(self) -> None:
        """End a call that runs in another thread soon, with an `InputError`. The match can only be closed then."""
        self._cancelled.set()

    def _go_on(self) -> None:
        """Raise `InputError` if the match was cancelled; every loop of a call comes by here."""
        if self._cancelled.is_set():
            raise InputError("the match was cancelled: its client has gone")


def open_match(game: str, **options: Any) -> TextMatch:
    """Return a match of `game`, one of `GAMES`. Raises `InputError` for what is unknown or out of range."""
    choose("game", game, GAMES)
    kind: Callable[..., TextMatch] = DiplomacyMatch if game == GAMES[0] else ChessMatch
    for name in options:
        choose(f"option of {game}", name, OPTIONS[game])
    return kind(**options) if game == GAMES[0] else kind(game, **options)


OPTIONS = {
    "diplomacy": ("power", "opponents", "last_year", "reward", "full_prompts"),
    "chess_analysis": ("positions",),
    "chess_arbiter": ("positions",),
}
"""Options of each game's matches."""


def check_seed(seed: int) -> int:
    """Return the seed. Raises `InputError` unless it is a whole number in [0, 2147483647]."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed={seed!r}: must be a whole number in [0, {LARGEST_SEED}]")
    return seed


class DiplomacyMatch(CancellableMatch):
    """One game of Diplomacy: the caller has `power`, or all seven powers; `opponents` have the others.

    Args:
        power: name of the caller's power, or "all"; empty takes seed % 7, so that seeds in sequence rotate the seats.
        opponents: bot of the other powers, or six of them in the order of the powers.
        last_year: the game ends with it, at the latest in 1999, unless one power wins before.
        reward: a term of `scoring.py`, or weights of several; by default the share of the squared centres at the end.
        full_prompts: explain the game in each prompt, for models that do not know the compact form.

    """

    def __init__(
        self,
        *,
        power: str = "",
        opponents: str | Sequence[str] = "dumbbot",
        last_year: int = 1910,
        reward: str | Mapping[str, float] = "sum_of_squares",
        full_prompts: bool = True,
    ) -> None:
        from sparring.envs.diplomacy.batch import DiplomacyBatch
        from sparring.envs.diplomacy.board.codes import BOTS
        from sparring.envs.diplomacy.prompts.prompts import PromptRules
        from sparring.envs.diplomacy.rewards.scoring import Scorer, reward_weights

        super().__init__()
        if isinstance(last_year, int) and last_year > LAST_YEAR:
            raise InputError(f"last_year={last_year}: must be at most {LAST_YEAR}")
        self._power = choose("power", power.upper(), (*POWERS, ALL.upper(), ""))
        bots = [opponents] * (len(POWERS) - 1) if isinstance(opponents, str) else list(opponents)
        if len(bots) != len(POWERS) - 1:
            raise InputError(
                f"opponents: {len(bots)} are named; give one bot for all, or six in the order of the powers"
            )
        self._bots = [choose("opponents", bot, BOTS) for bot in bots]
        self._scorer = Scorer(reward_weights(reward))
        self._rules = PromptRules(compact=not full_prompts, show_valid_moves=full_prompts)
        self._batch = DiplomacyBatch(1, last_year=last_year, threads=1)
        self._asked: list[Prompt] = []
        self._answered: list[tuple[Prompt, Any]] = []

    def start(self, seed: int) -> MatchTurn:
        """Begin a game in spring 1901."""
        from sparring.envs.diplomacy.prompts.requests import seat_bots

        self._seed = check_seed(seed)
        self.seats = _seats(self._power, seed)
        bots = iter(self._bots)
        self._players = [MINE if seat in self.seats else next(bots) for seat in range(len(POWERS))]
        self._batch.reset()
        seat_bots(self._batch, [self._players])
        self._batch.game_id[0] = seed
        self._scorer.begin(self._batch.state)
        self._asked = self._prompts()
        self._answered.clear()
        return self._turn({}, "", ())

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Read the orders of the power that was asked, and adjudicate the phase after the last one."""
        from sparring.envs.diplomacy.orders.completion import parse

        if not self._asked:
            raise InputError("the match is over, or has not started: start it with a seed")
        prompt = self._asked.pop(0)
        reading = parse(text, prompt.menu)  # type: ignore[arg-type]
        status = answer_status(text, complete=reading.complete, illegal=bool(reading.problems), cut=cut)
        self._answered.append((prompt, reading))
        rewards: dict[int, float] = {}
        while not self._asked and not self._over:
            self._go_on()
            earned = self._adjudicate()
            rewards = {seat: rewards.get(seat, 0.0) + float(earned[seat]) for seat in self.seats}
            self._asked = self._prompts()  # none where only the bots have orders to give
        return self._turn(rewards, status, tuple(f"{line.text}: {line.problem}" for line in reading.problems))

    def close(self) -> None:
        """Stop the simulator's threads."""
        self._batch.close()

    @property
    def _over(self) -> bool:
        return bool(self._batch.done[0])

    def _adjudicate(self) -> Any:
        """Process the phase and return every power's reward in it, float64 [7]."""
        from sparring.envs.diplomacy.prompts.requests import written_orders

        before = self._batch.snapshot()
        self._batch.orders.copy_(written_orders(self._batch, self._answered))
        self._batch.draw_orders(self._seed)
        self._batch.process()
        self._batch.check()
        self._answered.clear()
        return self._scorer.score(before, self._batch.state, self._batch.results)[0]

    def _prompts(self) -> list[Prompt]:
        from sparring.envs.diplomacy.prompts.requests import pending_requests

        when = int(self._batch.year[0]) * 5 + int(self._batch.phase[0])
        return pending_requests(
            self._batch, [self._players], self._rules, lambda game, power: mix(self._seed, when, power)
        )

    def _turn(self, rewards: Mapping[int, float], answer: str, problems: tuple[str, ...]) -> MatchTurn:
        reward = sum(rewards.values()) / len(rewards) if rewards else 0.0
        said: dict[str, Any] = {"reward": reward, "rewards": rewards, "answer": answer, "problems": problems}
        facts = self._facts()
        if not self._asked:
            return MatchTurn("", -1, done=True, facts=facts, **said)
        prompt = self._asked[0]
        menu: Any = prompt.menu
        legal = tuple(tuple(option.text for option in menu.menu(line)) for line in range(menu.lines))
        return MatchTurn(prompt.text, prompt.seat, legal, facts=facts, **said)

    def _facts(self) -> dict[str, Any]:
        from sparring.envs.diplomacy.board.codes import PHASES
        from sparring.envs.diplomacy.rewards.scoring import count_centres

        centres = count_centres(self._batch.owner)[0].tolist()
        return {
            "year": int(self._batch.year[0]),
            "phase": PHASES[int(self._batch.phase[0])],
            "centres": dict(zip(POWERS, centres, strict=True)),
            "seats": [POWERS[seat] for seat in self.seats],
        }


MINE = "caller"
"""Name of the caller among the players of a game."""


def _seats(power: str, seed: int) -> tuple[int, ...]:
    if power == ALL.upper():
        return tuple(range(len(POWERS)))
    return (POWERS.index(power) if power else seed % len(POWERS),)


def answer_status(text: str, *, complete: bool, illegal: bool, cut: bool | None) -> str:
    """Return what became of an answer that has all lines or not, and illegal ones or not."""
    from sparring.envs.diplomacy.orders.completion import CLOSING

    if not complete and (cut if cut is not None else CLOSING not in without_reasoning(text)[0]):
        return TRUNCATED
    if illegal:
        return ILLEGAL
    return READ if complete else INCOMPLETE


class ChessMatch(CancellableMatch):
    """One text task of chess: `chess_analysis` of a position, or `chess_arbiter`, the board after a move.

    The position is that of number seed % `positions` of the project's training positions; the engine is the installed
    one, or the built-in search.
    """

    def __init__(self, task: str, *, positions: int = 2000) -> None:
        from sparring.envs.chess.config import ChessEnvConfig, ChessTasksConfig
        from sparring.envs.chess.data.samples import ANALYSIS, ARBITER
        from sparring.envs.chess.rollouts.sources import engine_of

        super().__init__()
        if isinstance(positions, bool) or not isinstance(positions, int) or not 1 <= positions <= MOST_POSITIONS:
            raise InputError(f"positions={positions!r}: must be a whole number in [1, {MOST_POSITIONS}]")
        self._task = ANALYSIS if task == GAMES[1] else ARBITER
        self._tasks, self._positions = ChessTasksConfig(), positions
        self._engine = engine_of(ChessEnvConfig()) if self._task == ANALYSIS else None
        self._name, self._prompt = task, ""

    def start(self, seed: int) -> MatchTurn:
        """Choose the position."""
        from sparring.envs.chess.rollouts.sources import prompt_text

        record = _drawn_positions().number(check_seed(seed) % self._positions, self._go_on)
        self._prompt = prompt_text(self._tasks, self._task, record)
        return MatchTurn(self._prompt, 0, facts={"task": self._name, "fen": record.fen})

    def answer(self, text: str, *, cut: bool | None = None) -> MatchTurn:
        """Score the answer."""
        from sparring.envs.chess.rollouts.task import reward_of

        if not self._prompt:
            raise InputError("the match is over, or has not started: start it with a seed")
        reward = reward_of((self._task, self._prompt, text), self._engine)
        self._prompt = ""
        status = TRUNCATED if cut else READ
        return MatchTurn("", -1, done=True, reward=reward, rewards={0: reward}, answer=status)

    def close(self) -> None:
        """Do nothing: the process closes the engine."""


class DrawnPositions:
    """The project's training positions, in their order, drawn as far as they are needed and shared by all matches."""

    def __init__(self) -> None:
        from sparring.envs.chess.config import ChessEnvConfig
        from sparring.envs.chess.data.positions import HELD_OUT, TRAIN, VALIDATION, new_positions
        from sparring.envs.chess.rollouts.sources import positions_of

        env = ChessEnvConfig()
        env.data.train = 1
        others = positions_of(env).positions
        seen = {record.fen for split in (HELD_OUT, VALIDATION) for record in others[split]}
        self._games = new_positions(env.data, TRAIN, seen)
        self._records: list[PositionRecord] = []
        self._drawing = Lock()

    def number(self, index: int, go_on: Callable[[], None]) -> PositionRecord:
        """Return position `index`; `go_on` is called before each game that is drawn, and may raise."""
        go_on()
        while index >= len(self._records):
            go_on()
            with self._drawing:
                self._records += next(self._games)
        return self._records[index]


_positions_lock = Lock()


def _drawn_positions() -> DrawnPositions:
    with _positions_lock:
        return _the_positions()


@cache
def _the_positions() -> DrawnPositions:
    return DrawnPositions()
