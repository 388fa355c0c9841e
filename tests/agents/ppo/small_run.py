"""A complete small run for the training tests: three phases with self-play, a few seconds each."""

import json
from dataclasses import replace

import torch

from sparring.agents.run.states import read_state
from sparring.configs.core.session import LoggerConfig
from sparring.configs.schema import (
    EvaluationConfig,
    EventConfig,
    NetworkConfig,
    PhaseConfig,
    PPOConfig,
    RandomizationConfig,
    SelfPlayConfig,
    StageConfig,
)
from sparring.configs.validate import validate
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig

STEPS, ENVS = 16, 8
PHASES = [
    PhaseConfig("curriculum", 1, stages=[StageConfig(bots=["do_nothing", "ace"])]),
    PhaseConfig("transition", 1, scripted_start=0.5, events=[EventConfig(snapshot="before", log_std=-1.5)]),
    PhaseConfig("selfplay", 1, scripted_start=0.2, randomization=[RandomizationConfig(level="full")]),
]


LONG = [
    PhaseConfig("curriculum", 3, adaptive=0.5, stages=[StageConfig(0, ["do_nothing"]), StageConfig(2, ["ace"])]),
    replace(PHASES[1], updates=2),
    PhaseConfig("selfplay", 3, scripted_start=0.2, scripted_end=0.2,
     randomization=[RandomizationConfig(level="full", over=2, steps=2)]),
]  # fmt: skip
"""Eight updates: a new bot at 2, an event and the first snapshot at 3, wider physics at 5 and 6."""


def config(folder, **options):
    """Return a configuration with steps of one second, so matches end within 90 steps."""
    small = DogfightRunConfig(
        name="small",
        checkpoint_dir=str(folder),
        device="cpu",
        threads=1,
        checkpoint_every=2,
        env=DogfightEnvConfig(num_envs=ENVS, action_repeat=120),
        network=NetworkConfig(hidden=16),
        ppo=PPOConfig(rollout_steps=STEPS, epochs=2, minibatch_size=64, precision="fp32"),
        phases=PHASES,
        self_play=SelfPlayConfig(snapshot_every=1, pool_size=3, slots=2, deal_every=1),
        evaluation=EvaluationConfig(games=2, check_bot="ace", check_every=3),
        logger=LoggerConfig(progress=False),
    )
    small = replace(small, **options)
    validate(small)
    return small


def metrics(folder):
    rows = [json.loads(line) for line in (folder / "small" / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "event" not in row]


def long(folder, **options):
    checks = EvaluationConfig(every=4, games=2, check_bot="ace", check_every=6)
    return config(folder, **({"phases": LONG, "evaluation": checks, "checkpoint_every": 100} | options))


def flat(value, key=""):
    """Return every leaf of a state by path; tensors as bytes, for exact comparison."""
    if isinstance(value, torch.Tensor):
        return {key: (str(value.dtype), tuple(value.shape), value.contiguous().view(-1).view(torch.uint8).tolist())}
    if isinstance(value, dict):
        return {k: v for name, item in value.items() for k, v in flat(item, f"{key}/{name}").items()}
    if isinstance(value, list):
        return {k: v for index, item in enumerate(value) for k, v in flat(item, f"{key}/{index}").items()}
    return {key: value}


def state_of(root):
    content = flat(read_state(max((root / "small" / "state").glob("update_*"))).content)
    return {key: value for key, value in content.items() if not key.startswith("/logger/bytes")}


def untimed(rows):
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]
