"""Configuration of a player: options of `--set` for a language model or its server, and those of its run.

Games without a given last year end with that of the training: a policy trained in games to 1910 has no experience of
1911, and its results there are not comparable with its training. The last year is in a policy's own file; for an
adapter or a model's folder it is in the configuration of its run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sparring.agents.opponents.language import Settings, configured, has_config, run_of
from sparring.agents.opponents.players import content_of
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError
from sparring.configs.serialization import read_yaml, with_texts
from sparring.envs.diplomacy.board.codes import ENV_ID
from sparring.envs.diplomacy.board.positions import FIRST_YEAR, LAST_YEAR
from sparring.envs.diplomacy.validation import check_whole

SECTIONS = ("model", "endpoint")


def read_settings(pairs: Iterable[tuple[str, str]]) -> Settings:
    """Return settings of names such as model.compact and values; raises `InputError` for other options."""
    settings: dict[str, dict[str, Any]] = {}
    for name, value in pairs:
        section, dot, option = name.partition(".")
        if not (dot and option) or section not in SECTIONS:
            raise InputError("--set: give model.OPTION=VALUE or endpoint.OPTION=VALUE, such as model.compact=false")
        settings.setdefault(section, {})[option] = with_texts(read_yaml(value), value, name)
    configured(ENV_ID, settings)
    return settings


def last_year_of(path: Path) -> int | None:
    """Return the last year of a file or folder from `find_player`, None if it has none.

    Raises `InputError` for an invalid year.
    """
    contract = None if path.is_dir() else content_of(path).get("contract")
    year = contract.get("last_year") if isinstance(contract, dict) else None
    if year is None and has_config(run := run_of(path)):
        env = RunFolder(run).read_config().get("env")
        year = env.get("last_year") if isinstance(env, dict) else None
    if year is None:
        return None
    try:
        return check_whole("last_year", year, FIRST_YEAR, LAST_YEAR)
    except InputError as error:
        raise InputError(f"{path}: {error}; give --last-year") from error
