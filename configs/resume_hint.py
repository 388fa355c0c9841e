"""How a run is continued: the command line that does so, or the call in the script that registers its opponents."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from sparring.configs.core.paths import CHECKPOINTS, ROOT
from sparring.configs.core.status import as_called
from sparring.configs.games.environments import ChessEnvConfig
from sparring.configs.opponents import code_to_type, named_opponents, registered
from sparring.configs.schema import RunConfig


def resume_hint(config: RunConfig, name: str) -> str:
    """Return what continues the run in the folder `name`: a command line with the options that it needs.

    Opponents that a script registered are known in that script alone, so that it has to continue the run itself.
    """
    options = [f"resume={name}"]
    if os.path.abspath(ROOT / config.checkpoint_dir) != os.path.abspath(CHECKPOINTS):
        options.append(f"checkpoint_dir={config.checkpoint_dir}")
    if ":" in config.env.id:
        options.append(f"env.id={config.env.id}")
    if program := engine_program(config):
        options.append(f"env.engine.path={program}")
    options += dict.fromkeys(code_to_type(config, []).values())
    names = [name for name in _plain_words(config) if name in registered()]
    if names:
        return f"continue with: {resume_call(options)} in the script that registers {', '.join(names)}"
    return as_called(f"continue with: python train.py {shlex.join(options)}")


def engine_program(config: RunConfig) -> str:
    """Return the program that a run of chess starts as its engine, empty for Stockfish and the built-in search."""
    program = config.env.engine.path if isinstance(config.env, ChessEnvConfig) else ""
    return program if program not in ("stockfish", "builtin") else ""


def resume_call(options: Iterable[str]) -> str:
    """Return the call that continues a run from a script; `options` are texts, resume=NAME first."""
    return f"sparring.train(overrides=[{', '.join(map(repr, options))}])"


def missing_opponents(config: RunConfig) -> list[str]:
    """Return the opponents of a stored configuration that are no bots, files or runs, and not registered here."""
    return [name for name in _plain_words(config) if name not in registered() and not (CHECKPOINTS / name).is_dir()]


def _plain_words(config: RunConfig) -> list[str]:
    """Return the opponents that are neither bots nor files, addresses or `module:Name`, each once."""
    names = dict.fromkeys(name for found in named_opponents(config).values() for name in found)
    bots: tuple[str, ...] = getattr(config, "bots", ())
    return [name for name in names if name not in bots and not any(mark in name for mark in "/.:")]
