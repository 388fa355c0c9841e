"""A run recorded by the trainers' own logger in three formats, and recorded traces as run folders.

traces/record.py made the traces; the first line of each has its command.
"""

import gzip
import importlib.util
import json
import math
from pathlib import Path

import pytest
import yaml

from sparring.agents.run.logger import open_logger
from sparring.configs.schema import LoggerConfig
from sparring.eval.experiments.sources.run_folders import RunFolders

TRACES = Path(__file__).parent / "traces"
ROWS = 40
CONFIG = {
    "run": "quickstart",
    "trainer": "ppo",
    "seed": 3,
    "ppo": {"gamma": 0.99},
    "env": {"id": "sparring/Dogfight-v1"},
}


def row(update):
    """Metrics of an update; one is missing at times, one is not finite."""
    found = {"train/loss": math.exp(-update / 10), "rollout/reward": update / 7, "train/odd": math.nan}
    return found | ({"eval/win_rate": update / ROWS} if update % 8 == 0 else {})


def write_run(root, name, *, wandb="off", rows=ROWS, ended="done after {rows} updates: final.pt", rolled_back=True):
    """Record a run in `root`/`name`; return its folder."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    logger = open_logger(LoggerConfig(wandb=wandb, wandb_project="sparring-test"), folder, name, CONFIG)
    for update in range(1, rows + 1):
        logger.log(update * 128, row(update))
        if update == 5:
            state = logger.state_dict()
            logger.event("phase curriculum, update 5: ace")
        if update == 8 and rolled_back:  # the guard goes back to update 5, and plays other games from there
            logger.rewind(state)
            for again in (6, 7, 8):
                logger.log(again * 128, row(again) | {"rollout/reward": -again})
    if ended:
        logger.event(ended.format(rows=rows))
    logger.close()
    return folder


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A root with one finished run in all three formats; W&B's files are absent where the package is."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root, "dark-ghost", wandb="offline" if importlib.util.find_spec("wandb") else "off")
    if importlib.util.find_spec("wandb"):
        importlib.import_module("wandb").teardown()
    return root


@pytest.fixture
def run_folder(tmp_path):
    """Write a trace as a run folder and return its path; `edit` may change rows, `options` the configuration."""

    def write(name, *, to="", edit=None, rows=None, **options):
        head, *recorded = map(json.loads, gzip.decompress((TRACES / f"{name}.jsonl.gz").read_bytes()).splitlines())
        folder = tmp_path / "checkpoints" / (to or name)
        folder.mkdir(parents=True)
        kept = recorded[:rows]
        for number, row in enumerate(kept):
            if edit:
                edit(number, row)
        (folder / "config.yaml").write_text(yaml.safe_dump(head["config"] | options))
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in kept))
        (folder / "events.jsonl").write_text("")
        return folder

    return write


@pytest.fixture
def read_run(run_folder):
    """Return record and history of a trace."""

    def read(name, **how):
        folder = run_folder(name, **how)
        source = RunFolders(folder.parent)
        return source.record(folder.name), source.history(folder.name)

    return read
