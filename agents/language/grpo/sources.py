"""What a new GRPO run begins with: the files and players that its options name. This does not import torch."""

from __future__ import annotations

from pathlib import Path

from sparring.configs.core.errors import ConfigError
from sparring.configs.core.files import ROOT, holds
from sparring.configs.language import GIVE_ADAPTER
from sparring.configs.language.runs import GRPORunConfig
from sparring.curriculum.league.file import LeagueError, LeagueFile
from sparring.envs.text import text_game


def check_sources(config: GRPORunConfig) -> None:
    """Refuse a new GRPO run whose initial adapter, league or players of the league are missing."""
    config.check_game()
    adapter, source = config.model.adapter, config.league.inherit
    if adapter == GIVE_ADAPTER:
        raise ConfigError(
            f"model.adapter is missing: +run={config.run} trains an existing adapter; set model.adapter=FILE, such as "
            "checkpoints/RUN/final.pt"
        )
    if adapter and not holds(Path(adapter).is_file):
        raise ConfigError(f"model.adapter={adapter}: is not a file; pass an adapter, such as checkpoints/RUN/final.pt")
    if source:
        try:
            LeagueFile(ROOT / config.checkpoint_dir / source).read()
        except LeagueError as error:
            raise LeagueError(f"league.inherit={source}: {error}") from error
    if named := config.league.players:
        opens = text_game(config.game_id).league_players  # Loads torch, which opening a policy needs.
        if opens is None:
            raise ConfigError(f"league.players=[{','.join(named)}]: {config.env.id} does not support it; leave it out")
        opens(config)
