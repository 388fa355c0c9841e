"""Tests of evaluations and of games have stored policies and a browser."""

from tests.envs.saved_policies import checkpoints, long_steps, make_checkpoint, shared_browser  # noqa: F401
