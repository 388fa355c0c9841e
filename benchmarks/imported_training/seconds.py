"""Seconds to a result, ours and MaskablePPO's: processor time of one thread until a policy is good enough.

    pip install sb3-contrib
    python -m benchmarks.imported_training.seconds --games connect_four leduc_poker --seeds 1 2 3

Connect four: 95 % of 400 games won against random play by the likeliest actions, half of them from each seat.
Leduc poker: exact exploitability of at most 0.1 chips a game. Both trainers have the same matches, rollouts, layers,
epochs and minibatches; ours has its run file's other options, MaskablePPO those of its tutorial. A policy is measured
after every few updates; the time of measuring does not count. Trainers take turns seed by seed, each in its own
process. One that has not reached the aim within the limit is reported with its best result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import run_script
from benchmarks.imported_training import peers
from benchmarks.imported_training.__main__ import GAMES, ROOT, our_options, packages, sizes
from benchmarks.report import heading, publish, table
from sparring.configs.load import load_kind
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.config import ImportedRunConfig
from sparring.envs.imported.tree import game_tree

WON, EXPLOITABILITY, MATCHES = 0.95, 0.1, 400
EVERY = {"connect_four": 2, "leduc_poker": 10}
"""Updates between two measurements."""
Chances = Callable[[torch.Tensor], torch.Tensor]
"""Probabilities of all actions [B, K] for observation rows [B, D], features and then the mask."""
OURS, PEER = "ours", "MaskablePPO"
COLUMNS = ("game", "trainer", "seed", "seconds", "moves", "result")


def won(chances: Chances, seed: int) -> float:
    """Return the share of games of connect four that the likeliest actions win against random play, from both seats."""
    batch = make_batch("pettingzoo", peers.CONNECT_FOUR, {}, MATCHES, seed, twin=True)
    generator = torch.Generator().manual_seed(seed)
    seat, first = torch.arange(MATCHES) % 2, torch.full((MATCHES,), -1)
    while (first < 0).any():
        rows = batch.obs.flatten(0, 1)
        legal = rows[:, batch.rows.mask]
        drawn = torch.multinomial(legal / legal.sum(1, keepdim=True), 1, generator=generator)
        own = torch.arange(MATCHES) * 2 + seat
        drawn[own] = chances(rows[own]).argmax(1, keepdim=True)
        batch.step(drawn.view(MATCHES, 2, 1).float())
        first = torch.where(first < 0, batch.outcome, first)
    return float((first == 1 << seat).float().mean())


def exploitability(chances: Chances) -> float:
    """Return the exact exploitability in Leduc poker."""
    tree = game_tree(peers.LEDUC, {}, "auto", ())
    assert tree is not None
    return tree.exploitability(chances(torch.from_numpy(tree.rows)).double().numpy())


def measured(game: str, chances: Chances, seed: int) -> tuple[float, bool]:
    """Return the result of a policy, and whether it reaches the aim."""
    with torch.no_grad():
        result = won(chances, seed) if game == "connect_four" else exploitability(chances)
    return result, result >= WON if game == "connect_four" else result <= EXPLOITABILITY


class ResultClock:
    """Processor time of a training, without its measurements, and its results."""

    def __init__(self, game: str, limit: float, seed: int) -> None:
        self.game, self.limit, self.seed = game, limit, seed
        self.results: list[tuple[float, int, float]] = []
        """Seconds, moves and result of every measurement."""
        self._apart, self._start = 0.0, time.process_time()

    def look(self, moves: int, chances: Chances) -> bool:
        """Measure a policy after that many moves; return whether training is over."""
        now = time.process_time()
        result, reached = measured(self.game, chances, self.seed)
        self.results.append((now - self._start - self._apart, moves, result))
        self._apart += time.process_time() - now
        return reached or self.results[-1][0] >= self.limit


def time_ours(game: str, args: argparse.Namespace) -> ResultClock:
    """Train with the run file at the common sizes, and measure the policies that it writes."""
    from sparring.agents.callbacks import Callback
    from sparring.agents.trainers import train
    from sparring.envs.imported.training.opponents import load_seat_policy

    seed = args.seeds[0]
    clock = ResultClock(game, args.limit, seed)

    class Look(Callback):
        def on_checkpoint(self, run: Any, path: Path) -> bool:
            if not path.name.startswith("step_"):  # a snapshot or another copy of it
                return False
            network: Any = load_seat_policy(path, None, "cpu").network
            legal = slice(network.features, network.obs_dim)
            return clock.look(run.env_steps, lambda rows: network.log_probabilities(rows)[0].exp() * rows[:, legal])

    with tempfile.TemporaryDirectory() as folder:
        options = our_options(GAMES[game], sizes(GAMES[game], args), args.updates)
        extra = [f"checkpoint_dir={folder}", "threads=1", f"seed={seed}", f"checkpoint_every={EVERY[game]}"]
        extra += [f"phases.0.updates={args.updates}", *args.options]
        train(load_kind(ImportedRunConfig, [*options, *extra]), callbacks=[Look()])
    return clock


def time_peer(game: str, args: argparse.Namespace) -> ResultClock:
    """Train MaskablePPO, and measure it after every few rollouts."""
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(1)
    common, seed = sizes(GAMES[game], args), args.seeds[0]
    clock = ResultClock(game, args.limit, seed)
    make = {"connect_four": peers.maskable_connect_four_mlp, "leduc_poker": peers.maskable_leduc}[game]
    model = make(common)
    model.set_random_seed(seed)

    def chances(rows: torch.Tensor) -> torch.Tensor:
        count = int(model.action_space.n)
        inner = model.policy.get_distribution(rows[:, :-count], action_masks=rows[:, -count:].numpy())
        probabilities: torch.Tensor = inner.distribution.probs
        return probabilities

    class Look(BaseCallback):
        rollouts, going_on = 0, True

        def _on_rollout_start(self) -> None:
            if self.rollouts and self.rollouts % EVERY[game] == 0:
                self.going_on = not clock.look(self.num_timesteps, chances)
            self.rollouts += 1

        def _on_step(self) -> bool:
            return self.going_on

    model.learn(args.updates * model.n_steps * model.n_envs, callback=Look())
    return clock


def main() -> int:
    args = parse()
    if args.alone:
        clock = (time_ours if args.alone == OURS else time_peer)(args.games[0], args)
        print(json.dumps(clock.results))
        return 0
    rows = []
    for game in args.games:
        for seed in args.seeds:
            for trainer in (OURS, PEER):
                rows.append(row(game, trainer, seed, in_its_own_process(game, trainer, seed, args)))
                print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    publish("\n".join([heading("Seconds to a result", packages()), table(COLUMNS, rows)]), args.out)
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", nargs="+", choices=list(EVERY), default=list(EVERY))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of processor time after which to stop")
    parser.add_argument("--updates", type=int, default=120, help="updates of the schedules of both trainers")
    parser.add_argument("--options", nargs="*", default=[], help="options of ours, as in ppo.epochs=2")
    parser.add_argument("--alone", choices=(OURS, PEER), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    parser.set_defaults(matches=64, steps=64, minibatch=512, hidden=128)
    args = parser.parse_args(arguments)
    if args.updates < (fewest := max(EVERY[game] for game in args.games)):
        parser.error(f"--updates={args.updates}: must be at least {fewest}, after which a policy is measured")
    return args


def in_its_own_process(game: str, trainer: str, seed: int, args: argparse.Namespace) -> list[tuple[float, int, float]]:
    """Run one training in another process of this script; return its seconds and results."""
    command = [sys.executable, "-m", "benchmarks.imported_training.seconds", "--games", game, "--seeds", str(seed)]
    command += [f"--alone={trainer}", f"--limit={args.limit}", f"--updates={args.updates}"]
    command += ["--options", *args.options] if args.options else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    results: list[tuple[float, int, float]] = json.loads(done.stdout.splitlines()[-1])
    return results


def row(game: str, trainer: str, seed: int, results: list[tuple[float, int, float]]) -> list[str]:
    """Return a row of the table: seconds, moves and the result at the end, or the best one."""
    four = game == "connect_four"
    reached = [
        number for number, (*_, result) in enumerate(results) if (result >= WON if four else result <= EXPLOITABILITY)
    ]
    if reached:
        seconds, moves, result = results[reached[0]]
        return [game, trainer, str(seed), f"{seconds:.1f}", f"{moves:,}", f"{result:.3f}"]
    best = (max if four else min)(result for *_, result in results)
    return [game, trainer, str(seed), f"not in {results[-1][0]:.0f}", "", f"best {best:.3f}"]


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks.imported_training.seconds"))
