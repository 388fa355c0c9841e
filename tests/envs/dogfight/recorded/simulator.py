"""The kernels for recorded rows: bot decisions, and matches played from actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from benchmarks.numpy_dogfight.state import State
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.kernels.bots.decide import decide
from sparring.envs.dogfight.kernels.state import BotMemory, Bullet, Fighter, MatchClock, Physics
from tests.envs.dogfight.recorded.rows import MEMORY, BotRows, Decisions

wp.set_module_options({"enable_backward": False})


@wp.kernel
def decide_kernel(
    bots: wp.array[int],
    fighters: wp.array2d[Fighter],
    bullets: wp.array2d[Bullet],
    memory: wp.array2d[BotMemory],
    physics: wp.array[Physics],
    clock: wp.array[MatchClock],
    seat: int,
    challenge: bool,
    actions: wp.array[wp.vec3],
):
    match = wp.tid()
    p = physics[match]
    m, action = decide(
        bots[match],
        memory[match, seat],
        fighters[match, seat],
        fighters[match, 1 - seat],
        p,
        bullets,
        match,
        seat,
        wp.cos(p.rear_aspect_cone),
        clock[match].closing,
        challenge,
    )
    memory[match, seat] = m
    actions[match] = action


KINDS: dict[str, Any] = {
    "fighters": Fighter,
    "bullets": Bullet,
    "memory": BotMemory,
    "physics": Physics,
    "clock": MatchClock,
}


def decisions(rows: BotRows) -> Decisions:
    """Let each row's bot decide once."""
    arrays = {name: wp.array(values, dtype=KINDS[name], device="cpu") for name, values in records(rows.state).items()}
    actions = wp.zeros(len(rows.bots), dtype=wp.vec3, device="cpu")
    bots = wp.array(rows.bots.astype(np.int32), dtype=int, device="cpu")
    inputs = [bots, *(arrays[name] for name in KINDS), rows.seat, rows.challenge, actions]
    wp.launch(decide_kernel, dim=len(rows.bots), inputs=inputs, device="cpu")
    turn, throttle, shoot = actions.numpy().T
    memory = arrays["memory"].numpy()[:, rows.seat]
    return Decisions(turn, throttle, shoot > 0.0, np.stack([memory[name] for name in MEMORY], axis=1))


def records(state: State) -> dict[str, np.ndarray]:
    """Return the states as arrays for `DogfightBatch.load`."""
    matches = len(state.x)
    shapes = {"fighters": (matches, 2), "bullets": (matches, 4), "memory": (matches, 2)}
    arrays = {name: np.zeros(shapes.get(name, matches), kind.numpy_dtype()) for name, kind in KINDS.items()}
    fighters, bullets = arrays["fighters"], arrays["bullets"].reshape(matches, 2, 2)
    for name in ("x", "y", "speed", "turn_rate", "hp", "cooldown", "stall"):
        fighters[name] = getattr(state, name)
    fighters["cos_yaw"], fighters["sin_yaw"] = np.cos(state.yaw), np.sin(state.yaw)
    fighters["crashed"] = ~state.alive & (state.hp > 0)
    for name in ("x", "y", "life"):
        bullets[name] = getattr(state, f"bullet_{name}")
    speed = np.maximum(np.hypot(state.bullet_vx, state.bullet_vy), 1.0)
    bullets["dx"], bullets["dy"] = state.bullet_vx / speed, state.bullet_vy / speed
    for name in MEMORY:
        arrays["memory"][name] = getattr(state.memory, name)
    for index, parameter in enumerate(rules.PARAMETERS):
        arrays["physics"][parameter.name] = state.physics[:, index]
    arrays["clock"]["tick"], arrays["clock"]["closing"] = state.tick, state.closing
    return arrays


class Game:
    """Matches that continue from given states, with both seats played by actions."""

    def __init__(self, state: State, rule_set: str) -> None:
        self.batch = DogfightBatch(len(state.x), rules=rule_set, spawn="fixed", threads=1)
        self.batch.load(records(state))
        self.obs = self.batch.obs.numpy().copy()

    def step(self, actions: np.ndarray) -> None:
        """Play one step; the results of a finished match are those at its end."""
        batch = self.batch
        batch.step(torch.tensor(actions))
        snapshot = batch.snapshot()
        self.reward = batch.reward.numpy().copy()
        self.done = (batch.terminated | batch.truncated).numpy()
        self.tick = np.where(self.done, batch.length.numpy(), snapshot["clock"]["tick"])
        self.obs = np.where(self.done[:, None, None], batch.final_obs.numpy(), batch.obs.numpy())
        fighters = snapshot["fighters"]
        yaw = np.arctan2(fighters["sin_yaw"], fighters["cos_yaw"])
        columns = [fighters["x"], fighters["y"], yaw, fighters["speed"], fighters["stall"]]
        self.fighters = np.stack(columns, axis=2)
        """x, y, yaw, speed, stall [N, 2, 5]; of the successor where a match has finished."""
