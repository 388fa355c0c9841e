"""Kinds of run that train a language model, and the checks of options that depend on each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from sparring.configs import language
from sparring.configs.core.allowed import option
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.session import GuardConfig
from sparring.configs.games import EXPLOITED
from sparring.configs.language.league import SHARED, LeagueConfig
from sparring.configs.language.trl_names import BY_KEY
from sparring.configs.schema import DOGFIGHT_CHECKS, TRAINERS, EvaluationConfig, Instead, RunConfig, check_games


@dataclass
class LanguageRunConfig(RunConfig):
    """A language model in a game."""

    language_model: ClassVar[bool] = True
    foreign_names: ClassVar[Mapping[str, Any]] = BY_KEY
    lacks: ClassVar[tuple[str, ...]] = ("env.num_envs", *DOGFIGHT_CHECKS, *EXPLOITED)
    removed: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "endpoint": Instead("evaluations take it in --set (docs/llm_endpoints.md)"),
            "model.backend": "transformers",
            "model.lora_alpha": 0.0,
        }
    )

    dry_run: bool = False
    """Print the data, the schedule and the rewards of reference answers, and stop: no model is loaded. Runs of chess
    have it (rookworld_*); --cfg prints the configuration of any run."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    model: language.LanguageModelConfig = field(default_factory=language.LanguageModelConfig)

    @property
    def game_id(self) -> str:
        """Id of the game's descriptor."""
        return self.game

    def check_game(self) -> int:
        """Return the number of seats of the game; raises `ConfigError` if it cannot be made."""
        return self.seats


@dataclass
class GRPORunConfig(LanguageRunConfig):
    """GRPO trains a language model."""

    trainers = ("grpo",)
    removed = MappingProxyType({
        **LanguageRunConfig.removed,
        "grpo.first_decision_only": False, "grpo.mask_replay": True, "grpo.elo_scale": 0.5, "grpo.kl_horizon": 10,
        "grpo.leader_gap_threshold": 3, "grpo.min_group_size": 2, "grpo.solo_victory_sc": 18,
        "league.win_rate_form": "hard", "league.win_rate_power": 2.0, "league.peer_elo": 100.0,
        "league.rating_self_play": 0.15, "overfit.max_kl_share": 0.7, "overfit.persistent": 0.5,
        "overfit.max_norm_growth": 10.0, "overfit.max_skipped": 0.5, "grpo.advantage_min_std": 1e-8,
        "grpo.executor_address": "auto", "grpo.rollout_no_warmup_chance": 0.2, "grpo.baseline_decay": 0.95,
    })  # fmt: skip
    idle = (
        ("grpo.kl_beta=0.0", ("grpo.kl_beta_start_step", "grpo.kl_beta_warmup_steps")),
        ("overfit.enabled=false", ("overfit.",)),
        ("grpo.baseline=role", ("grpo.use_state_stratified_groups", "grpo.min_reward_variance")),
        ("grpo.use_trajectory_level_rewards=true", (
            "grpo.step_reward_weight", "grpo.final_reward_weight", "grpo.reward_discount_",
        )),
        ("grpo.play=self_play", (
            "league.self_play", "league.peer", "league.exploitable", "league.baseline", "league.final_",
            "league.cold_start_steps", "league.dumbbot_game",
        )),
    )  # fmt: skip

    trainer: str = option("grpo", TRAINERS)
    grpo: language.GRPOConfig = field(default_factory=language.GRPOConfig)
    league: LeagueConfig = field(default_factory=LeagueConfig)
    overfit: language.OverfitConfig = field(default_factory=language.OverfitConfig)

    def check(self) -> None:
        """Refuse options that do not fit together; raises `ConfigError`."""
        check_games(self.evaluation, self.multiple)
        super().check()
        _check_grpo(self.grpo)
        _check_shares(self.league)

    def may_change(self, key: str, now: RunConfig) -> bool:
        """Return True for more steps. Raises `ConfigError` for fewer, and for more if a schedule ends there."""
        if key != "grpo.steps" or not isinstance(now, GRPORunConfig):
            return False
        was, value = self.grpo.steps, now.grpo.steps
        started = f"grpo.steps={value}: the run was started with {was}"
        if value < was:
            raise ConfigError(f"{started}; leave it out, and give max_updates={value} to stop there")
        moving = moving_shares(self.league)
        if moving:
            raise ConfigError(
                f"{started}, at which {moving[0]} is reached; leave it out, or begin another run with another name= "
                f"and {now.start_from(now.name)}"
            )
        return True

    def start_from(self, run: str) -> str:
        """Return the option with which a new run starts from the adapter of `run`."""
        return f"model.adapter={self.checkpoint_dir}/{run}/final.pt"

    @classmethod
    def migrated(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Return stored options without a value that had no effect."""
        migrated = dict(plain)
        league = migrated.get("league")
        if isinstance(league, Mapping) and league.get("checkpoint_schedule") == "thinning":
            # Accepted without effect by earlier versions, and changed by `scale`.
            migrated["league"] = {**league, "checkpoint_every": LeagueConfig.checkpoint_every}
        return migrated


@dataclass
class CloneRunConfig(LanguageRunConfig):
    """A language model imitates given answers."""

    trainers = ("clone",)
    removed = MappingProxyType({**LanguageRunConfig.removed, "clone.minutes": 0.0})
    lacks: ClassVar[tuple[str, ...]] = (*LanguageRunConfig.lacks, *language.ONLY_ADAPTERS, "guard")

    trainer: str = option("clone", TRAINERS)
    clone: language.CloneConfig = field(default_factory=language.CloneConfig)

    def check(self) -> None:
        """Refuse a width that the heads do not divide into pairs; raises `ConfigError`."""
        width, heads = self.clone.hidden, self.clone.heads
        if width % (2 * heads):
            raise ConfigError(f"clone.hidden={width}: must be a multiple of {2 * heads}, twice clone.heads")
        super().check()


def _check_grpo(grpo: language.GRPOConfig) -> None:
    if grpo.use_token_level_loss and grpo.aggregation == "dr_grpo":
        raise ConfigError(
            "grpo.use_token_level_loss=true: weighs samples by their tokens, and grpo.aggregation=dr_grpo weighs none;"
            " choose one of them"
        )
    if grpo.baseline == language.ROLE and grpo.scale_advantages:
        raise ConfigError(
            "grpo.baseline=role: does not divide by the spread of a group; give grpo.scale_advantages=false, too"
        )
    if 0 < grpo.ppo_delta <= 1 + grpo.ppo_epsilon_high:
        raise ConfigError(
            f"grpo.ppo_delta={grpo.ppo_delta:g}: must be above 1 + grpo.ppo_epsilon_high, "
            f"{1 + grpo.ppo_epsilon_high:g}, or 0 for no bound"
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


def _check_shares(league: LeagueConfig) -> None:
    first = [getattr(league, name) for name in SHARED]
    last = [getattr(league, f"final_{name}") for name in SHARED]
    last = [start if end < 0 else end for start, end in zip(first, last, strict=True)]
    for prefix, shares in (("", first), ("final_", last)):
        if abs(sum(shares) - 1.0) > 0.01:
            names = ", ".join(f"league.{prefix}{name}" for name in SHARED)
            raise ConfigError(f"{names}: are {shares}, which sum to {sum(shares):g}; they must sum to 1")


def moving_shares(league: LeagueConfig) -> list[str]:
    """Return the options by which a league's shares move until the last step, as they do without `final_at`."""
    if league.final_at:
        return []
    last = {name: float(getattr(league, f"final_{name}")) for name in SHARED}
    return [f"league.final_{name}" for name, end in last.items() if end >= 0.0 and end != getattr(league, name)]
