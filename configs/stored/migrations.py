"""Stored configurations of earlier versions, in which every run had the sections of all trainers and games.

Options that a kind of run lacks are dropped with any value, since they had no effect. The file is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.configs.core.errors import ConfigError
from sparring.configs.kinds import knows, owners, run_kind
from sparring.configs.language import LeagueConfig
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_plain

REMOVED = {("grpo", "first_decision_only"): False, ("grpo", "mask_replay"): True}
"""Options, by section and name, of earlier versions: the value that is now the only behaviour."""


def migrate(plain: Any) -> Any:
    """Return a stored configuration without the options of other kinds of run; unknown keys stay, refused later.

    Raises `ConfigError` for a removed option whose value is not the remaining one.
    """
    return _kept(run_kind(plain), _without_removed(plain), "") if isinstance(plain, Mapping) else plain


def from_stored(plain: Any) -> RunConfig:
    """Build the configuration that a config.yaml or a checkpoint holds; raises `ConfigError` like `from_plain`."""
    return from_plain(migrate(plain))


def _without_removed(plain: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(plain)
    league = kept.get("league")
    if isinstance(league, Mapping) and league.get("checkpoint_schedule") == "thinning":
        # Accepted without effect by earlier versions, and changed by `scale`.
        kept["league"] = {**league, "checkpoint_every": LeagueConfig.checkpoint_every}
    for (section, name), only in REMOVED.items():
        if isinstance(kept.get(section), Mapping) and name in kept[section]:
            kept[section] = dict(kept[section])
            if (value := kept[section].pop(name)) is not only:
                raise ConfigError(f"{section}.{name}={value}: is no option any more, and every run has {only}")
    return kept


def _kept(kind: type[RunConfig], value: Any, key: str) -> Any:
    if isinstance(value, list):
        return [_kept(kind, item, key) for item in value]
    if not isinstance(value, Mapping):
        return value
    keys = {name: f"{key}.{name}" if key else str(name) for name in value}
    return {
        name: _kept(kind, item, keys[name])
        for name, item in value.items()
        if knows(kind, keys[name]) or not owners(keys[name])
    }
