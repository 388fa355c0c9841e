"""A whole run in small, for the tests of training: three phases with self-play, a few seconds each."""

import json
from dataclasses import replace

from configs.schema import (
    EnvConfig,
    EvaluationConfig,
    EventConfig,
    LoggerConfig,
    NetworkConfig,
    PhaseConfig,
    PPOConfig,
    RandomizationConfig,
    RunConfig,
    SelfPlayConfig,
    StageConfig,
)
from configs.validate import validate

STEPS, ENVS = 16, 8
PHASES = [
    PhaseConfig("curriculum", 1, stages=[StageConfig(bots=["do_nothing", "ace"])]),
    PhaseConfig("transition", 1, scripted_start=0.5, events=[EventConfig(snapshot="before", log_std=-1.5)]),
    PhaseConfig("selfplay", 1, scripted_start=0.2, randomization=[RandomizationConfig(level="full")]),
]


def config(folder, **options):
    """Steps of a whole second, so that a match is over after 90 of them at most."""
    small = RunConfig(
        name="small",
        checkpoint_dir=str(folder),
        device="cpu",
        threads=1,
        checkpoint_every=2,
        env=EnvConfig(num_envs=ENVS, action_repeat=120),
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
