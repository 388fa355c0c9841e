"""Slow imports that the parent of the victim processes does once, before the first fork."""

import contextlib
import io
import tempfile

import torch

from sparring.agents.ppo import trainer
from sparring.agents.trainers import train
from tests.agents.faults import planted  # noqa: F401
from tests.agents.ppo.small_run import config

torch.set_num_threads(1)
trainer.estimate_seconds = lambda *_, **__: 0.0  # a trial would reach the places of faults first, and takes time
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    train(config(folder, max_updates=1))
