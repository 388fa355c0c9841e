"""Six recorded fights of scripted pilots, the last with missiles, for a page with what a pilot would say of each.

python -m benchmarks.air_combat.fights --out docs/air_fights.html
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.recording import AirRecorder, AirRecording
from sparring.envs.air_combat.rules import PLAIN, CombatOptions
from sparring.eval.air_combat.replay import write_air_replay

SEED, GAMES = 1, 6
THINNED = 2
"""Every so many-th sample goes into the page, 7.5 a second, so that six fights fit into a megabyte."""


@dataclass(frozen=True)
class Fight:
    """A match of two pilots: the row of a batch of `GAMES` from `SEED`, and what a pilot would say."""

    first: str
    second: str
    model: str
    row: int
    said: str = ""
    options: CombatOptions = PLAIN


FIGHTS = (
    Fight(
        "ace",
        "dogfighter",
        "f16",
        5,
        "Flies: the entry at 8 g and the way the speed bleeds away are an F-16's, but nothing here ever unloads "
        "to get it back: below 80 m/s at 29 degrees of alpha both mush downhill, and four kilometres of height "
        "are gone.\n"
        "Fights: turning at each other and jousting nose to nose, with passes of 13 to 77 m. I would keep 150 m "
        "and use the pass to win an angle; neither of these plans a turn ahead, and one second in 105 is spent "
        "behind the other.",
    ),
    Fight(
        "dogfighter",
        "chaser",
        "f16",
        1,
        "Flies: yes. A hard turn, 8.5 g at the start and less as the speed goes.\n"
        "Fights: the pass at 10 m is luck, not a merge. After it the lead pursuit comes round a little earlier "
        "than the pure pursuit and shoots first. That part is right, and short.",
    ),
    Fight(
        "ace",
        "brawler",
        "point_mass",
        3,
        "Flies: smooth and light. Rolls start and stop at once; the point mass has no inertia to feel.\n"
        "Fights: both hold the trigger in a head-on pass and lose nine tenths of their life each, as they must "
        "when the gun is a cone that both are in. What decides is the next pass, by a fraction of a second.",
    ),
    Fight(
        "ace",
        "evader",
        "f16",
        4,
        "Flies: the breaks are honest, and they are paid for: the evader is down to 106 m/s. Its alpha of 33 "
        "degrees is not honest: a limiter at 25 would not let it go there.\n"
        "Fights: the best of the five. One stays behind the other for 36 seconds, overshoots, comes back, and "
        "fires when it is in range. But the evader never threatens, and it dives to 1,000 m where it has nothing "
        "left.",
    ),
    Fight(
        "chaser",
        "turning",
        "f16",
        5,
        "Flies: the target's turn at 3 g is clean. The chaser hangs behind it at 114 m/s and 26 degrees of alpha.\n"
        "Fights: pure pursuit of a turn ends in lag, with the nose on the target and the rounds behind it: 28 "
        "seconds with the nose within 10 degrees, 265 rounds, one kill. Pull lead.",
    ),
    Fight(
        "ace",
        "evader",
        "f16",
        4,
        "Flies: as before. The evader goes to idle under each missile, which hides its engine and costs its speed: "
        "97 m/s at 16 seconds.\n"
        "Fights: both missiles are launched from 3.5 and 3.1 km behind, and both turn to a flare within a "
        "tenth of a second of its drop. I would have kept the second until the other is out of flares. The gun has to "
        "do it, and does.",
        CombatOptions(missiles=2, flares=12),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="page to write")
    args = parser.parse_args()
    recorded = [played(fight) for fight in FIGHTS]
    if args.out:
        write_air_replay(args.out, recorded, title="Six fights", every=THINNED)
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
    batch = AirCombatBatch(GAMES, model=fight.model, threads=1, seed=SEED, options=fight.options)
    batch.assign(torch.tensor([[rules.bot_id(fight.first), rules.bot_id(fight.second)]] * GAMES))
    recorder = AirRecorder(batch, GAMES)
    while not recorder.done:
        batch.step(batch.actions)
        recorder(batch)
    batch.close()
    return recorder.recordings((fight.first, fight.second), notes=fight.said)[fight.row]


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
