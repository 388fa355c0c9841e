"""One player of Diplomacy against six that differ: `python -m benchmarks.diplomacy_mixed PLAYER OTHER... --games 28`.

The seats are those of `mixed_seats`. Prints centres, solos and the share of squares of the player, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch

from benchmarks.command import run_script
from benchmarks.report import table
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.rewards.scoring import count_centres, solos, sum_of_squares
from sparring.envs.diplomacy.rollouts.games import mixed_seats, play_to_end
from sparring.envs.diplomacy.training.opponents import open_player
from sparring.eval.stats.aggregate import mean_estimate


def main() -> None:
    """Play the games and print the player's results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("players", nargs="+")
    parser.add_argument("--games", type=int, default=28)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--last-year", type=int, default=1910)
    options = parser.parse_args()
    if options.games < NUM_POWERS or len(options.players) < 2:
        raise InputError(f"--games {options.games}: give {NUM_POWERS} at least, and a player with others")
    torch.set_num_threads(1)
    masks = mixed_seats(options.games, len(options.players) - 1)
    batch = DiplomacyBatch(options.games, last_year=options.last_year, threads=1)
    play_to_end(batch, list(zip(map(open_player, options.players), masks, strict=True)), seed=options.seed)
    rows = []
    for name, score in (("centres", count_centres), ("solos", solos), ("squares", sum_of_squares)):
        result = mean_estimate(score(batch.owner)[masks[0]].double().numpy())
        rows.append([name, f"{result.value:.3f}", "{:.3f} to {:.3f}".format(*result.interval)])
    batch.close()
    print(table([options.players[0], "mean", "95 %"], rows))


if __name__ == "__main__":
    sys.exit(run_script(main))
