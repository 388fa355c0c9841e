"""A text match of Diplomacy, one decision at a time, for environment hubs.

The caller plays one power or all seven, and bots play the others. The caller's powers order one after the other, and
the phase is adjudicated after the last. Rewards are those of `scoring.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, PHASES
from sparring.envs.diplomacy.board.map_file import POWERS
from sparring.envs.diplomacy.orders.completion import CLOSING, parse
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.prompts.requests import pending_requests, seat_bots, written_orders
from sparring.envs.diplomacy.rewards.scoring import Scorer, count_centres, reward_weights
from sparring.envs.hubs.matches import (
    ALL,
    ILLEGAL,
    INCOMPLETE,
    READ,
    TRUNCATED,
    CancellableMatch,
    MatchTurn,
    check_seed,
)
from sparring.envs.reasoning import without_reasoning
from sparring.envs.text import Prompt, mix

LAST_YEAR = 1999
"""Largest option of a match, which bounds the work of one call."""


class DiplomacyMatch(CancellableMatch):
    """One game of Diplomacy: the caller has `power`, or all seven powers; `opponents` have the others.

    Args:
        power: name of the caller's power, or "all"; empty uses seed % 7, which rotates the seats.
        opponents: bot of the other powers, or six of them in the order of the powers.
        last_year: the game ends with it, at the latest in 1999, unless one power wins before.
        reward: a term of `scoring.py`, or weights of several; by default the share of the squared centres at the end.
        full_prompts: explain the game in each prompt, for models not trained on the compact form.

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
        super().__init__()
        if isinstance(last_year, int) and last_year > LAST_YEAR:
            raise InputError(f"last_year={last_year}: must be at most {LAST_YEAR}")
        self._power = choose("power", power.upper(), (*POWERS, ALL.upper(), ""))
        bots = [opponents] * (len(POWERS) - 1) if isinstance(opponents, str) else list(opponents)
        if len(bots) != len(POWERS) - 1:
            raise InputError(
                f"opponents: {len(bots)} bots given; name one bot for all, or six in the order of the powers"
            )
        self._bots = [choose("opponents", bot, BOTS) for bot in bots]
        self._scorer = Scorer(reward_weights(reward))
        self._rules = PromptRules(compact=not full_prompts, show_valid_moves=full_prompts)
        self._batch = DiplomacyBatch(1, last_year=last_year, threads=1)
        self._asked: list[Prompt] = []
        self._answered: list[tuple[Prompt, Any]] = []

    def start(self, seed: int) -> MatchTurn:
        """Begin a game in spring 1901."""
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
            self._asked = self._prompts()  # none if only the bots have orders to give
        return self._turn(rewards, status, tuple(f"{line.text}: {line.problem}" for line in reading.problems))

    def close(self) -> None:
        """Stop the simulator's threads."""
        self._batch.close()

    @property
    def _over(self) -> bool:
        return bool(self._batch.done[0])

    def _adjudicate(self) -> Any:
        """Process the phase and return every power's reward in it, float64 [7]."""
        before = self._batch.snapshot()
        self._batch.orders.copy_(written_orders(self._batch, self._answered))
        self._batch.draw_orders(self._seed)
        self._batch.process()
        self._batch.check()
        self._answered.clear()
        return self._scorer.score(before, self._batch.state, self._batch.results)[0]

    def _prompts(self) -> list[Prompt]:
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
    """Return the status of an answer, by whether it is complete and has illegal lines."""
    if not complete and (cut if cut is not None else CLOSING not in without_reasoning(text)[0]):
        return TRUNCATED
    if illegal:
        return ILLEGAL
    return READ if complete else INCOMPLETE
