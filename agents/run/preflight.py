"""What a run is refused for before torch and the simulator are loaded, which takes half a minute on a slow machine.

The trainers look at the same things again: who calls them directly has not passed here.
"""

from __future__ import annotations

import os
from pathlib import Path

from sparring.agents.run.folder import RunFolder
from sparring.agents.run.fresh_run import changes, is_unbegun
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.paths import ROOT
from sparring.configs.schema import DOGFIGHT, RunConfig
from sparring.curriculum.league.file import LeagueError, LeagueFile


def check_early(config: RunConfig) -> None:
    """Raise `InputError` for what the trainer cannot do, and for options that a continued run may not change."""
    if config.trainer == "sb3":
        check_sb3(config)
    if os.environ.get("WORLD_SIZE", "1") == "1":  # One of several could find the folder before it has its contents.
        existing = RunFolder.open(ROOT / config.checkpoint_dir, config.name)
        if existing:
            changes(existing, config)
        if config.trainer == "grpo" and (existing is None or is_unbegun(existing)):
            check_sources(config)


def check_sources(config: RunConfig) -> None:
    """Refuse a GRPO run whose adapter or league to begin with is not there, before it has a folder of its own."""
    adapter, source = config.model.adapter, config.league.inherit
    if adapter and not Path(adapter).is_file():
        raise ConfigError(f"model.adapter={adapter}: is no file; give an adapter's, such as checkpoints/RUN/final.pt")
    if source:
        try:
            LeagueFile(ROOT / config.checkpoint_dir / source).read()
        except LeagueError as error:
            raise LeagueError(f"league.inherit={source}: {error}") from error


def check_sb3(config: RunConfig) -> None:
    """Refuse what SB3's PPO cannot do here, and a run that was begun, which it would write over."""
    if config.env.id != DOGFIGHT:
        raise ConfigError(f"env.id={config.env.id}: trainer=sb3 plays only {DOGFIGHT}; train others with SB3 itself")
    if config.network.blocks:
        raise ConfigError(f"network.blocks={config.network.blocks}: trainer=sb3 knows plain layers only; use 0")
    if config.ppo.adaptive_kl:
        raise ConfigError(f"ppo.adaptive_kl={config.ppo.adaptive_kl}: trainer=sb3 anneals by the clock only; use 0")
    for index, phase in enumerate(config.phases):
        if min(phase.scripted_start, phase.scripted_end) < 1.0:
            raise ConfigError(f"phases.{index}.scripted_end={phase.scripted_end}: trainer=sb3 has no self-play; use 1")
    existing = RunFolder.open(ROOT / config.checkpoint_dir, config.name)
    if existing and not is_unbegun(existing):
        raise ConfigError(f"name={config.name}: was begun, and trainer=sb3 cannot resume; choose another name")
