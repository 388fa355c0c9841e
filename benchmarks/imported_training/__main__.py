"""Speed of training on games of other packages: moves of the game per second, ours and Stable-Baselines3's.

    python -m benchmarks.imported_training --rounds 5
    python -m benchmarks.imported_training --games leduc_poker --threads 1

Whole updates count, rollout and learning, from one update to the next, after a warm-up. All have the same game, matches
at once, moves of an update, epochs, minibatch size, layers and threads. Contestants run in turns, each time in their
own process; the median of the rounds counts, with lowest and highest. "Of the game" is the speed relative to the game
alone, stepped by hand with random legal actions on one core. It bounds every trainer that steps the game in its own
process.

"All seats learn" has the peer's samples, except the last decisions of a rollout, which still lack their reward. "Run
file" is what `+run=pettingzoo` or `+run=openspiel` does. In the first, some matches are against a random player and
snapshots, whose moves are not samples.

On a busy machine give `--processor-time`, which counts the processor time of a contestant's process, and one thread.

Peers need `pip install sb3-contrib supersuit`; games whose packages are missing are skipped, and the report says so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.command import run_script
from benchmarks.imported_training import peers
from benchmarks.imported_training.peers import TrainingSizes
from benchmarks.report import heading, publish, table
from sparring.configs.load import load_kind
from sparring.envs.imported.config import ImportedRunConfig

ROOT = Path(__file__).resolve().parents[2]
WARM_UP = 2
"""Number of warm-up updates, which do not count."""
ALONE_S = 2.0
"""Seconds of the game alone in each round."""
COLUMNS = ("game", "trainer", "threads", "moves/s", "lowest to highest", "ratio to peer", "of the game")
LEARN, RUN_FILE, GAME = "all seats learn", "run file", "game alone"
ALL_SEATS = ("self_play.pool_share=0", "phases.0.scripted_start=0", "phases.0.scripted_end=0")
PIP = {"sb3_contrib": "sb3-contrib", "stable_baselines3": "stable-baselines3", "pyspiel": "open_spiel"}
"""Packages whose pip name differs from their module's name."""
FOUR = ("pettingzoo", "pyspiel", "sb3_contrib")


@dataclass(frozen=True)
class TrainedGame:
    """A game, its run of ours, and the peer it is compared with."""

    id: str
    run: str
    peer: str
    make_peer: Callable[[TrainingSizes], Any]
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    seats: int = 2
    entropy: float = 0.03
    """Coefficient of the entropy in the run file, for the peer."""


GAMES = {
    "connect_four": TrainedGame(peers.CONNECT_FOUR, "pettingzoo", "MaskablePPO", peers.maskable_connect_four_mlp, FOUR),
    "connect_four_own": TrainedGame(
        peers.CONNECT_FOUR,
        "pettingzoo",
        "MaskablePPO",
        peers.maskable_connect_four_mlp,
        FOUR,
        ("env.twin=off",),
    ),
    "connect_four_convolutions": TrainedGame(
        peers.CONNECT_FOUR,
        "pettingzoo",
        "MaskablePPO",
        peers.maskable_connect_four,
        FOUR,
        ("network.encoder=small",),
    ),
    "leduc_poker": TrainedGame(
        peers.LEDUC, "openspiel", "MaskablePPO", peers.maskable_leduc, ("pyspiel", "sb3_contrib"), entropy=0.2
    ),
    "leduc_poker_lstm": TrainedGame(
        peers.LEDUC,
        "openspiel",
        "RecurrentPPO",
        peers.recurrent_leduc,
        ("pyspiel", "sb3_contrib"),
        ("network.memory=lstm",),
        entropy=0.2,
    ),
    "simple_spread": TrainedGame(
        peers.SIMPLE_SPREAD,
        "pettingzoo",
        "SuperSuit, PPO",
        peers.ppo_simple_spread,
        ("mpe2", "supersuit", "stable_baselines3"),
        seats=3,
    ),
}
CONTESTANTS = (LEARN, RUN_FILE, "peer", GAME)
Speeds = dict[str, list[float]]
"""Moves per second of every round, by contestant."""


def main() -> int:
    args = parse()
    if args.alone:
        print(json.dumps(measure_alone(GAMES[args.games[0]], args.alone, args)))
        return 0
    title = heading("Training on games of other packages", packages())
    rows: list[list[str]] = []
    skipped: list[str] = []
    for name in args.games:
        if missing := missing_packages(GAMES[name]):
            skipped.append(f"Skipped: {name} needs `pip install {' '.join(missing)}`.")
            continue
        for threads in args.threads:
            rows += game_rows(name, threads, measure(name, threads, args))
    publish("\n".join([title, table(COLUMNS, rows), *skipped]), args.out)
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES), metavar="GAME")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="CPU threads of every contestant")
    parser.add_argument("--updates", type=int, default=6, help="updates measured in each round, after the warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contestant has its turn")
    for field in fields(TrainingSizes):
        if field.name in ("matches", "steps", "minibatch", "hidden"):
            parser.add_argument(f"--{field.name}", type=int, default=field.default, help="default: %(default)s")
    parser.add_argument("--processor-time", action="store_true", help="count it instead of time; one thread only")
    parser.add_argument("--alone", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args(arguments)
    for name in ("updates", "rounds", "steps", "minibatch", "hidden"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}={getattr(args, name)}: must be at least 1")
    if args.matches < (most := max(game.seats for game in GAMES.values())):
        parser.error(f"--matches={args.matches}: must be at least {most}, the seats of a game")
    if args.processor_time and args.threads != [1]:
        parser.error("--processor-time: adds up the time of all threads; give --threads 1")
    if min(args.threads) < 1:
        parser.error(f"--threads={min(args.threads)}: must be at least 1")
    return args


def packages() -> list[str]:
    """Return the packages whose versions belong to the figures, of those installed."""
    modules = ("torch", "stable_baselines3", "sb3_contrib", "supersuit", "pettingzoo", "mpe2", "pyspiel")
    return [PIP.get(name, name) for name in modules if find_spec(name)]


def missing_packages(game: TrainedGame) -> list[str]:
    """Return the packages to install for a game, by their names in pip."""
    return [PIP.get(name, name) for name in game.packages if find_spec(name) is None]


def sizes(game: TrainedGame, args: argparse.Namespace) -> TrainingSizes:
    """Return the common sizes; every seat is played equally often, so matches are a multiple of the seats."""
    matches = args.matches // game.seats * game.seats
    common = TrainingSizes(matches, args.steps, minibatch=args.minibatch, hidden=args.hidden)
    return replace(common, entropy=game.entropy)


# ---- the rounds


def measure(name: str, threads: int, args: argparse.Namespace) -> Speeds:
    """Return the speeds of all contestants, which have their turns one after the other; every other round backwards."""
    speeds: Speeds = {contestant: [] for contestant in CONTESTANTS}
    for number in range(args.rounds):
        for contestant in CONTESTANTS[:: -1 if number % 2 else 1]:
            turn = f"{name}, {threads} threads, round {number + 1} of {args.rounds}: {contestant}"
            print(turn, end=" ", file=sys.stderr, flush=True)
            speeds[contestant].append(in_its_own_process(name, threads, contestant, args))
            print(f"{speeds[contestant][-1]:,.0f} moves/s", file=sys.stderr)
    return speeds


def in_its_own_process(name: str, threads: int, contestant: str, args: argparse.Namespace) -> float:
    """Run one contestant in another process of this script; return its moves per second."""
    same = ("updates", "matches", "steps", "minibatch", "hidden")
    options = [f"--{key}={getattr(args, key)}" for key in same]
    command = [
        sys.executable,
        "-m",
        "benchmarks.imported_training",
        "--games",
        name,
        f"--threads={threads}",
        f"--alone={contestant}",
        *options,
        *(["--processor-time"] if args.processor_time else []),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure_alone(game: TrainedGame, contestant: str, args: argparse.Namespace) -> float:
    """Return a contestant's moves per second in this process: the median of its updates."""
    clock = time.process_time if args.processor_time else time.perf_counter
    if contestant == GAME:
        return peers.play_by_hand(game.id, ALONE_S, clock)
    common, updates, threads = sizes(game, args), WARM_UP + args.updates, args.threads[0]
    if contestant == "peer":
        import torch

        torch.set_num_threads(threads)
        seconds = peers.time_updates(game.make_peer(common), updates, clock)
    else:
        extra = [f"threads={threads}", *(ALL_SEATS if contestant == LEARN else ())]
        seconds = train_ours(game, common, updates, extra, clock)
    return common.matches * common.steps / statistics.median(seconds[WARM_UP:])


def train_ours(
    game: TrainedGame,
    common: TrainingSizes,
    updates: int,
    extra: list[str],
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the seconds of each update of a run of ours; the first, which has no update before it, counts as 0."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_kind(ImportedRunConfig, [*our_options(game, common, updates), f"checkpoint_dir={folder}", *extra])
        from sparring.agents.callbacks import Callback  # late, so that bad input is answered before torch loads
        from sparring.agents.trainers import train

        class UpdateClock(Callback):
            def __init__(self) -> None:
                self.ends: list[float] = []

            def on_update(self, run: Any, metrics: Mapping[str, float]) -> None:
                self.ends.append(clock())

        ends = UpdateClock()
        train(config, callbacks=[ends])
    return [0.0, *(end - start for start, end in zip(ends.ends, ends.ends[1:], strict=False))]


def our_options(game: TrainedGame, common: TrainingSizes, updates: int) -> list[str]:
    """Return the options of a run of ours: its run file at the common sizes, without evaluations and checkpoints."""
    return [
        f"+run={game.run}",
        f"env.id={game.id}",
        f"env.num_envs={common.matches}",
        f"ppo.rollout_steps={common.steps}",
        f"ppo.epochs={common.epochs}",
        f"ppo.minibatch_size={common.minibatch}",
        "ppo.target_kl=0",
        f"network.hidden={common.hidden}",
        *game.options,
        f"max_updates={updates}",
        "evaluation.every=0",
        "checkpoint_every=1000000",
        "device=cpu",
        "logger.progress=false",
    ]


# ---- the table


def game_rows(name: str, threads: int, speeds: Speeds) -> list[list[str]]:
    """Return the rows of one game: ours with its ratio to the peer, the peer, and the game alone."""
    game = statistics.median(speeds[GAME])
    rows = []
    for contestant in CONTESTANTS:
        own = speeds[contestant]
        shown = {"peer": GAMES[name].peer, GAME: GAME}.get(contestant, f"ours, {contestant}")
        ratios = [a / b for a, b in zip(own, speeds["peer"], strict=True)] if contestant in (LEARN, RUN_FILE) else []
        middle = statistics.median(own)
        share = "" if contestant == GAME else f"{middle / game:.0%}"
        used = "1" if contestant == GAME else str(threads)
        rows.append([name, shown, used, f"{middle:,.0f}", spread(own, ",.0f"), ratio(ratios), share])
    return rows


def ratio(values: list[float]) -> str:
    """Return the median of the rounds' ratios, with lowest and highest."""
    return f"{statistics.median(values):.2f} ({spread(values, '.2f')})" if values else ""


def spread(values: list[float], form: str) -> str:
    """Return the lowest and the highest of `values`."""
    return f"{min(values):{form}} to {max(values):{form}}"


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks.imported_training"))
