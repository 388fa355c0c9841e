"""Imports done once by the parent of victim processes: transformers, a tokenizer, parts of a toy model."""

import contextlib
import io
import tempfile
from pathlib import Path

import torch

from sparring.agents.language.models.tiny import game_tokenizer
from tests.agents.language.grpo.small_runs import run
from tests.agents.language.grpo.toy_folder import toy_folder

torch.set_num_threads(1)
game_tokenizer("diplomacy")
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    run(toy_folder(Path(folder) / "toy"), Path(folder), "warm", "grpo.steps=1")
