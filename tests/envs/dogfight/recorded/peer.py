"""The NumPy peer for recorded rows, with the same interface as `simulator.py`."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_dogfight.bots import bot_actions
from benchmarks.numpy_dogfight.peer import NumpyDogfight
from benchmarks.numpy_dogfight.state import State
from sparring.envs.dogfight import rules
from tests.envs.dogfight.recorded.rows import MEMORY, BotRows, Decisions


def decisions(rows: BotRows) -> Decisions:
    """Let each row's bot decide once."""
    bots = np.full(rows.state.x.shape, rules.ACTIONS)
    bots[:, rows.seat] = rows.bots
    turn, throttle, shoot = bot_actions(rows.state, bots, challenge=rows.challenge)[:, rows.seat].T
    memory = [getattr(rows.state.memory, name)[:, rows.seat] for name in MEMORY]
    return Decisions(turn, throttle, shoot > 0.0, np.stack(memory, axis=1))


class Game:
    """Matches that continue from given states, with both seats played by actions."""

    def __init__(self, state: State, rule_set: str) -> None:
        self.batch = NumpyDogfight(len(state.x), rule_set=rule_set, spawn="fixed")
        self.obs = self.batch.load(state)

    def step(self, actions: np.ndarray) -> None:
        """Play one step; the results of a finished match are those at its end."""
        batch = self.batch
        _, self.reward, terminated, truncated = batch.step(actions)
        self.done, self.tick = terminated | truncated, batch.length
        self.obs = np.where(self.done[:, None, None], batch.final_obs, batch.obs)
        state = batch.state
        self.fighters = np.stack([state.x, state.y, state.yaw, state.speed, state.stall], axis=2)
        """x, y, yaw, speed, stall [N, 2, 5]; of the successor where a match has finished."""
