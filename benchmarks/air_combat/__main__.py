"""Air combat: ticks per second and core beside JSBSim's F-16, the pilots against each other, and a match as a file.

A full step is measured: pilots of the ladder in both seats, observations, rewards and resets. Time is processor time of
the measuring thread, the best of the rounds. A match tick is 1/60 s of two aircraft. JSBSim (`pip install jsbsim`)
flies one F-16 with its own flight control at 1/120 s; without the package its row is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.recording import AirRecorder
from sparring.envs.air_combat.tacview import acmi_text

ROUNDS = 5
SEED = 1
FIGHTING = ("chaser", "dogfighter", "ace", "brawler")


def main() -> None:
    args = parse()
    parts = [heading("Air combat", ("numpy", "torch", "warp-lang"))]
    if args.acmi:
        args.acmi.write_text(flight("dogfighter", "ace", "f16"), encoding="utf-8")
    if not args.only_payoff:
        parts.append(speed(args.matches))
    parts += [payoff(model, args.games) for model in rules.MODELS]
    publish("\n".join(parts), args.out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--matches", type=int, default=4096, help="batch size of the measurement")
    parser.add_argument("--games", type=int, default=20, help="matches per pair of pilots, even")
    parser.add_argument("--only-payoff", action="store_true", help="leave out the measurement of speed")
    parser.add_argument("--acmi", type=Path, help="Tacview file to write, of a match of dogfighter and ace")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_args()


def speed(matches: int) -> str:
    """Return match ticks and aircraft ticks per second of processor time, in millions."""
    rows = []
    for model in rules.MODELS:
        game = AirCombatBatch(matches, model=model, threads=1, seed=SEED)
        ids = [rules.bot_id(name) for name in FIGHTING]
        game.assign(torch.from_numpy(np.random.default_rng(SEED).choice(ids, (matches, 2))))
        steps = max(1, 160_000 // matches)
        ticks = best_rate(partial(game.step, game.actions), steps) * matches * rules.ACTION_REPEAT / 1e6
        rows.append([f"{model}, {matches:,} matches", f"{ticks:.2f}", f"{2 * ticks:.2f}"])
    if find_spec("jsbsim"):
        rate = best_rate(jsbsim_f16().run, 20_000) / 1e6
        rows.append(["JSBSim's F-16, one aircraft", "", f"{rate:.3f}"])
    return table(["simulator", "M match ticks/s", "M aircraft ticks/s"], rows)


def best_rate(call: Callable[[], object], times: int) -> float:
    """Return calls per second of this thread's processor time, the best of the rounds."""
    call()
    rates = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(times):
            call()
        rates.append(times / (time.thread_time() - start))
    return max(rates)


def jsbsim_f16() -> Any:
    """Return JSBSim's F-16 in level flight at 502 ft/s and 10,000 ft with its engine running."""
    import jsbsim

    aircraft = jsbsim.FGFDMExec(str(Path(jsbsim.__file__).parent))
    aircraft.set_debug_level(0)
    aircraft.load_model("f16")
    for name, value in {"ic/h-sl-ft": 10_000, "ic/vt-fps": 502, "ic/psi-true-deg": 0}.items():
        aircraft[name] = value
    aircraft.run_ic()
    aircraft["propulsion/set-running"] = -1
    aircraft["fcs/throttle-cmd-norm"] = 0.6
    return aircraft


def payoff(model: str, games: int) -> str:
    """Return wins less losses per match of every pilot (row) against every other with 95 %, and the share decided."""
    names = tuple(rules.BOTS)
    pairs = np.array([(row, column) for row in range(len(names)) for column in range(len(names))])
    seats = np.repeat(pairs, games, axis=0)
    swapped = np.arange(len(seats)) % 2 == 1
    seats[swapped] = seats[swapped, ::-1]
    batch = AirCombatBatch(len(seats), model=model, threads=1, seed=SEED)
    batch.match_id.copy_(torch.from_numpy(np.arange(len(seats)) % games // 2))  # both seats of the same start
    batch.reset(SEED)
    batch.assign(torch.from_numpy(seats), torch.ones(len(seats), dtype=torch.bool))
    results = np.full(len(seats), -1)
    while (results < 0).any():
        batch.step(batch.actions)
        outcome = batch.outcome.numpy()
        results = np.where((results < 0) & (outcome >= 0), outcome, results)
    won = np.where(results == 0, 0, np.where(results - 1 == swapped, 1, -1)).reshape(len(names), len(names), games)
    decided = (results.reshape(won.shape) > 0).mean(axis=(1, 2))
    # Both seats of a start are one observation.
    starts = won.reshape(len(names), len(names), games // 2, 2).mean(axis=-1)
    half = 1.96 * starts.std(axis=-1, ddof=1) / np.sqrt(games // 2)
    rows = [
        [
            name,
            *(f"{value:+.2f} ± {h:.2f}" for value, h in zip(won[row].mean(axis=1), half[row], strict=True)),
            f"{decided[row]:.0%}",
        ]
        for row, name in enumerate(names)
    ]
    return table([model, *names, "decided"], rows)


def flight(first: str, second: str, model: str) -> str:
    """Return a match of two pilots as the text of a Tacview file."""
    batch = AirCombatBatch(1, model=model, threads=1, seed=SEED)
    batch.assign(torch.tensor([[rules.bot_id(first), rules.bot_id(second)]]))
    recorder = AirRecorder(batch)
    while not recorder.done:
        batch.step(batch.actions)
        recorder(batch)
    batch.close()
    return acmi_text(recorder.recordings((first, second))[0])


if __name__ == "__main__":
    sys.exit(run_script(main))
