"""The two pages for playing: one for the local server, one that carries the simulator and a policy in itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparring.agents.play.matches import Contestant
from sparring.envs.dogfight import rules as game
from sparring.eval.browser.dogfight.browser_policy import stored_policy
from sparring.eval.dogfight.replay import arena_constants, fill_page

_FOLDER = Path(__file__).parent
_ABOUT = "Sparring · dogfight"
_SAVE = '<button id="save" type="button" title="After the end of the match">Save replay</button>'


def static_page(policy: Contestant) -> str:
    """Return a page on which one plays against `policy` without a server.

    Raises `InputError` for a bot, a policy of challenge rules, or one from another library.
    """
    stored = stored_policy(policy)
    config = {"rules": simulator_constants(), "policy": stored, "opponents": [stored["name"]]}
    return _page(("simulator", "network", "local"), config)


def live_page(opponents: Sequence[str], socket: str) -> str:
    """Return the page of the local server, with a choice of `opponents`; it may open WebSockets of `socket`."""
    config = {"rules": simulator_constants(), "opponents": list(opponents)}
    return _page(("remote",), config, connect=socket, extra=_SAVE)


def _page(scripts: tuple[str, ...], config: dict[str, Any], *, connect: str = "'none'", extra: str = "") -> str:
    """Return the page with `scripts` as the source of its matches; it may open `connect` and has `extra` controls."""
    code = "\n".join(_read(f"{name}.js") for name in ("controls", *scripts, "game"))
    shared = {"title": _ABOUT, "regimes": list(game.REGIMES)}
    return fill_page(
        _FOLDER / "page.html", title=_ABOUT, data=shared | config, script=code, connect=connect, extra=extra
    )


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


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
