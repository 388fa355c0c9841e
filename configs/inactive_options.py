"""Options of GRPO and its league that have no effect unless another is given, too: refused, for nobody would notice.

Who gives a parameter of something that is off by default believes it to be on. What is on by default may be switched
off beside its parameters, as a run file may have them: `grpo.kl_beta=0` beside its warm-up is no mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import RunConfig

NEEDS: tuple[tuple[tuple[str, ...], str, Callable[[RunConfig], bool]], ...] = (
    (
        ("grpo.importance_mask", "grpo.importance_cap"),
        "grpo.use_importance_correction=true",
        lambda run: run.grpo.use_importance_correction,
    ),
    (("grpo.use_ema_reference",), "grpo.kl_beta above 0", lambda run: run.grpo.kl_beta > 0),
    (("grpo.ema_tau",), "grpo.use_ema_reference=true", lambda run: run.grpo.use_ema_reference),
    (
        ("grpo.use_strategic_step_scoring",),
        "grpo.use_trajectory_level_rewards=false",
        lambda run: not run.grpo.use_trajectory_level_rewards,
    ),
    (("grpo.elo_scale",), "grpo.use_elo_conditioned_rewards=true", lambda run: run.grpo.use_elo_conditioned_rewards),
    (("league.matchmaking",), "grpo.play=league", lambda run: run.grpo.play == "league"),
    (
        ("league.win_rate_form", "league.win_rate_power"),
        "league.matchmaking=win_rate",
        lambda run: run.league.matchmaking == "win_rate",
    ),
    (("league.win_rate_power",), "league.win_rate_form=hard", lambda run: run.league.win_rate_form == "hard"),
    (
        ("league.rating_width", "league.rating_self_play"),
        "league.matchmaking=rating",
        lambda run: run.league.matchmaking == "rating",
    ),
)
"""Options, what they need to have an effect on what is learned, and whether that is given."""


def check_idle(config: RunConfig) -> None:
    """Refuse an option that is not its default and has no effect beside the others; raises `ConfigError`."""
    usual = RunConfig()
    for keys, need, given in NEEDS:
        for key in () if given(config) else keys:
            value, default = (str(_value(one, key)).lower() for one in (config, usual))
            if value != default:
                raise ConfigError(f"{key}={value}: has no effect without {need}; give that, too, or {key}={default}")


def _value(config: RunConfig, key: str) -> Any:
    return reduce(getattr, key.split("."), config)
