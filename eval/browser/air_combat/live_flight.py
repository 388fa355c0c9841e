"""A match of a person in seat 0 against an opponent in seat 1, tick by tick, on a batch of one match.

The person's action counts in every tick. A scripted opponent decides in every tick, a policy once in `ACTION_REPEAT`
ticks as in training. An autopilot is a scripted pilot that flies the person's aircraft for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sparring.agents.policies.policy import Policy
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.recording import AirRecorder, AirRecording
from sparring.eval.air_combat.replay import burst_row, plane_row

if TYPE_CHECKING:
    from sparring.agents.opponents.air_combat import Pilot

YOU = "You"
AUTOPILOTS = {
    "by hand": "",
    "level": "straight",
    "turn": "turning",
    "pure pursuit": "chaser",
    "lead pursuit": "dogfighter",
    "best turn, yo-yo": "ace",
    "hardest turn": "brawler",
    "break, then leave": "evader",
}
"""What a person can order in words, and the scripted pilot that flies it."""
_PERSON, _OPPONENT = 0, 1


@dataclass(frozen=True)
class AirFrame:
    """State after a tick, for the page."""

    tick: int
    outcome: int
    """-1 while playing, 0 for a draw, else 1 + the winning seat."""
    planes: list[list[float]]
    """As `eval.air_combat.replay.plane_row`, of both seats."""
    bursts: list[list[float]]
    """As `eval.air_combat.replay.burst_row`, after the seat."""
    actions: tuple[list[float] | None, list[float] | None]
    """Of both seats, None where a scripted pilot flies."""

    def message(self) -> dict[str, Any]:
        """Return the frame as `flying.js` takes it."""
        return vars(self)


class LiveFlight:
    """One match from `seed`; `tick` plays it, `recording` returns it once it is over.

    Raises `InputError` for a policy that cannot play it.
    """

    def __init__(self, opponent: Pilot, *, model: str, gun: str = "", seed: int) -> None:
        self.opponent = opponent
        self._batch = AirCombatBatch(1, model=model, gun=gun, action_repeat=1, threads=1, seed=seed)
        self.model, self.gun = self._batch.model, self._batch.gun
        self._policy = opponent.contestant if isinstance(opponent.contestant, Policy) else None
        if self._policy:
            self._policy.check(self._batch.contract | {"action_repeat": rules.ACTION_REPEAT})
        else:
            self._batch.bots[0, _OPPONENT] = rules.bot_id(str(opponent.contestant))
        self._recorder = AirRecorder(self._batch)
        self._actions = torch.zeros(1, 2, self._batch.actions.shape[-1])
        self._memory = torch.zeros(1, self._policy.memory_size if self._policy else 0)
        self._decide()
        self.frame = self._look()

    @property
    def over(self) -> bool:
        """True after the last tick."""
        return self.frame.outcome >= 0

    def order(self, autopilot: str) -> None:
        """Hand the person's aircraft to the pilot of `AUTOPILOTS`, or back."""
        pilot = AUTOPILOTS[autopilot]
        self._batch.bots[0, _PERSON] = rules.bot_id(pilot) if pilot else rules.ACTIONS
        self.frame = replace(self.frame, actions=self._shown())

    def tick(self, action: list[float]) -> AirFrame:
        """Play one tick with the person's action (`rules.ACTION_NAMES`) and return the state; at the end, the last."""
        if self.over:
            return self.frame
        batch = self._batch
        self._actions[0, _PERSON, : len(action)] = torch.tensor(action)
        batch.step(self._actions)
        outcome, tick = int(batch.outcome[0]), self.frame.tick + 1
        if outcome >= 0 or tick % rules.ACTION_REPEAT == 0:
            self._recorder(batch)
        if outcome >= 0:
            self.frame = self._last(outcome)
            return self.frame
        if tick % rules.ACTION_REPEAT == 0:
            self._decide()
        self.frame = self._look()
        return self.frame

    def recording(self) -> AirRecording:
        """Return the match for `eval.air_combat.replay.write_air_replay`; raises `ValueError` before its end."""
        return self._recorder.recordings((YOU, self.opponent.name))[0]

    def close(self) -> None:
        """End the threads of the simulator."""
        self._batch.close()

    def _decide(self) -> None:
        if self._policy:
            actions, self._memory = self._policy.step(self._batch.obs[:, _OPPONENT], self._memory)
            self._actions[0, _OPPONENT] = actions[0]

    def _look(self) -> AirFrame:
        state = self._batch.snapshot()
        planes = [plane_row(plane) for plane in state["planes"][0]]
        bursts = [
            [slot // rules.SLOTS, *burst_row(burst)]
            for slot, burst in enumerate(state["rounds"][0])
            if burst["life"] > 0
        ]
        return AirFrame(int(state["clock"]["tick"][0]), -1, planes, bursts, self._shown())

    def _last(self, outcome: int) -> AirFrame:
        """Return the state of the end: the batch is in the next match, the recorder has the last of this one."""
        recorded = self.recording()
        planes = [plane_row(plane) for plane in recorded.planes[-1]]
        return AirFrame(int(recorded.ticks[-1]), outcome, planes, [], self._shown())

    def _shown(self) -> tuple[list[float] | None, list[float] | None]:
        flown = self._batch.bots[0].numpy() == rules.ACTIONS
        rows = [
            np.round(row.numpy().astype(float), 3).tolist() if mine else None
            for row, mine in zip(self._actions[0], flown, strict=True)
        ]
        return rows[0], rows[1]
