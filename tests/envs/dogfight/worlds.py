"""Bridges between the simulator's state and the two independent implementations, and hand-made scenes.

`scene` builds a batch whose fighters, bullets and memories are set by hand; `to_numpy` and `to_match` copy a batch's
state into the NumPy peer's arrays and into the scalar reference.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.numpy_dogfight.state import B, Memory, State
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.reference import Bullet, Fighter, Match, Parameters

IDLE = (0.0, 0.0, -1.0)


def physics_rows(snapshot) -> np.ndarray:
    """Return the 13 parameters of every match, [N, 13]."""
    return np.stack([snapshot["physics"][parameter.name] for parameter in rules.PARAMETERS], axis=1)


def to_numpy(batch: DogfightBatch, dtype=np.float64) -> State:
    """Return the batch's state in the NumPy peer's format."""
    snapshot = batch.snapshot()
    fighters, bullets, physics = snapshot["fighters"], snapshot["bullets"], physics_rows(snapshot)
    state = State.empty(batch.num_envs, dtype)
    for name in ("x", "y", "speed", "turn_rate", "hp", "cooldown", "stall"):
        getattr(state, name)[:] = fighters[name]
    state.yaw[:] = np.arctan2(fighters["sin_yaw"].astype(dtype), fighters["cos_yaw"].astype(dtype))
    state.alive[:] = (fighters["hp"] > 0) & (fighters["crashed"] == 0)
    slots = {name: bullets[name].reshape(batch.num_envs, 2, B) for name in bullets.dtype.names}
    state.bullet_x[:], state.bullet_y[:], state.bullet_life[:] = slots["x"], slots["y"], slots["life"]
    state.physics[:] = physics
    speed = state.parameter("bullet_speed")[:, None, None]
    state.bullet_vx[:], state.bullet_vy[:] = speed * slots["dx"], speed * slots["dy"]
    state.tick[:], state.closing[:] = snapshot["clock"]["tick"], snapshot["clock"]["closing"]
    for name in Memory.__dataclass_fields__:
        getattr(state.memory, name)[:] = snapshot["memory"][name]
    return state


def to_match(batch: DogfightBatch, index: int) -> Match:
    """Return one match of the batch in the scalar reference's format."""
    snapshot = batch.snapshot()
    parameters = Parameters.from_row(physics_rows(snapshot)[index])
    fighters = [
        Fighter(
            x=float(f["x"]),
            y=float(f["y"]),
            yaw=float(np.arctan2(np.float64(f["sin_yaw"]), np.float64(f["cos_yaw"]))),
            speed=float(f["speed"]),
            hp=int(f["hp"]),
            cooldown=int(f["cooldown"]),
            stall=int(f["stall"]),
            alive=bool(f["hp"] > 0 and not f["crashed"]),
        )
        for f in snapshot["fighters"][index]
    ]
    bullets = [
        Bullet(
            x=float(b["x"]),
            y=float(b["y"]),
            yaw=float(np.arctan2(np.float64(b["dy"]), np.float64(b["dx"]))),
            speed=parameters.bullet_speed,
            life=int(b["life"]),
            owner=slot // B,
        )
        for slot, b in enumerate(snapshot["bullets"][index])
        if b["life"] > 0
    ]
    return Match(
        fighters,
        parameters,
        challenge=batch.rules == "challenge",
        bullets=bullets,
        tick=int(snapshot["clock"]["tick"][index]),
    )


def scene(first, second, *, rule_set="classic", bots=None, bullets=(), physics=None, tick=0, memory=None, **options):
    """A batch of one match with both fighters set by hand.

    `first`, `second`: fields of a fighter, with `yaw` for the heading. `bullets`: dicts with owner, x, y, yaw, life.
    `physics`: parameters that differ from the default. `memory`: fields of a bot's memory, set for both seats.
    """
    options = {"action_repeat": 1, "threads": 1, "spawn": "fixed"} | options
    batch = DogfightBatch(1, rules=rule_set, **options)
    if bots is not None:
        batch.assign(np.array([bots]))
    state = batch.snapshot()
    for name, value in (physics or {}).items():
        state["physics"][name] = value
    state["fighters"]["hp"] = state["physics"]["max_hp"][:, None]
    for seat, values in enumerate((first, second)):
        _set_fighter(state["fighters"][0, seat], dict(values))
    for slot, bullet in enumerate(bullets):
        target = state["bullets"][0, bullet["owner"] * B + slot % B]
        target["x"], target["y"], target["life"] = bullet["x"], bullet["y"], bullet["life"]
        target["dx"], target["dy"] = np.cos(bullet["yaw"]), np.sin(bullet["yaw"])
    for name, value in (memory or {}).items():
        state["memory"][name] = value
    state["clock"]["tick"] = tick
    batch.load(state)
    return batch


def _alive(fighters):
    return (fighters["hp"] > 0) & (fighters["crashed"] == 0)


def _set_fighter(target, values) -> None:
    if "yaw" in values:
        yaw = values.pop("yaw")
        target["cos_yaw"], target["sin_yaw"] = np.cos(yaw), np.sin(yaw)
    for name, value in values.items():
        target[name] = value


def play(batch: DogfightBatch, first=IDLE, second=IDLE, *, ticks=1):
    """Step a one-match batch `ticks` times with constant actions; return both fighters as records."""
    actions = torch.tensor([[first, second]], dtype=torch.float32)
    for _ in range(ticks):
        batch.step(actions)
    return batch.snapshot()["fighters"][0]


def live_bullets(batch: DogfightBatch, owner: int) -> np.ndarray:
    """Return the records of a seat's bullets in flight."""
    bullets = batch.snapshot()["bullets"][0, owner * B : (owner + 1) * B]
    return bullets[bullets["life"] > 0]
