"""Actors and learners: policies, the PPO trainer, opponents for one learner, run folders and logs."""
