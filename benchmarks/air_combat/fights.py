"""Six recorded fights near the ground and above it, and what they show.

python -m benchmarks.air_combat.fights --out docs/air_fights.html; --all prints the facts of every match to choose from
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.agents.policies.policy import Policy
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.evaluation.replay import write_air_replay
from sparring.envs.air_combat.recording import AirRecorder, AirRecording
from sparring.envs.air_combat.rules import CombatOptions
from sparring.envs.air_combat.training.opponents import open_player

SEED, GAMES = 1, 6
THINNED = 2
"""Every so many-th sample goes into the page, 5 to 7.5 a second, so that six fights fit into a megabyte."""


@dataclass(frozen=True)
class Fight:
    """A match of two players: the row of a batch of `GAMES` from `SEED`, and what it shows."""

    first: str
    second: str
    model: str
    row: int
    low_start: float = 1.0
    said: str = ""
    gun: str = "cone"
    options: CombatOptions = rules.PLAIN


LOW, F16 = "released/air_combat_low", "released/air_combat_f16_low"
FIGHTS = (
    Fight(
        F16,
        "deck",
        "f16",
        3,
        said="Flies: it descends from 431 m to 95 m with its nose on the other, and stays between 95 and 280 m. "
        "Then it climbs 180 m, turns at 8.4 g to 25 degrees of alpha, and has its nose on again at 146 m/s.\n"
        "Fights: the first burst, from 900 m, takes 55 % of the life; then it passes at 420 m. Before the second it "
        "holds its nose within 3 degrees for ten seconds and gains 70 m/s. The other never points at it.",
    ),
    Fight(
        F16,
        "scissors",
        "f16",
        1,
        said="Flies: a start at 67 m. It climbs to 664 m in a turn, dives, passes at 243 m and pulls out with 8.7 g at "
        "192 m/s. The lowest point is 80 m, 20 m below the limit. At 41 s it turns 134 m above the ground with 112 m/s "
        "at the limit of alpha. A pilot would not be that slow there.\n"
        "Fights: three dives with 61, 25 and 14 % of damage. The other at 230 m/s never gets its nose within 35 "
        "degrees.",
    ),
    Fight(
        F16,
        "runner",
        "f16",
        0,
        said="Flies: down from 1,326 m at 123 m/s of sink, and out of the dive with 9 g at 105 m. Then it follows at "
        "100 to 107 m, but not level: it pushes to -0.7 g, the limit pulls with 2 to 3.4 g, every 17 seconds.\n"
        "Fights: it cannot. It starts with its tail to the runner, which is at 372 m/s and 7.9 km away when its nose "
        "is on. Both then fly 380 m/s, the most that this aircraft has at this height.",
    ),
    Fight(
        F16,
        "climber",
        "f16",
        0,
        said="Flies: it gives 1,200 m away in the first ten seconds, to 114 m, before it turns to the climbing "
        "opponent. From 105 s on it hangs at 25 degrees of alpha, 46 m/s and half a g four kilometres up: still under "
        "control in this model, which lacks spin and buffet.\n"
        "Fights: head on in every pass, at 27 to 178 m. The pass at 80 s costs both about 40 %. At the time limit it "
        "has 53 % of its life left, the climber 24.",
    ),
    Fight(
        LOW,
        "spiral",
        "point_mass",
        4,
        said="Flies: at 143 to 165 m and up to 326 m/s behind a turn at 150 m, steady within 20 m of height. The "
        "overshoot is at 9 g and 300 m/s, up to 368 m and down again to 102 m.\n"
        "Fights: 99 % of the life in one burst, at 130 m/s too much, and then 18 seconds and passes at 232, 154 "
        "and 47 m for the last percent. It begins to throttle back 1,700 m behind, which is too late.",
    ),
    Fight(
        "ace",
        "evader",
        "f16",
        3,
        low_start=0.0,
        said="Flies: two scripted pilots, with missiles. They spiral from 5,900 down to 960 m, in the last 50 seconds "
        "mostly at 25 degrees of alpha and 120 to 150 m/s.\n"
        "Fights: one missile turns to a flare, the other misses. The gun has to do it, in passes "
        "at 229, 169, 232, 228 and 198 m. The ace cannot stay behind: the evader breaks across its nose each time.",
        gun="rounds",
        options=CombatOptions(missiles=2, flares=12),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="page to write")
    parser.add_argument("--all", action="store_true", help="the facts of all matches that a fight was chosen from")
    args = parser.parse_args()
    recorded = [(fight, played(fight)) for fight in FIGHTS]
    chosen = [matches[fight.row] for fight, matches in recorded]
    if args.out:
        write_air_replay(args.out, chosen, title="Six fights", step=THINNED)
    shown = [match for _, matches in recorded for match in matches] if args.all else chosen
    head = ["fight", "result", "load, g", "speed, m/s", "least height, m", "alpha, deg", "nose on, s", "behind, s"]
    head += ["below 150 m, s", "passes, m"]
    publish(heading("Six fights", ("numpy", "warp-lang")) + "\n" + table(head, [facts(one) for one in shown]), None)


def played(fight: Fight) -> list[AirRecording]:
    """Return the recordings of a fight's matches."""
    pilots = [open_player(name) for name in (fight.first, fight.second)]
    policies = {seat: one.contestant for seat, one in enumerate(pilots) if isinstance(one.contestant, Policy)}
    contract = next((one.contract for one in policies.values()), {"action_repeat": rules.ACTION_REPEAT})
    options = CombatOptions.of_contract(contract) if policies else fight.options
    how: dict[str, Any] = {"model": fight.model, "gun": fight.gun, "options": options, "low_start": fight.low_start}
    batch = AirCombatBatch(
        GAMES, action_repeat=contract["action_repeat"], threads=1, seed=SEED, ground_limit=100.0, **how
    )
    bots = [rules.ACTIONS if seat in policies else rules.bot_id(one.name) for seat, one in enumerate(pilots)]
    batch.assign(torch.tensor([bots] * GAMES))
    recorder = AirRecorder(batch, GAMES)
    while not recorder.done:
        for seat, policy in policies.items():
            batch.actions[:, seat] = policy.act(batch.obs[:, seat])
        batch.step(batch.actions)
        recorder(batch)
    batch.close()
    return recorder.recordings([one.name.removeprefix("released/") for one in pilots], notes=fight.said)


def facts(recording: AirRecording) -> list[str]:
    """Return a row of the table; two figures are of the first and the second aircraft."""
    planes = recording.planes
    place, vel, nose = (planes[name].astype(np.float64) for name in ("pos", "vel", "nose"))
    line = place[:, 1] - place[:, 0]
    distance = np.linalg.norm(line, axis=-1)
    bearing, speed = line / distance[:, None], np.linalg.norm(vel, axis=-1)
    seconds = np.diff(recording.ticks, prepend=0) / rules.TICKS_PER_SECOND
    on, behind = [], []
    for seat, sign in ((0, 1.0), (1, -1.0)):
        ahead = np.einsum("ij,ij->i", nose[:, seat], sign * bearing)
        tail = np.einsum("ij,ij->i", vel[:, 1 - seat], sign * bearing) / speed[:, 1 - seat]
        near = distance < 1500.0
        on.append(f"{seconds[near & (ahead > np.cos(np.radians(10)))].sum():.0f}")
        behind.append(f"{seconds[near & (ahead > 0.7) & (tail > 0.7)].sum():.0f}")
    turned = (distance[1:-1] < distance[:-2]) & (distance[1:-1] <= distance[2:]) & (distance[1:-1] < 400.0)
    winner = "draw" if recording.outcome == 0 else f"{recording.names[recording.outcome - 1]} wins"
    least, most = speed.min(0), speed.max(0)
    low = -place[..., 2] < 150.0
    return [
        f"{' v '.join(recording.names)}, {recording.model}",
        f"{winner}, {recording.ticks[-1] / rules.TICKS_PER_SECOND:.0f} s",
        " / ".join(f"{value:.1f}" for value in planes["load"].max(0)),
        " / ".join(f"{low:.0f} to {high:.0f}" for low, high in zip(least, most, strict=True)),
        " / ".join(f"{value:.0f}" for value in -place[..., 2].max(0)),
        " / ".join(f"{np.degrees(value):.0f}" for value in planes["alpha"].max(0)),
        " / ".join(on),
        " / ".join(behind),
        " / ".join(f"{seconds[low[:, seat]].sum():.0f}" for seat in range(low.shape[1])),
        ", ".join(f"{value:.0f}" for value in distance[1:-1][turned]) or "none",
    ]


if __name__ == "__main__":
    sys.exit(run_script(main))
