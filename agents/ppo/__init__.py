"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347). It depends on spaces, not on games.

`rollout` collects samples, `gae` turns rewards into advantages, `learner` updates the network, `trainer` repeats.
"""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace("sparring.agents.ppo.trainer:PPOTrainer")
