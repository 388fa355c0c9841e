"""One run recorded by the trainers' own logger: run folder, TensorBoard events and a real W&B offline file."""

import importlib.util
import math

import pytest
import yaml

from sparring.agents.run.logger import open_logger
from sparring.configs.core.session import LoggerConfig
from tests.eval.analysis.wandb_server import stop_service

ROWS = 40
CONFIG = {
    "run": "quickstart",
    "trainer": "ppo",
    "seed": 3,
    "ppo": {"gamma": 0.99},
    "env": {"id": "sparring/Dogfight-v1"},
}


def row(update):
    """Return metrics of an update; one is sometimes missing, one is not finite."""
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
    """Return a root with one finished run in all three formats; W&B files need the package."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root, "dark-ghost", wandb="offline" if importlib.util.find_spec("wandb") else "off")
    if importlib.util.find_spec("wandb"):
        assert not stop_service()
    return root
