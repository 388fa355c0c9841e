"""The dogfight on the local server: a match between a person in seat 0 and an opponent, and its page messages.

The match is played tick by tick on a batch of one. Under classic rules the person's action counts in every tick, bots
decide in every tick and policies as often as in training. Under challenge rules an observation holds four steps, so
both sides decide once a step of ten ticks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import torch
from pydantic import Field

from sparring.agents.opponents.duelists import Duelist
from sparring.agents.policies.policy import Policy
from sparring.configs.core.typed import Number, Text
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.browser.pages import live_page
from sparring.envs.dogfight.evaluation.command import make_setting
from sparring.envs.dogfight.evaluation.replay import write_replay
from sparring.envs.dogfight.frame import BULLET_COLUMNS, FIGHTER_COLUMNS, FIRST_BULLET, TICK
from sparring.envs.dogfight.recording import Recorder, Recording, short_names
from sparring.eval.browser.flying import YOU, FlightChoices, FlightStage

_FIGHTER = ("x", "y", "cos", "sin", "speed", "hp", "cooldown", "stall")
_PERSON, _OPPONENT = 0, 1


@dataclass(frozen=True)
class LiveFrame:
    """State after a tick, the actions of both seats (None for a bot), and the opponent's value estimate."""

    row: np.ndarray
    """float32 [29], columns as in `envs.dogfight.rules.TRACE_FIELDS`."""
    outcome: int
    """-1 while playing, 0 for a draw, else 1 + the winning seat."""
    actions: tuple[list[float], list[float] | None]
    value: float | None

    def message(self) -> dict[str, Any]:
        """Return the frame in the format of `game.js`."""
        row = [round(float(value), 4) for value in self.row]
        fighters = [row[:FIGHTER_COLUMNS], row[FIGHTER_COLUMNS:FIRST_BULLET]]
        bullets = [row[at : at + BULLET_COLUMNS] for at in range(FIRST_BULLET, TICK, BULLET_COLUMNS)]
        return {
            "tick": int(row[TICK]),
            "outcome": self.outcome,
            "fighters": [dict(zip(_FIGHTER, values, strict=True)) for values in fighters],
            "bullets": bullets,
            "actions": self.actions,
            "value": self.value,
        }


class LiveMatch:
    """One match from `seed` under `regime`; `tick` plays it, `recording` returns it once it is over.

    `rules` default to the opponent's, or classic for a bot. Raises `InputError` for an opponent that cannot play.
    """

    def __init__(self, opponent: Duelist, *, regime: str, seed: int, rules: str | None = None) -> None:
        self.opponent, self.regime = opponent, regime
        setting = make_setting([opponent.contestant], rules=rules, threads=1)
        self.rules = setting.rules
        self._decision_ticks = setting.action_repeat
        ticks = setting.action_repeat if setting.rules == "challenge" else 1
        self._batch = replace(setting, action_repeat=ticks, ranges=game.ranges(regime), trace=1).batch(1)
        self._policy = opponent.contestant if isinstance(opponent.contestant, Policy) else None
        if not self._policy:
            self._batch.bots[0, _OPPONENT] = game.bot_id(str(opponent.contestant))
        self._batch.reset(seed)
        self.max_hp = int(self._batch.snapshot()["fighters"][0, 0]["hp"])
        self._recorder, self._actions = Recorder(1), torch.zeros(1, 2, 3)
        self._rows: deque[np.ndarray] = deque()
        self._memory = torch.zeros(1, self._policy.memory_size if self._policy else 0)
        self._value: float | None = None
        self._outcome = -1
        self._decide()
        self.frame = self._frame(self._start_row())

    @property
    def over(self) -> bool:
        """True after the last tick."""
        return self.frame.outcome >= 0

    def tick(self, action: list[float]) -> LiveFrame:
        """Play one tick with the person's action (turn, throttle, shoot) and return the state; at the end, the last."""
        if self.over:
            return self.frame
        if not self._rows:
            self._step(action)
        self.frame = self._frame(self._rows.popleft())
        if self.frame.outcome < 0 and self.frame.row[TICK] % self._decision_ticks == 0:
            self._decide()
        return self.frame

    def recording(self) -> Recording:
        """Return the match for `eval.dogfight.replay.write_replay`; raises `ValueError` before its end."""
        names = {"left": YOU, "right": self.opponent.name}
        return self._recorder.recordings(**names, rules=self.rules, regime=self.regime)[0]

    def close(self) -> None:
        """Stop the simulator's threads."""
        self._batch.close()

    def _step(self, action: list[float]) -> None:
        self._actions[0, _PERSON] = torch.tensor(action)
        self._batch.step(self._actions)
        self._recorder(self._batch)
        self._outcome = int(self._batch.outcome[0])
        trace = self._batch.trace[0].numpy()
        self._rows.extend(trace[trace[:, TICK] >= 0].copy())

    def _decide(self) -> None:
        """Set the policy's action for the next ticks, and its value."""
        if self._policy:
            obs = self._batch.obs[:, _OPPONENT]
            actions, self._memory = self._policy.step(obs, self._memory)
            self._actions[0, _OPPONENT] = actions[0]
            value = self._policy.value(obs)
            self._value = None if value is None else round(float(value[0]), 3)

    def _frame(self, row: np.ndarray) -> LiveFrame:
        answer = self._actions[0, _OPPONENT].tolist() if self._policy else None
        ended = self._outcome if not self._rows else -1
        return LiveFrame(row, ended, (self._actions[0, _PERSON].tolist(), answer), self._value)

    def _start_row(self) -> np.ndarray:
        row = np.zeros(TICK + 1, dtype=np.float32)
        for seat, fighter in enumerate(self._batch.snapshot()["fighters"][0]):
            columns = ("x", "y", "cos_yaw", "sin_yaw", "speed", "hp", "cooldown", "stall")
            row[seat * FIGHTER_COLUMNS : (seat + 1) * FIGHTER_COLUMNS] = [fighter[name] for name in columns]
        return row


class DogfightMessage(FlightChoices):
    """A message from the page; the other keys depend on `kind`."""

    kind: Literal["begin", "pace", "hold", "save"]
    regime: NotRequired[Text]
    action: NotRequired[Annotated[list[Number], Field(min_length=3, max_length=3)]]


@dataclass(frozen=True)
class DogfightStage(FlightStage):
    """The dogfight hosted by the server, under `rules` (None: the opponent's)."""

    rules: str | None = None

    MESSAGE = DogfightMessage
    RESTING = (0.0, 0.0, 0.0)
    TICKS_PER_SECOND = game.TICKS_PER_SECOND
    REPLAY = "match"
    SETTING = ("regime", tuple(game.REGIMES))

    @property
    def usual(self) -> str:
        """The default regime."""
        return "default"

    def html(self, socket: str) -> str:
        """Return the page."""
        return live_page(self.opponents, socket)

    def start(self, opponent: Duelist, setting: str, seed: int) -> tuple[LiveMatch, dict[str, Any], str]:
        """Return a match under a regime, and the page's data about it."""
        match = LiveMatch(opponent, regime=setting, seed=seed, rules=self.rules)
        names = [YOU, opponent.name]
        about = {"names": names, "short": short_names(*names), "regime": setting, "maxHp": match.max_hp}
        about |= {"note": f"{match.rules} rules · {setting}", "wraps": match.rules == "challenge"}
        return match, about, "; ".join(opponent.notes)

    def write(self, path: Path, match: LiveMatch) -> None:
        """Write the replay."""
        write_replay(path, [match.recording()])
