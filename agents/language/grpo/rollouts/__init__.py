"""Rollouts for GRPO: plans, forked games, workers."""
