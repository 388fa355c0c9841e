"""Which function trains, by the name in `config.trainer`."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from sparring.configs.core.errors import InputError
from sparring.configs.schema import RunConfig


def trainer(name: str) -> Callable[[RunConfig], Path]:
    """The trainer of that name, imported only now; raises `InputError` where it cannot be used here."""
    # Threads that spin while they wait make training ten times slower on a machine that does anything else.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if name == "sb3":
        return _sb3()
    if name == "grpo":
        return _language("sparring.agents.grpo.loop", name)
    if name == "clone":
        return _language("sparring.agents.llm.cloning.loop", name)
    from sparring.agents.ppo.loop import train

    return train


def _sb3() -> Callable[[RunConfig], Path]:
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("trainer=sb3: learns in one process; start it without torchrun, or use trainer=ppo")
    try:
        from sparring.agents.baselines.sb3 import train
    except ModuleNotFoundError as error:
        raise InputError(f'trainer=sb3 needs {error.name}: pip install -e ".[sb3]"') from error
    return train


def _language(module: str, name: str) -> Callable[[RunConfig], Path]:
    """The trainer of a language model, whose packages are in an extra."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError(f"trainer={name}: learns in one process; start it without torchrun")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is ever downloaded
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        return cast(Callable[[RunConfig], Path], import_module(module).train)
    except ModuleNotFoundError as error:
        raise InputError(f'trainer={name} needs {error.name}: pip install -e ".[llm]"') from error
