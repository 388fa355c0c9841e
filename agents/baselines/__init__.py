"""Stable-Baselines3 as a baseline for our own trainer."""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace(
    "sparring.agents.ppo.trainer:PPOTrainer",
    "sparring.agents.baselines.sb3:fit",
    extra="sb3",
    processes=False,
    check_options="sparring.agents.baselines.checks:check_options",
)
