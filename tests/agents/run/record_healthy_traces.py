"""Record the traces that no detector may fire on: `python tests/agents/run/record_healthy_traces.py` (some minutes).

Twenty short runs that learn as they should, with different seeds, networks, learning rates and bots, each through a
curriculum, a transition with an event, and self-play in widening physics. What the guard reads of every update is
written to healthy_traces.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from sparring.agents.trainers import train
from sparring.configs.serialization import from_plain
from sparring.configs.validate import validate
from sparring.envs.dogfight.config import DogfightRunConfig

HERE = Path(__file__).resolve().parent
RUNS = 20
BOTS = ("do_nothing", "dogfighter", "chaser", "ace", "brawler")
READ = (
    "train/entropy", "train/value_loss", "train/grad_norm", "train/approx_kl", "train/kl_max", "train/kl_stop",
    "train/skipped_steps", "train/epochs_completed", "train/weight_norm", "rollout/action_size",
)  # fmt: skip


def config(seed: int, folder: str) -> DogfightRunConfig:
    """Return the configuration of run `seed`: small, and different from the others."""
    first, second = BOTS[seed % 5], BOTS[(seed + 1 + seed // 5 % 4) % 5]
    plain = {
        "name": f"trace-{seed}",
        "checkpoint_dir": folder,
        "seed": seed,
        "threads": 1,
        "checkpoint_every": 1000,
        "env": {"num_envs": 128, "reward": {"shaping": 0.5 * (seed % 2), "draw": -1.0 * (seed % 3)}},
        "network": {"hidden": (32, 64, 128)[seed % 3], "blocks": int(seed % 7 == 0)},
        "ppo": {
            "rollout_steps": 64, "epochs": 3, "minibatch_size": 1024, "gamma": 0.995,
            "learning_rate": (3e-4, 7e-4)[seed % 2],
        },
        "phases": [
            {"name": "curriculum", "updates": 50, "stages": [{"bots": [first]}, {"at": 25, "bots": [first, second]}]},
            {"name": "transition", "updates": 15, "scripted_end": 0.5, "events": [{"log_std": -1.0}],
             "randomization": [{"level": "narrow", "over": 10}]},
            {"name": "selfplay", "updates": 15, "scripted_start": 0.5, "scripted_end": 0.2,
             "randomization": [{"level": "full", "over": 10}]},
        ],
        "self_play": {"snapshot_every": 5, "slots": 2},
        "logger": {"progress": False},
    }  # fmt: skip
    made = from_plain(plain)
    validate(made)
    return made


def trace(folder: Path) -> list[dict[str, float]]:
    """Return what the guard reads of every update, rounded to five digits."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    wanted = [{key: row[key] for key in row if key in READ or key.endswith("/win_rate")} for row in rows]
    return [{key: float(f"{value:.5g}") for key, value in row.items() if _read(key)} for row in wanted]


def _read(key: str) -> bool:
    return key in READ or key.startswith("curriculum/")


def record(seed: int) -> list[dict[str, float]]:
    """Train run `seed` and return its trace."""
    with tempfile.TemporaryDirectory() as folder:
        return trace(train(config(seed, folder)).parent)


def main() -> None:
    """Train all runs and write the file."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        traces = list(pool.map(record, range(1, RUNS + 1)))
    lines = ",\n".join(json.dumps(rows) for rows in traces)
    (HERE / "healthy_traces.json").write_text(f"[{lines}]\n")


if __name__ == "__main__":
    main()
