"""A run continued with other options than it was begun with: which differences are harmless, and which are refused.

Harmless is what does not change what is learned: logs, checks, saving, the length of this sitting, the machine. The
machine's options and the number of matches make the continuation inexact, which the run says.
"""

from __future__ import annotations

from typing import Any

from configs.names import ConfigError
from configs.schema import RunConfig
from configs.validate import options

HARMLESS = (
    "name", "run", "resume", "checkpoint_dir", "checkpoint_every", "checkpoint_minutes", "keep_states", "grace_seconds",
    "patience_seconds", "max_updates", "device", "deterministic", "threads", "env.num_envs", "logger", "evaluation",
)  # fmt: skip


def drift(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Options that differ, by dotted key: (before, now); None where one side has no such entry.

    Raises `ConfigError` naming the first that is not harmless.
    """
    old, new = ({key: value for key, value, _ in options(config)} for config in (before, now))
    changed = {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}
    for key, (was, value) in changed.items():
        if not _harmless(key):
            raise ConfigError(
                f"{key}={value}: the run was begun with {was}, and what it learned depends on it; "
                "leave it out to continue, or begin another run with another name="
            )
    return {key: pair for key, pair in changed.items() if key not in ("name", "run", "resume", "checkpoint_dir")}


def _harmless(key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in HARMLESS)
