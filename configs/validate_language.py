"""Checks across several options of language models; `validate.py` has checked each by itself."""

from __future__ import annotations

from sparring.configs.core.errors import ConfigError
from sparring.configs.games.chess import GAME_SHARES, ChessDataConfig
from sparring.configs.language import SHARED, CloneConfig, EndpointConfig, GRPOConfig, LeagueConfig
from sparring.configs.schema import (
    ChessCloneRunConfig,
    ChessGRPORunConfig,
    CloneRunConfig,
    GRPORunConfig,
    LanguageRunConfig,
)


def check_language(config: LanguageRunConfig) -> None:
    """Refuse an impossible language-model run; raises `ConfigError` with one line."""
    if isinstance(config, CloneRunConfig):
        _check_clone(config.clone)
    if isinstance(config, ChessGRPORunConfig | ChessCloneRunConfig):
        _check_chess_data(config.env.data)
    if isinstance(config, ChessGRPORunConfig):
        _check_one_batch(config)
    _check_backend(config)
    if isinstance(config, GRPORunConfig):
        _check_grpo(config.grpo)
        _check_shares(config.league)


def check_endpoint(endpoint: EndpointConfig) -> None:
    """Refuse impossible server options; raises `ConfigError`."""
    if endpoint.api == "chat" and endpoint.structured not in ("regex", "none"):
        raise ConfigError(
            f"endpoint.structured={endpoint.structured}: with endpoint.api=chat an answer is one message;"
            " use regex (vLLM) or none"
        )
    if endpoint.total_seconds < endpoint.timeout_seconds:
        raise ConfigError(
            f"endpoint.total_seconds={endpoint.total_seconds:g}: must be at least endpoint.timeout_seconds,"
            f" {endpoint.timeout_seconds:g}"
        )


def _check_clone(clone: CloneConfig) -> None:
    if clone.hidden % (2 * clone.heads):
        raise ConfigError(f"clone.hidden={clone.hidden}: must be a multiple of {2 * clone.heads}, twice clone.heads")


def _check_backend(config: LanguageRunConfig) -> None:
    check_endpoint(config.endpoint)
    if config.model.backend == "endpoint":
        why = "makes a model of its own" if config.trainer == "clone" else "cannot give a server its new weights"
        raise ConfigError(f"model.backend=endpoint: trainer={config.trainer} {why}; use transformers")


def _check_grpo(grpo: GRPOConfig) -> None:
    if grpo.use_token_level_loss and grpo.aggregation == "dr_grpo":
        raise ConfigError(
            "grpo.use_token_level_loss=true: weighs samples by their tokens, and grpo.aggregation=dr_grpo weighs none;"
            " choose one of them"
        )
    if 0 < grpo.ppo_delta <= 1 + grpo.ppo_epsilon_high:
        raise ConfigError(
            f"grpo.ppo_delta={grpo.ppo_delta:g}: must be above 1 + grpo.ppo_epsilon_high, "
            f"{1 + grpo.ppo_epsilon_high:g}, or 0 for no bound"
        )
    if grpo.min_group_size > grpo.samples_per_group and not grpo.use_state_stratified_groups:
        raise ConfigError(
            f"grpo.min_group_size={grpo.min_group_size}: must be at most grpo.samples_per_group, "
            f"{grpo.samples_per_group}, or no group is ever used"
        )
    if grpo.kl_target > 0 and grpo.kl_beta == 0:
        raise ConfigError(
            f"grpo.kl_target={grpo.kl_target}: multiplies grpo.kl_beta, which is 0; give that a value such as 0.01"
        )
    if grpo.rollout_long_horizon_years < grpo.rollout_horizon_years:
        raise ConfigError(
            f"grpo.rollout_long_horizon_years={grpo.rollout_long_horizon_years}: must be at least "
            f"grpo.rollout_horizon_years, {grpo.rollout_horizon_years}"
        )


def _check_chess_data(data: ChessDataConfig) -> None:
    shares = {f"env.data.{name}": getattr(data, name) for name in GAME_SHARES}
    if abs(sum(shares.values()) - 1.0) > 1e-6:
        raise ConfigError(
            f"{', '.join(shares)}: are {list(shares.values())}, which sum to {sum(shares.values()):g}; they must sum"
            " to 1"
        )


def _check_one_batch(config: ChessGRPORunConfig) -> None:
    """Refuse a check on one batch whose task changes in training."""
    share, mixed = config.tasks.analysis_share, config.tasks.mixed
    if config.overfit.enabled and not mixed and share not in (0.0, 1.0):
        raise ConfigError(
            f"tasks.analysis_share={share}: overfit.enabled=true trains on one batch, but its task would change; give"
            " 0, 1 or tasks.mixed=true"
        )


def _check_shares(league: LeagueConfig) -> None:
    first = [getattr(league, name) for name in SHARED]
    last = [getattr(league, f"final_{name}") for name in SHARED]
    last = [start if end < 0 else end for start, end in zip(first, last, strict=True)]
    for prefix, shares in (("", first), ("final_", last)):
        if abs(sum(shares) - 1.0) > 0.01:
            names = ", ".join(f"league.{prefix}{name}" for name in SHARED)
            raise ConfigError(f"{names}: are {shares}, which sum to {sum(shares):g}; they must sum to 1")
