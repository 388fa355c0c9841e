"""A policy against an agent of LAG in JSBSim: `python -m benchmarks.air_combat.lag baseline_model.pt POLICY`.

Both aircraft are JSBSim's F-16 (`pip install jsbsim`). LAG (github.com/liuqh16/LAG) flies one with its network, the
first argument, which turns wanted changes of height, heading and speed into stick and throttle five times a second. Its
agent `pursue` asks for the opponent's height, direction and speed, `level` for 6,096 m, no turn and 243 m/s. The policy
observes the same matches as in `AirCombatBatch`, and a loop around JSBSim's stick follows its commands. LAG's agents do
not shoot; here both have the cone of `rules`, and the agent fires whenever its opponent is in it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sparring
from benchmarks.command import run_script
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch

SEED = 777
FT, FPS2_PER_G = 0.3048, 32.174
MERIDIAN, EQUATOR = 6_335_439.0, 6_378_137.0  # m, radii of curvature of WGS 84 where the matches are, at 0 N 0 E
AGENT_TICKS = 12  # LAG's decision, 0.2 s
MILITARY = 0.77  # throttle of `rules` without afterburner
DRY = 0.9  # LAG's greatest throttle in JSBSim, the policy's too: neither has the afterburner
P_GAIN, I_GAIN, FORWARD = 1.0, 1.5, 0.6  # of the load factor's loop, for 8 g, in units of JSBSim's stick
ROLL_FULL = 3.14  # rad/s that JSBSim's full stick commands
AGENTS = ("pursue", "level")
HANDS_OFF = "hands_off"


class LagActor(nn.Module):
    """LAG's network: 12 numbers and 128 of memory to indices of aileron, elevator, rudder (41 each), throttle (30)."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        sizes = (12, 128, 128)
        layers = [(nn.Linear(*size), nn.ReLU(), nn.LayerNorm(size[1])) for size in itertools.pairwise(sizes)]
        self.body, self.gru, self.norm = nn.Sequential(*sum(layers, ())), nn.GRU(128, 128), nn.LayerNorm(128)
        self.heads = nn.ModuleList(nn.Linear(128, choices) for choices in (41, 41, 41, 30))
        names = {"base.mlp.fc.": "body.", "rnn.gru.": "gru.", "rnn.norm.": "norm.", "act.action_outs.": "heads."}
        state = {}
        for key, value in torch.load(file, map_location="cpu", weights_only=True).items():
            start = next(start for start in names if key.startswith(start))
            state[key.replace(start, names[start]).replace("logits_net.", "")] = value
        self.load_state_dict(state)
        self.memory = torch.zeros(1, 1, 128)

    @torch.no_grad()
    def forward(self, numbers: list[float]) -> list[float]:
        """Return aileron, elevator, rudder in [-1, 1] and throttle in [0.4, 0.9]."""
        x, self.memory = self.gru(self.body(torch.tensor([numbers], dtype=torch.float32)).unsqueeze(0), self.memory)
        a, e, r, t = (int(head(self.norm(x)).argmax()) for head in self.heads)
        return [a / 20.0 - 1.0, e / 20.0 - 1.0, r / 20.0 - 1.0, t / 58.0 + 0.4]


class Jet:
    """One F-16 of JSBSim. World axes are north, east and down, in m, about 0 N 0 E."""

    def __init__(self, plane: Any) -> None:
        """Start where a plane of a snapshot is, in level flight."""
        import jsbsim

        self.sim = jsbsim.FGFDMExec(str(Path(jsbsim.__file__).parent))
        self.sim.set_debug_level(0)
        self.sim.load_model("f16")
        self.sim.set_dt(rules.DT)
        (north, east, down), (vn, ve, _) = plane["pos"].tolist(), plane["vel"].tolist()
        start = {"lat-geod-deg": math.degrees(north / MERIDIAN), "long-gc-deg": math.degrees(east / EQUATOR)}
        start |= {"h-sl-ft": -down / FT, "psi-true-deg": math.degrees(math.atan2(ve, vn)) % 360.0}
        for name, value in (start | {"u-fps": math.hypot(vn, ve) / FT}).items():
            self.sim[f"ic/{name}"] = value
        self.sim.run_ic()
        self.sim["propulsion/set-running"] = -1
        self.hp, self.power, self.trigger, self.integral = 1.0, 50.0, True, 0.0
        self.command = (1.0, 0.0, 0.0)
        self.read()

    def read(self) -> None:
        """Copy the state out of JSBSim."""
        sim = self.sim
        north, east = MERIDIAN * sim["position/lat-geod-rad"], EQUATOR * sim["position/long-gc-rad"]
        self.pos = np.array([north, east, -sim["position/h-sl-meters"]])
        self.vel = np.array([sim[f"velocities/v-{axis}-fps"] for axis in ("north", "east", "down")]) * FT
        self.angles = [sim[f"attitude/{angle}-rad"] for angle in ("phi", "theta", "psi")]
        self.axes = axes_of(*self.angles)
        self.rates = np.array([sim[f"velocities/{rate}-rad_sec"] for rate in "pqr"])
        self.alpha = sim["aero/alpha-rad"]
        self.load = -sim["accelerations/a-pilot-z-ft_sec2"] / FPS2_PER_G

    def set_stick(self, values: list[float]) -> None:
        """Set aileron, elevator, rudder and throttle."""
        for name, value in zip(("aileron", "elevator", "rudder", "throttle"), values, strict=True):
            self.sim[f"fcs/{name}-cmd-norm"] = value

    def follow(self) -> None:
        """Move the stick towards the command: load factor in g, roll rate in rad/s, throttle."""
        load, roll, throttle = self.command
        error = (load - self.load) / 8.0
        self.integral = min(max(self.integral + I_GAIN * error * rules.DT, -0.6), 1.0)
        pull = P_GAIN * error + FORWARD * (load - 1.0) / 8.0 + self.integral
        aileron = min(max(roll * math.cos(self.alpha) / ROLL_FULL, -1.0), 1.0)
        self.set_stick([aileron, -min(max(pull, -1.0), 1.0), 0.0, DRY * min(throttle / MILITARY, 1.0)])


def axes_of(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Return nose, right wing and belly as columns."""
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    return np.array(
        [
            [cp * cy, sr * sp * cy - cr * sy, cr * sp * cy + sr * sy],
            [cp * sy, sr * sp * sy + cr * cy, cr * sp * sy - sr * cy],
            [-sp, sr * cp, cr * cp],
        ]
    )


def agent_sees(agent: str, me: Jet, it: Jet) -> list[float]:
    """Return the 12 numbers of LAG's network: wanted changes in km, rad and Mach 1 of 340 m/s, and the own state."""
    own, other = me.axes.T @ me.vel, it.axes.T @ it.vel
    gap, flat = it.pos - me.pos, me.vel[:2]
    side = math.atan2(flat[0] * gap[1] - flat[1] * gap[0], float(flat @ gap[:2]))
    height = -me.pos[2]
    wanted = [-gap[2] / 1000.0, side, (other[0] - own[0]) / 340.0]
    if agent == "level":
        wanted = [(6096.0 - height) / 1000.0, 0.0, (243.0 - own[0]) / 340.0]
    turns = [turn(angle) for angle in me.angles[:2] for turn in (math.sin, math.cos)]
    return [*wanted, height / 5000.0, *turns, *(own / 340.0), me.sim["velocities/vc-fps"] * FT / 340.0]


class Pilot:
    """The policy, with a batch of one match that observes for it."""

    def __init__(self, name: str) -> None:
        self.policy, self.game, self.ticks = None, AirCombatBatch(1, threads=1), 6
        if name != HANDS_OFF:
            self.policy = sparring.load(name).policy
            self.ticks = self.policy.contract["action_repeat"]
            options = rules.CombatOptions.of_contract(self.policy.contract)
            self.game = AirCombatBatch(1, action_repeat=self.ticks, threads=1, options=options)

    def decide(self, me: Jet, it: Jet, tick: int) -> None:
        """Set the jet's command and trigger; hands off is 1 g at three quarters of the throttle without a shot."""
        me.command, me.trigger = (1.0, 0.0, 0.58), False
        if self.policy is None:
            return
        state = self.game.snapshot()
        for jet, plane in zip((me, it), state["planes"][0], strict=True):
            speed = max(float(np.linalg.norm(jet.vel)), 1.0)
            plane["pos"], plane["vel"], plane["nose"], plane["up"] = jet.pos, jet.vel, jet.axes[:, 0], -jet.axes[:, 2]
            plane["load"], plane["alpha"], plane["hp"], plane["power"] = jet.load, jet.alpha, jet.hp, jet.power
            plane["roll_rate"] = jet.rates @ (jet.axes.T @ jet.vel) / speed
        state["clock"]["tick"] = tick
        self.game.load({name: state[name] for name in ("planes", "clock")})
        pull, roll, throttle, trigger = self.policy.act(self.game.obs[:, 0])[0].clamp(-1.0, 1.0).tolist()
        span = rules.LOAD_MOST - 1.0 if pull > 0.0 else 1.0 - rules.LOAD_LEAST
        me.command, me.trigger = (1.0 + pull * span, roll * rules.ROLL_MOST, 0.5 * (throttle + 1.0)), trigger > 0.0
        me.power = min(64.94 * me.command[2], 50.0)  # as the F-16's throttle gears it, up to military power


def damage(me: Jet, it: Jet) -> float:
    """Return what a tick of the cone takes of `it`."""
    gap = it.pos - me.pos
    distance = float(np.linalg.norm(gap))
    inside = rules.CONE_NEAR <= distance <= rules.CONE_FAR and me.axes[:, 0] @ gap >= rules.CONE_COS * distance
    far = (distance - rules.CONE_NEAR) / (rules.CONE_FAR - rules.CONE_NEAR)
    return rules.CONE_RATE * rules.DT * (1.0 - 0.75 * far) if inside and me.trigger else 0.0


def fought(pilot: Pilot, agent: str, actor: LagActor, planes: Any) -> float:
    """Print a game and return the hp of the policy, which flies the first of two planes, less the agent's."""
    me, it = Jet(planes[0]), Jet(planes[1])
    tick, nearest = 0, math.inf
    while tick < rules.MAX_TICKS and min(me.hp, it.hp) > 0.0:
        if tick % pilot.ticks == 0:
            pilot.decide(me, it, tick)
        if tick % AGENT_TICKS == 0:
            it.set_stick(actor(agent_sees(agent, it, me)))
        me.follow()
        for jet in (me, it):
            jet.sim.run()
            jet.read()
        taken = damage(it, me), damage(me, it)
        for jet, loss in zip((me, it), taken, strict=True):
            jet.hp = max(jet.hp - loss, 0.0) if jet.pos[2] < 0.0 else 0.0
        tick, nearest = tick + 1, min(nearest, float(np.linalg.norm(me.pos - it.pos)))
    told = f"{tick / 60:.1f} s, hp {me.hp:.2f} and {it.hp:.2f}, nearest {nearest:.0f} m, ends {-me.pos[2]:.0f} m high"
    print(told, flush=True)
    return round(me.hp - it.hp, 4)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lag", type=Path, help="LAG's envs/JSBSim/model/baseline_model.pt")
    parser.add_argument("policy", help=f"a policy with continuous actions, or {HANDS_OFF}")
    parser.add_argument("--agent", default="pursue", choices=AGENTS)
    parser.add_argument("--games", type=int, default=40, help="starts of the game's own; the policy's seat alternates")
    args = parser.parse_args()
    if not args.lag.is_file():
        parser.error(f"{args.lag}: is not a file; give LAG's baseline_model.pt")
    if find_spec("jsbsim") is None:
        parser.error("JSBSim is not installed; run `pip install jsbsim`")
    torch.set_num_threads(1)
    pilot, starts = Pilot(args.policy), AirCombatBatch(args.games, threads=1, seed=SEED).snapshot()["planes"]
    seats = [planes[:: 1 - 2 * (game % 2)] for game, planes in enumerate(starts)]
    margins = [fought(pilot, args.agent, LagActor(args.lag), planes) for planes in seats]
    won, lost = sum(margin > 0 for margin in margins), sum(margin < 0 for margin in margins)
    drawn = len(margins) - won - lost
    print(f"{args.policy} against {args.agent}: {won}/{drawn}/{lost}")


if __name__ == "__main__":
    sys.exit(run_script(main))
