"""What concerns several options of language models at once; `validate.py` has checked each by itself."""

from __future__ import annotations

from sparring.configs.core.errors import ConfigError
from sparring.configs.language import SHARED, EndpointConfig
from sparring.configs.schema import DIPLOMACY, RunConfig

LANGUAGE_TRAINERS = ("grpo", "clone")


def check_language(config: RunConfig) -> None:
    """Refuse a run of `LANGUAGE_TRAINERS` that cannot be, with one line; raises `ConfigError`."""
    if config.env.id != DIPLOMACY:
        raise ConfigError(f"trainer={config.trainer}: plays {DIPLOMACY}, not env.id={config.env.id}; give that")
    _check_clone(config)
    _check_backend(config)
    _check_grpo(config)
    _check_shares(config)


def check_endpoint(endpoint: EndpointConfig) -> None:
    """Refuse what no server could be asked; raises `ConfigError`."""
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


def _check_clone(config: RunConfig) -> None:
    clone = config.clone
    if clone.hidden % (2 * clone.heads):
        raise ConfigError(f"clone.hidden={clone.hidden}: must be a multiple of {2 * clone.heads}, twice clone.heads")


def _check_backend(config: RunConfig) -> None:
    check_endpoint(config.endpoint)
    if config.model.backend == "endpoint":
        why = "makes a model of its own" if config.trainer == "clone" else "cannot give a server its new weights"
        raise ConfigError(f"model.backend=endpoint: trainer={config.trainer} {why}; use transformers")


def _check_grpo(config: RunConfig) -> None:
    grpo = config.grpo
    if grpo.use_token_level_loss and grpo.aggregation == "dr_grpo":
        raise ConfigError(
            "grpo.use_token_level_loss=true: weighs samples by their tokens, and grpo.aggregation=dr_grpo weighs none;"
            " choose one of them"
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


def _check_shares(config: RunConfig) -> None:
    league = config.league
    first = [getattr(league, name) for name in SHARED]
    last = [getattr(league, f"final_{name}") for name in SHARED]
    last = [start if end < 0 else end for start, end in zip(first, last, strict=True)]
    for prefix, shares in (("", first), ("final_", last)):
        if abs(sum(shares) - 1.0) > 1e-6:
            names = ", ".join(f"league.{prefix}{name}" for name in SHARED)
            raise ConfigError(f"{names}: are {shares}, which sum to {sum(shares):g}; they must sum to 1")
