"""Make a trace from a run folder: its metrics with five digits and the options that analysis reads.

    python tests/eval/analysis/reports/traces/record.py checkpoints/NAME TARGET.jsonl.gz COMMAND

The first line has the command and the configuration, each further line one row of metrics.jsonl. Times of PPO
are left out, since other programs ran on the same machine.
"""

import gzip
import json
import sys
from pathlib import Path

import yaml

OPTIONS = ("trainer", "seed")
SECTIONS = {
    "env": ("id", "num_envs"),
    "ppo": ("learning_rate", "target_kl"),
    "grpo": ("learning_rate", "buffer_depth", "play"),
}
LEFT_OUT = ("time/", "trueskill/", "league/ace", "league/brawler", "league/chaser", "league/do", "elo/checkpoint")


def main(folder: Path, target: Path, command: str) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    kept = {key: config[key] for key in OPTIONS if key in config}
    kept |= {
        name: {key: config[name][key] for key in keys if key in config[name]}
        for name, keys in SECTIONS.items()
        if name in config
    }
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    head = {"command": command, "config": kept}
    text = "\n".join([json.dumps(head), *(json.dumps(_short(row), sort_keys=True) for row in rows)]) + "\n"
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _short(row: dict[str, float | None]) -> dict[str, float | None]:
    kept = {key: value for key, value in row.items() if not key.startswith(LEFT_OUT)}
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in kept.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), " ".join(sys.argv[3:]))
