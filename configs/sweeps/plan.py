"""A sweep as it is launched: its runs, composed and checked, and the launcher that starts them.

Files in `configs/launcher/` set Hydra's launcher; `launcher=NAME` chooses one and `hydra.launcher.KEY=VALUE` changes
one of its options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.load import CONFIG_DIR
from sparring.configs.schema import RunConfig

LAUNCHERS, DEFAULT_LAUNCHER = CONFIG_DIR / "launcher", "joblib"
CHOICE, OPTION = "launcher=", "hydra.launcher."
MOST_RUNS = 1000


@dataclass(frozen=True)
class HydraLauncher:
    """Launcher of Hydra and its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class SweepPlan:
    """Runs to launch: run i is called `<name>-<labels[i]>` and described by `varied[i]`."""

    name: str
    """Empty for a generated one."""
    launcher: HydraLauncher
    runs: list[RunConfig]
    labels: list[str]
    varied: list[str]
    """Differing values of each run, such as "seed=1 ppo.clip=0.1"."""
    file: dict[str, Any] = field(default_factory=dict)
    """Content of the sweep file, if there is one; it is stored with the sweep."""

    def __post_init__(self) -> None:
        if len(self.runs) > MOST_RUNS:
            raise ConfigError(f"{len(self.runs)} runs: a sweep has at most {MOST_RUNS}; give fewer values")


def read_launcher(arguments: Sequence[str]) -> tuple[HydraLauncher, list[str]]:
    """Return the launcher that the arguments choose, and the other arguments."""
    names = [text.removeprefix(CHOICE) for text in arguments if text.startswith(CHOICE)]
    name = choose("launcher", names[-1] if names else DEFAULT_LAUNCHER, launchers())
    file = yaml.safe_load((LAUNCHERS / f"{name}.yaml").read_text(encoding="utf-8"))
    options = dict(file["options"])
    for text in arguments:
        if text.startswith(OPTION):
            key, _, value = text.removeprefix(OPTION).partition("=")
            options[key] = yaml.safe_load(value)
    rest = [text for text in arguments if not text.startswith((CHOICE, OPTION))]
    return HydraLauncher(file["launcher"], options), rest


def launchers() -> list[str]:
    """Return the names for `launcher=`."""
    return sorted(path.stem for path in LAUNCHERS.glob("*.yaml"))


def without_bar(config: RunConfig) -> RunConfig:
    """Return the run without a progress bar, since several bars would overlap."""
    if config.resume:
        raise ConfigError(f"resume={config.resume}: a sweep begins runs; repeat it with its name= to continue them")
    return replace(config, logger=replace(config.logger, progress=False))
