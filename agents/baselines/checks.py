"""Options of a run that Stable-Baselines3's trainer lacks, refused before torch loads."""

from __future__ import annotations

from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPORunConfig
from sparring.envs.game import game_of, games


def check_options(config: PPORunConfig) -> None:
    """Refuse options that SB3's PPO does not support here; raises `ConfigError`."""
    game = game_of(config.env.id)
    able = [game.id for game in games() if game.vector_env]
    if game and game.id not in able:
        raise ConfigError(
            f"env.id={config.env.id}: trainer=sb3 plays {', '.join(able)} and Gymnasium's environments only"
        )
    if config.init_from:
        raise ConfigError(f"init_from={config.init_from}: trainer=sb3 starts from random weights; use trainer=ppo")
    if config.network.blocks:
        raise ConfigError(f"network.blocks={config.network.blocks}: trainer=sb3 supports only plain layers; use 0")
    if config.network.memory != "none":
        raise ConfigError(f"network.memory={config.network.memory}: trainer=sb3 does not support it; use trainer=ppo")
    if config.ppo.adaptive_kl:
        raise ConfigError(f"ppo.adaptive_kl={config.ppo.adaptive_kl}: trainer=sb3 supports only fixed schedules; use 0")
    for index, phase in enumerate(config.phases):
        if min(phase.scripted_start, phase.scripted_end) < 1.0:
            key = f"phases.{index}.scripted_end={phase.scripted_end}"
            raise ConfigError(f"{key}: trainer=sb3 has no self-play; use 1, or +run=bots_only")
