"""Dogfight measurements of `sparring bench`: the NumPy actor, the simulator, and PPO."""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sparring.eval.bench.speed import Speed

MATCHES = 4096
WARM_UP = 4
"""Warm-up updates of PPO, not timed."""


def actor_work(count: int) -> Callable[[], int]:
    """Return a function that decides for `count` observations and returns that number."""
    from sparring.agents.opponents.players import find_checkpoint
    from sparring.agents.policies.array_actor import read_actor

    actor = read_actor(find_checkpoint("released/dogfight_strong"), "dogfight_strong")
    obs = np.random.default_rng(1).standard_normal((count, actor.shape["obs_dim"]), np.float32)

    def act() -> int:
        return len(actor.act(obs))

    return act


def dogfight_work() -> Callable[[], int]:
    """Return a function that plays a step of all matches and returns their ticks."""
    import torch

    from sparring.envs.dogfight import rules
    from sparring.envs.dogfight.batch import DogfightBatch

    batch = DogfightBatch(MATCHES, threads=1, device="cpu", seed=1)
    batch.assign(np.array([[rules.ACTIONS, rules.bot_id("brawler")]]), torch.ones(MATCHES, dtype=torch.bool))
    actions = torch.ones(MATCHES, 2, 3)  # gentle turn at cruising throttle
    actions[:, :, 0], actions[:, :, 1] = torch.linspace(-0.3, 0.3, MATCHES)[:, None], 0.7

    def step() -> int:
        batch.step(actions)
        return MATCHES * rules.ACTION_REPEAT

    return step


def training_speed(updates: int) -> float:
    """Return env steps per second of the run `bots_only`, the median over `updates`."""
    from sparring.agents.trainers import train
    from sparring.configs.load import load

    with tempfile.TemporaryDirectory() as folder:
        options = ["threads=1", "ppo.precision=fp32", "logger.progress=false", "logger.wandb=off"]
        lengths = [f"max_updates={WARM_UP + updates}", f"checkpoint_dir={folder}"]
        config = load(["+run=bots_only", *lengths, *options])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            final = train(config)
        rows = [json.loads(row) for row in Path(final.parent / "metrics.jsonl").read_text("utf-8").splitlines()]
    return statistics.median([row["time/steps_per_second"] for row in rows if "time/steps_per_second" in row][WARM_UP:])


SPEEDS = (
    Speed("policy, NumPy actor, 1 observation", "steps/s", lambda: actor_work(1), trains=False),
    Speed("policy, NumPy actor, 256 observations", "steps/s", lambda: actor_work(256), trains=False),
    Speed(
        "dogfight, 4,096 matches against brawler, 1 core",
        "ticks/s",
        dogfight_work,
        ((9_710_000, "AMD EPYC Zen 5"),),
    ),
    Speed(
        "PPO, `bots_only` in fp32, 1 thread",
        "env steps/s",
        published=((67_660, "Intel Xeon Emerald Rapids"), (57_000, "AMD EPYC Zen 5")),
        training=training_speed,
    ),
)
"""Ten of the dogfight's ticks are one env step."""
