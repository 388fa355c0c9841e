"""Whole GRPO runs of a toy model and their files."""

import json
import multiprocessing
from functools import partial
from multiprocessing import forkserver
from types import SimpleNamespace

from sparring.agents.language.grpo.rollouts.rollout import AdapterRolloutWorker
from sparring.agents.language.grpo.rollouts.workers import InProcess
from sparring.agents.language.models.adapters import load_adapter
from sparring.agents.trainers import train
from tests.agents.faults import victims
from tests.agents.language.grpo.rollouts.small_games import small_config


def in_process(trainer):
    """Stand in for `GRPOTrainer._new_players`: plans ahead as workers do, without processes that import everything."""
    return InProcess(trainer.config, partial(AdapterRolloutWorker, folder=trainer.session.folder.path))


def warm_workers():
    """Stand in for `pools.multiprocessing`: workers are forked where victims are, not spawned, which takes seconds.

    Such a worker's parent is the process it is forked from. Tests of parents, signals and restarts spawn theirs.
    """
    return SimpleNamespace(get_context=lambda _: WarmContext(), active_children=multiprocessing.active_children)


class WarmContext:
    def __init__(self):
        self._context = victims.context()
        self.Process = self._process

    def __getattr__(self, name):
        return getattr(self._context, name)

    def _process(self, target, args):
        *before, own, most = args
        parent = forkserver._forkserver._forkserver_pid
        return self._context.Process(target=target, args=(*before, (*own[:-1], parent), most))


CLOCKS = ("_time_s", "_overlap_s", "_total_s", "_reload_s", "time/")


def run(toy, folder, name, *options):
    """Train the model in the folder `toy`; return the path of the final adapter."""
    places = [f"model.name={toy}", f"checkpoint_dir={folder}", f"name={name}", "checkpoint_every=1"]
    return train(small_config(*places, "league.checkpoint_every=2", "league.cold_start_steps=1", *options))


def rows(path):
    """Return metrics without those derived from a clock."""
    lines = [json.loads(line) for line in (path.parent / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if not any(clock in key for clock in CLOCKS)} for line in lines]


def events(path):
    """Return all messages and alerts."""
    return (path.parent / "events.jsonl").read_text()


def weights(path):
    return load_adapter(path).weights
