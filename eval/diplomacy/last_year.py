"""The last year of games for which nobody named one: that of the games in which who is evaluated was trained.

A policy that learned in games to 1910 has never seen 1911, and what it got there is not comparable with its training. A
policy's own file says its last year; for an adapter or a model's folder the configuration of its run does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.positions import FIRST_YEAR, LAST_YEAR
from sparring.envs.diplomacy.validation import check_whole
from sparring.eval.diplomacy.candidates import MODEL_FOLDER, content_of, has_config


def last_year_of(found: Path) -> int | None:
    """The last year of a file or folder as `find_candidate` finds it, None where it says none.

    Raises `InputError` for one that is no year.
    """
    said = _said_by_run(found.parent if found.name == MODEL_FOLDER else found) if found.is_dir() else _said_by(found)
    if said is None:
        return None
    try:
        return check_whole("last_year", said, FIRST_YEAR, LAST_YEAR)
    except InputError as error:
        raise InputError(f"{found}: {error}; give --last-year") from error


def _said_by(file: Path) -> Any:
    contract = content_of(file).get("contract")
    said = contract.get("last_year") if isinstance(contract, dict) else None
    return _said_by_run(file.parent) if said is None else said


def _said_by_run(run: Path) -> Any:
    env = RunFolder(run).read_config().get("env") if has_config(run) else None
    return env.get("last_year") if isinstance(env, dict) else None
