"""Speed of the dogfight simulator against the plain NumPy implementation, in one run.

A full step is measured: both seats' observations and rewards, resets, and a scripted opponent that decides every tick
in seat 1; seat 0 is played by actions. The two implementations take turns on one core, so other load affects both;
medians over the rounds count. Ticks are match ticks of 1/120 s, `action_repeat` to a step. The simulator is then
measured with more threads. The Gymnasium interfaces are compared with the native batch on one core, by processor time,
and the buffers are added up. Compare ratios rather than absolute figures, which depend more on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import gymnasium
import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.numpy_dogfight.peer import NumpyDogfight
from benchmarks.report import heading, publish, table
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch

ROUNDS = 5
SEED = 1
SCALING_BOT = "brawler"


def main() -> None:
    args = parse()
    parts = [heading("Dogfight: ticks per second", ("numpy", "torch", "warp-lang"))]
    parts.append(against_numpy(args.matches, args.seconds, args.device))
    if args.device == "cpu":
        parts.append(over_threads(args.matches, args.threads, args.seconds))
        parts.append(interfaces(args.matches, args.seconds))
    parts.append(memory(args.matches))
    publish("\n".join(parts), args.out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--matches", type=int, nargs="+", default=[256, 4096], help="batch sizes")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts to compare")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured time per figure")
    parser.add_argument("--device", default="cpu", help="where the simulator runs; the NumPy peer stays on the CPU")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_args()


def against_numpy(sizes: list[int], seconds: float, device: str) -> str:
    """Return one row per batch size and bot: both implementations on one core, alternating."""
    rows = []
    for matches in sizes:
        for bot in rules.BOTS:
            simulator = simulator_step(matches, bot, threads=1, device=device)
            peer = numpy_step(matches, bot)
            ours, theirs = alternating([simulator, peer], ticks=matches * rules.ACTION_REPEAT, seconds=seconds)
            rows.append([f"{matches:,} x {bot}", millions(ours), millions(theirs), f"{ours / theirs:,.0f}"])
    where = "one core" if device == "cpu" else device
    head = ["matches x bot", f"simulator, {where}: M ticks/s", "NumPy, one core: M ticks/s", "ratio"]
    return table(head, rows)


def over_threads(sizes: list[int], threads: list[int], seconds: float) -> str:
    """Return one row per batch size: the simulator with every thread count, alternating."""
    rows = []
    for matches in sizes:
        steps = [simulator_step(matches, SCALING_BOT, threads=count, device="cpu") for count in threads]
        speeds = alternating(steps, ticks=matches * rules.ACTION_REPEAT, seconds=seconds)
        cells = [f"{millions(speed)} ({speed / speeds[0]:.2f}x)" for speed in speeds]
        rows.append([f"{matches:,} x {SCALING_BOT}", *cells])
    return table(["matches x bot", *(f"{count} threads: M ticks/s" for count in threads)], rows)


def interfaces(sizes: list[int], seconds: float) -> str:
    """Return one row per batch size: `VectorEnv` against the native batch; then single environments."""
    rows = []
    for matches in [*sizes, 1]:
        native = simulator_step(matches, SCALING_BOT, threads=1, device="cpu")
        ours = vector_step(matches, SCALING_BOT) if matches > 1 else single_step(SCALING_BOT)
        batch, env = alternating([native, ours], ticks=matches, seconds=seconds, clock=time.process_time)
        name = f"VectorEnv, {matches:,} matches" if matches > 1 else "gymnasium.make, one match"
        rows.append([name, f"{batch:,.0f}", f"{env:,.0f}", f"{batch / env - 1:.0%}"])
    return table(["interface", "native batch: steps/s", "interface: steps/s", "overhead"], rows)


def memory(sizes: list[int]) -> str:
    """Return one row per batch size: bytes per match of all allocations, and of the state alone."""
    rows = []
    for matches in sizes:
        batch = DogfightBatch(matches, seed=SEED)
        state = sum(array.nbytes for array in batch.snapshot().values())
        rows.append([f"{matches:,}", f"{batch.nbytes / matches:,.0f}", f"{state / matches:,.0f}"])
        batch.close()
    return table(["matches", "bytes per match", "of these state"], rows)


def simulator_step(matches: int, bot: str, *, threads: int, device: str) -> Callable[[], None]:
    """Return a function that plays one step of a running batch and waits for its end."""
    batch = DogfightBatch(matches, threads=threads, device=device, seed=SEED)
    batch.assign(np.array([[rules.ACTIONS, rules.bot_id(bot)]]), torch.ones(matches, dtype=torch.bool))
    actions = torch.as_tensor(steady_actions(matches), device=device)

    def step() -> None:
        batch.step(actions)
        if device != "cpu":
            torch.cuda.synchronize(device)

    return step


def vector_step(matches: int, bot: str) -> Callable[[], object]:
    """Return a function that plays one step of a vector environment, the learner in seat 0."""
    env = gymnasium.make_vec(rules.ENV_ID, num_envs=matches, opponent=bot, seat=0, threads=1)
    env.reset(seed=SEED)
    actions = steady_actions(matches)[:, 0]
    return lambda: env.step(actions)


def single_step(bot: str) -> Callable[[], None]:
    """Return a function that plays one step of `gymnasium.make`'s environment, with its wrappers and resets."""
    env = gymnasium.make(rules.ENV_ID, opponent=bot)
    env.reset(seed=SEED)
    action = steady_actions(1)[0, 0]

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    return step


def numpy_step(matches: int, bot: str) -> Callable[[], None]:
    """Return the same function for the NumPy peer."""
    peer = NumpyDogfight(matches, seed=SEED)
    peer.bots[:, 1] = rules.bot_id(bot)
    actions = steady_actions(matches)

    def step() -> None:
        peer.step(actions)

    return step


def steady_actions(matches: int) -> np.ndarray:
    """Return a constant action of each match, a gentle turn at cruising throttle: float32 [N, 2, 3]."""
    actions = np.ones((matches, 2, 3), np.float32)
    actions[:, :, 0] = np.linspace(-0.3, 0.3, matches)[:, None]
    actions[:, :, 1] = 0.7
    return actions


def alternating(
    steps: Sequence[Callable[[], object]], *, ticks: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the median ticks per second of each function; every round gives each its share of `seconds`."""
    for step in steps:
        step()
    speeds: list[list[float]] = [[] for _ in steps]
    for _ in range(ROUNDS):
        for step, results in zip(steps, speeds, strict=True):
            results.append(ticks * rate(step, seconds / ROUNDS, clock))
    return [statistics.median(results) for results in speeds]


def rate(step: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the calls per second of `clock`, over at least `seconds` and one call."""
    count, start = 0, clock()
    while (elapsed := clock() - start) < seconds or count == 0:
        step()
        count += 1
    return count / elapsed


def millions(speed: float) -> str:
    return f"{speed / 1e6:,.2f}"


if __name__ == "__main__":
    sys.exit(run_script(main))
