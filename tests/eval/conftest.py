"""Stored policies and a browser for tests of evaluations and games."""

from tests.envs.saved_policies import checkpoints, long_steps, make_checkpoint, shared_browser  # noqa: F401
