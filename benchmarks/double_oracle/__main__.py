"""Double oracle over policies of the dogfight: `python -m benchmarks.double_oracle POLICY ... --out FOLDER`.

Each round plays all policies against each other, solves the game for its equilibrium, and trains best responses to that
mixture, which join the set. FOLDER/round_1.pt and so on are the mixtures. All policies sample with the same noise. Only
the attacks take long: they cost as much as in `eval/exploit.py`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.command import run_script
from benchmarks.double_oracle.merge import merged, save_merged
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.policy import Policy
from sparring.curriculum.population.equilibrium import equilibrium
from sparring.envs.dogfight.training.matches import MatchSettings, play
from sparring.eval.exploit import exploit_policy

SEED, SMALL = 11, 0.02


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policies", nargs="+", type=Path, help="checkpoints of the default physics")
    parser.add_argument("--lineages", nargs="+", default=["released/dogfight_bots_only", "released/dogfight_strong_dr"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of a best response")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.2, help="standard deviation of turn and throttle")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    files: dict[str, Path] = {path.stem: path for path in args.policies}
    args.out.mkdir(parents=True, exist_ok=True)
    for number in range(1, args.rounds + 1):
        mixture = args.out / f"round_{number}.pt"
        names = [*files]
        shares = equilibrium(payoffs([noisy(files[name], args.noise) for name in names], args.games))
        chosen = {name: share for name, share in zip(names, shares, strict=True) if share > SMALL}
        total = sum(chosen.values())
        save_merged([(files[name], share / total) for name, share in chosen.items()], math.log(args.noise), mixture)
        print(f"round {number}: " + ", ".join(f"{name} {share / total:.2f}" for name, share in chosen.items()))
        folder = args.out / f"round_{number}"
        found = exploit_policy(
            str(mixture), start=tuple(args.lineages), target=("stochastic",), seeds=1, steps=args.steps, out=folder,
            threads=1, games=args.games,
        )  # fmt: skip
        print(found, flush=True)
        for final in sorted(folder.glob("*/final.pt")):
            files[f"{number}-{final.parent.name}"] = final


def noisy(path: Path, noise: float) -> Policy:
    """Return the policy of a checkpoint, which samples with `noise`."""
    checkpoint = load_checkpoint(path)
    network = merged([(checkpoint.network, 1.0)], math.log(noise))
    return Policy(network, checkpoint.contract, name=path.stem, deterministic=False)


def payoffs(policies: Sequence[Policy], games: int) -> np.ndarray:
    """Return wins less losses per game of every policy against every other, [P, P]."""
    table = np.zeros((len(policies), len(policies)))
    for i, j in combinations(range(len(policies)), 2):
        results = play(policies[i], policies[j], games=games, seed=SEED, setting=MatchSettings(threads=1))
        table[i, j] = results.outcome.mean()
        table[j, i] = -table[i, j]
    return table


if __name__ == "__main__":
    sys.exit(run_script(main))
