"""The two pages for playing: one for the local server, one with the simulator and a policy embedded.

The policy is plain data for `network.js`: layers, float32 weights in base64, and the mirror's columns.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.policies.array_actor import NORM_EPSILON, ArrayActor, ArrayLinear, ArrayResidual, Layer
from sparring.configs.core.errors import InputError
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.evaluation.replay import arena_constants, arena_parts
from sparring.envs.dogfight.recording import short_name
from sparring.eval.command import fill_page, join_files

RULES = "classic"
"""The only rules that `simulator.js` implements."""
_FOLDER = Path(__file__).parent
_ABOUT = "Sparring · dogfight"
_WATCH = '<button id="watch" type="button" aria-pressed="false" title="The policy flies both aircraft">Watch</button>'
_SAVE = '<button id="save" type="button" title="After the end of the match">Save replay</button>'


def static_page(policy: ArrayActor) -> str:
    """Return a page for playing against `policy` without a server.

    Raises `InputError` for a policy of challenge rules.
    """
    stored = stored_policy(policy)
    config = {"rules": simulator_constants(), "policy": stored, "opponents": [stored["name"]]}
    return _page(("simulator.js", "network.js", "local.js"), config, extra=_WATCH)


def live_page(opponents: Sequence[str], socket: str) -> str:
    """Return the page of the local server, with a choice of `opponents`; it may open WebSockets of `socket`."""
    config = {"rules": simulator_constants(), "opponents": list(opponents)}
    return _page(("remote.js",), config, connect=socket, extra=_SAVE)


def _page(scripts: tuple[str, ...], config: dict[str, Any], *, connect: str = "'none'", extra: str = "") -> str:
    """Return the page with `scripts` as the source of its matches, `extra` controls, and connections to `connect`."""
    script = join_files(_FOLDER, "controls.js", *scripts, "game.js")
    data = {"title": _ABOUT, "regimes": list(game.REGIMES)} | config
    parts = arena_parts() | {"script": script, "connect": connect, "extra": extra}
    return fill_page(_FOLDER / "page.html", title=_ABOUT, data=data, **parts)


def simulator_constants() -> dict[str, Any]:
    """Return the constants that `simulator.js` and the drawing need, by their names there."""
    return arena_constants() | {
        "maxTicks": game.MAX_TICKS,
        "actionRepeat": game.ACTION_REPEAT,
        "wallPush": game.WALL_PUSH,
        "muzzleOffset": game.MUZZLE_OFFSET,
        "stallSpeed": game.STALL_SPEED,
        "stallRecoverySpeed": game.STALL_RECOVERY_SPEED,
        "stallTicks": game.STALL_TICKS,
        "stallTurnRate": game.STALL_TURN_RATE,
        "speedLostPerHp": game.SPEED_LOST_PER_HP,
        "turnLostPerHp": game.TURN_LOST_PER_HP,
        "bulletsPerFighter": game.BULLETS_PER_FIGHTER,
        "observedBullets": game.OBSERVED_BULLETS,
        "spawnX": [100.0, 300.0],  # as in envs/dogfight/kernels/spawn.py
        "spawnY": [150.0, 450.0],
        "spawnSpeedMargin": game.SPAWN_SPEED_MARGIN,
        "spawnSpeedHigh": game.SPAWN_SPEED_HIGH,
        "parameters": [{"name": p.name, "value": p.default, "normalizer": p.normalizer} for p in game.PARAMETERS],
        "regimes": game.REGIMES,
    }


def stored_policy(policy: ArrayActor) -> dict[str, Any]:
    """Return the input of `makePolicy` in `network.js`. Raises `InputError` for a policy that a page cannot run."""
    if policy.contract["rules"] != RULES:
        rules = f"plays {policy.contract['rules']} rules; a page without a server supports only {RULES}"
        raise InputError(f"{policy.name}: {rules}")
    mirror = policy.mirror
    return {
        "name": policy.name,
        "short": short_name(policy.name),
        "obsDim": policy.shape["obs_dim"],
        "layers": [_layer(layer) for layer in policy.layers],
        "mirror": mirror and _columns(mirror),
    }


def _layer(layer: Layer) -> dict[str, Any]:
    match layer:
        case ArrayLinear():
            return {"kind": "linear", "outputs": len(layer.bias), "weights": _floats(layer.bias, layer.weight)}
        case ArrayResidual():
            norm = {"kind": "norm", "size": len(layer.scale), "epsilon": NORM_EPSILON}
            branch = [_layer(part) for part in (layer.first, layer.activation, layer.second)]
            return {"kind": "residual", "layers": [norm | {"weights": _floats(layer.shift, layer.scale)}, *branch]}
    return {"kind": layer.name}


def _floats(*arrays: np.ndarray) -> str:
    flat = np.concatenate([array.ravel() for array in arrays])
    return base64.b64encode(flat.astype("<f4").tobytes()).decode("ascii")


def _columns(mirror: Any) -> dict[str, Any]:
    return {
        "opponentX": mirror.opponent_x,
        "sign": [int(sign) for sign in mirror.sign.tolist()],
        "bulletX": mirror.bullet_x.tolist(),
        "bearing": mirror.bearing.tolist(),
    }
