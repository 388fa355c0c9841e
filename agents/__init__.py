"""Actors and learners: policies, the PPO trainer, opponents for one learner, run folders and logs."""

from sparring.configs.core.parts import CommandPlace

COMMAND = CommandPlace("sparring.train", "train: sparring train +run=quickstart, or your own game", order=4)
