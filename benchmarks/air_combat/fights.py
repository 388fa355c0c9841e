"""Six recorded fights, five of released policies and one of pilots with missiles, and what a pilot would say of each.

python -m benchmarks.air_combat.fights --out docs/air_fights.html
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
from sparring.envs.air_combat.rules import PLAIN, CombatOptions
from sparring.envs.air_combat.training.opponents import open_player

SEED, GAMES = 1, 6
THINNED = 2
"""Every so many-th sample goes into the page, 5 to 7.5 a second, so that six fights fit into a megabyte."""


@dataclass(frozen=True)
class Fight:
    """A match of two players: the row of a batch of `GAMES` from `SEED`, and what a pilot would say."""

    first: str
    second: str
    model: str
    row: int
    said: str = ""
    gun: str = "cone"
    options: CombatOptions = PLAIN


F16, QUICKSTART = "released/air_combat_f16", "released/air_combat_quickstart"
FIGHTS = (
    Fight(
        F16,
        "ace",
        "f16",
        1,
        "Flies: it saves its speed. The ace pulls 8.5 g to 25 degrees of alpha and leaves the first turn at 153 m/s; "
        "the policy asks for 6 g and has 202.\n"
        "Fights: the ace's nose is on three seconds earlier, two kilometres away, where a gun does nothing. In the "
        "pass at 22 m the policy holds the cross still: the ace loses 57 % of its life, the policy 1. Then it turns "
        "nose low through a kilometre of height, 24 degrees a second, comes round a second before the ace, and that "
        "is the fight. Won by angle and speed, never from behind.",
    ),
    Fight(
        F16,
        QUICKSTART,
        "f16",
        1,
        "Flies: both bleed from 225 to 130 m/s and give 1,600 m of height away, at 25 degrees of alpha for most of the "
        "turns, the one from the point mass at up to 30.\n"
        "Fights: three times nose to nose, at 26 m, at 12 m, and the last not to its end. Each has its nose near the "
        "other for 8 and 7 seconds. The difference is the hand: in the second pass the policy that learned this "
        "aircraft asks for 1.4 g with the cross on the aim, the other pulls 4.7 g across it, and loses 65 % of its "
        "life there against 8.",
    ),
    Fight(
        F16,
        "evader",
        "f16",
        3,
        "Flies: a real chase. It dives a kilometre to catch the evader, 354 m/s against 240, pulls up under it, closes "
        "the throttle in front of the break and takes 9 g at 300 m/s.\n"
        "Fights: twice it arrives with 90 to 100 m/s too much, the evader breaks across its nose at 8 and 6 g, and it "
        "slides past at 338 and 193 m. Then it is slow enough, but at 150 m/s the break still goes across faster than "
        "its nose can follow. A few hits in each pass, 27, 14, 36 and 9 %, and the last ones from 740 m. I would have "
        "throttled back three seconds earlier and stayed behind: 13 of 88 seconds are spent there.",
    ),
    Fight(
        F16,
        "evader",
        "f16",
        0,
        "Flies: fast, to no purpose. It dives from 7,000 to 2,000 m, reaches 418 m/s and stays there.\n"
        "Fights: it does not; 28 % of its games against this pilot are drawn. The evader leaves at military power, "
        "level, at no more than 317 m/s. With its nose on it the policy would be there in about a minute. Instead it "
        "flies a wide curve at 2 g, the nose 50 to 65 degrees off, for 100 seconds, and the distance grows to 10.6 km. "
        "None of the six pilots it trained with runs away at this speed.",
    ),
    Fight(
        QUICKSTART,
        "ace",
        "point_mass",
        4,
        "Flies: light and exact; the point mass rolls as fast as one thinks.\n"
        "Fights: a joust. From 2.7 km on both have the nose within 4 degrees of the other; the pass at 9 m leaves 16 "
        "and 15 % of two lives. That is a coin, not a plan, and no pilot would do it. What it does better comes after: "
        "7.6 g at once where the ace needs a second to begin its turn, 8 degrees ahead when they face each other "
        "again, and the first hits from 730 m.",
    ),
    Fight(
        "ace",
        "evader",
        "f16",
        4,
        "Flies: two scripted pilots, with missiles. The evader goes to idle under each missile, which hides its engine "
        "and costs its speed: 97 m/s at 16 seconds.\n"
        "Fights: both missiles are launched from 3.5 and 3.1 km behind, and both turn to a flare within a "
        "tenth of a second of its drop. I would have kept the second until the other is out of flares. The gun has to "
        "do it, and does.",
        "rounds",
        CombatOptions(missiles=2, flares=12),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="page to write")
    args = parser.parse_args()
    recorded = [played(fight) for fight in FIGHTS]
    if args.out:
        write_air_replay(args.out, recorded, title="Six fights", step=THINNED)
    head = [
        "fight",
        "result",
        "load, g",
        "speed, m/s",
        "height, m",
        "alpha, deg",
        "nose on, s",
        "behind, s",
        "passes, m",
    ]
    publish(heading("Six fights", ("numpy", "warp-lang")) + "\n" + table(head, [facts(one) for one in recorded]), None)


def played(fight: Fight) -> AirRecording:
    """Return the recording of a fight."""
    pilots = [open_player(name) for name in (fight.first, fight.second)]
    policies = {seat: one.contestant for seat, one in enumerate(pilots) if isinstance(one.contestant, Policy)}
    repeat = next((one.contract["action_repeat"] for one in policies.values()), rules.ACTION_REPEAT)
    how: dict[str, Any] = {"model": fight.model, "gun": fight.gun, "options": fight.options}
    batch = AirCombatBatch(GAMES, action_repeat=repeat, threads=1, seed=SEED, **how)
    bots = [rules.ACTIONS if seat in policies else rules.bot_id(one.name) for seat, one in enumerate(pilots)]
    batch.assign(torch.tensor([bots] * GAMES))
    recorder = AirRecorder(batch, GAMES)
    while not recorder.done:
        for seat, policy in policies.items():
            batch.actions[:, seat] = policy.act(batch.obs[:, seat])
        batch.step(batch.actions)
        recorder(batch)
    batch.close()
    names = [one.name.removeprefix("released/") for one in pilots]
    return recorder.recordings(names, notes=fight.said)[fight.row]


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
    return [
        f"{' v '.join(recording.names)}, {recording.model}",
        f"{winner}, {recording.ticks[-1] / rules.TICKS_PER_SECOND:.0f} s",
        " / ".join(f"{value:.1f}" for value in planes["load"].max(0)),
        " / ".join(f"{low:.0f} to {high:.0f}" for low, high in zip(least, most, strict=True)),
        " / ".join(f"{value:.0f}" for value in -place[..., 2].max(0)),
        " / ".join(f"{np.degrees(value):.0f}" for value in planes["alpha"].max(0)),
        " / ".join(on),
        " / ".join(behind),
        ", ".join(f"{value:.0f}" for value in distance[1:-1][turned]) or "none",
    ]


if __name__ == "__main__":
    sys.exit(run_script(main))
