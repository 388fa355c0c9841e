"""Names of options in other libraries and their names here; by spelling alone, the nearest name to lr would be clip.

Sources are the argument lists of Stable-Baselines3's `PPO` with RL Zoo, CleanRL's `ppo.py`, rsl_rl's runner and `PPO`,
and RLlib's `PPOConfig`; kinds of run add those of other trainers. On a command line, and in the overrides of
`sparring.train`, a name with the same meaning and unit is replaced by ours, with a message. A name with a different
meaning is rejected with our name and the difference. Files, including stored configurations, accept only our names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from sparring.configs.core.errors import ConfigError
from sparring.configs.core.status import say
from sparring.configs.kinds import run_kinds

SB3, CLEANRL, RSL_RL, RLLIB = "SB3", "CleanRL", "rsl_rl", "RLlib"
SECTIONS = ("", "ppo", "env", "network", "logger", "policy", "agent", "algorithm", "runner", "train")


class ForeignName(NamedTuple):
    """The option `key` that another library calls differently, and how the two differ; empty if they do not."""

    key: str
    libraries: Sequence[str]
    note: str = ""


UPDATE = "an update is ppo.rollout_steps x env.num_envs steps"
FOLDER = "the folder of one run; an existing one is continued"
SAMPLES = "as the samples of one minibatch, out of ppo.rollout_steps x env.num_envs"

POLICIES = {
    "lr": ForeignName("ppo.learning_rate", (CLEANRL, RLLIB)),
    "anneal_lr": ForeignName("ppo.final_learning_rate_fraction", (CLEANRL,), "0 anneals it to zero, 1 not at all"),
    "n_envs": ForeignName("env.num_envs", (SB3,)),
    "n_steps": ForeignName("ppo.rollout_steps", (SB3,)),
    "num_steps": ForeignName("ppo.rollout_steps", (CLEANRL,)),
    "num_steps_per_env": ForeignName("ppo.rollout_steps", (RSL_RL,)),
    "train_batch_size": ForeignName("ppo.rollout_steps", (RLLIB,), "per match, not in total"),
    "n_epochs": ForeignName("ppo.epochs", (SB3,)),
    "update_epochs": ForeignName("ppo.epochs", (CLEANRL,)),
    "num_learning_epochs": ForeignName("ppo.epochs", (RSL_RL,)),
    "num_epochs": ForeignName("ppo.epochs", (RLLIB,)),
    "batch_size": ForeignName("ppo.minibatch_size", (SB3,)),
    "num_minibatches": ForeignName("ppo.minibatch_size", (CLEANRL,), SAMPLES),
    "num_mini_batches": ForeignName("ppo.minibatch_size", (RSL_RL,), SAMPLES),
    "sgd_minibatch_size": ForeignName("ppo.minibatch_size", (RLLIB,)),
    "discount": ForeignName("ppo.gamma", ("other libraries",)),
    "lam": ForeignName("ppo.gae_lambda", (RSL_RL,)),
    "lambda_": ForeignName("ppo.gae_lambda", (RLLIB,)),
    "clip_range": ForeignName("ppo.clip", (SB3,)),
    "clip_coef": ForeignName("ppo.clip", (CLEANRL,)),
    "clip_param": ForeignName("ppo.clip", (RSL_RL, RLLIB)),
    "clip_range_vf": ForeignName("ppo.value_clip", (SB3,), "the same bound; 0 disables it, not null"),
    "clip_vloss": ForeignName("ppo.value_clip", (CLEANRL,), "a bound, not a switch; 0 disables it"),
    "vf_clip_param": ForeignName("ppo.value_clip", (RLLIB,), "of the change of the value, not of its squared error"),
    "ent_coef": ForeignName("ppo.entropy_coefficient", (SB3, CLEANRL)),
    "entropy_coef": ForeignName("ppo.entropy_coefficient", (RSL_RL,)),
    "entropy_coeff": ForeignName("ppo.entropy_coefficient", (RLLIB,)),
    "vf_coef": ForeignName("ppo.value_coefficient", (SB3, CLEANRL), "SB3's number, and half of CleanRL's"),
    "value_loss_coef": ForeignName("ppo.value_coefficient", (RSL_RL,)),
    "vf_loss_coeff": ForeignName("ppo.value_coefficient", (RLLIB,)),
    "grad_clip": ForeignName("ppo.max_grad_norm", (RLLIB,)),
    "desired_kl": ForeignName("ppo.adaptive_kl", (RSL_RL,), "of the mean KL of an update, not of a minibatch"),
    "use_sde": ForeignName("network.gsde", (SB3,)),
    "sde_sample_freq": ForeignName("ppo.gsde_every", (SB3,), "0 draws once per rollout"),
    "net_arch": ForeignName("network.hidden", (SB3,), "the width of two layers, or of network.blocks residual ones"),
    "policy_kwargs": ForeignName("network.hidden", (SB3,), "`--help network` lists the others"),
    "actor_hidden_dims": ForeignName("network.hidden", (RSL_RL,), "one width for all layers"),
    "activation_fn": ForeignName("network.activation", (SB3,), "a name, such as tanh, not a class"),
    "init_noise_std": ForeignName("network.log_std_init", (RSL_RL,), "its logarithm"),
    "total_timesteps": ForeignName("max_updates", (SB3, CLEANRL), UPDATE),
    "n_timesteps": ForeignName("max_updates", (SB3,), UPDATE),
    "max_iterations": ForeignName("max_updates", (RSL_RL,), "it ends the schedule early and does not lengthen it"),
    "env_id": ForeignName("env.id", (CLEANRL,)),
    "normalize": ForeignName("env.normalize_obs", (SB3,), "and env.normalize_reward"),
    "exp_name": ForeignName("name", (CLEANRL,), FOLDER),
    "experiment_name": ForeignName("name", (RSL_RL,), FOLDER),
    "save_interval": ForeignName("checkpoint_every", (RSL_RL,)),
    "torch_deterministic": ForeignName("deterministic", (CLEANRL,)),
    "cuda": ForeignName("device", (CLEANRL,), "device=cuda or device=cpu"),
    "track": ForeignName("logger.wandb", (CLEANRL,), "logger.wandb=online"),
    "wandb_project_name": ForeignName("logger.wandb_project", (CLEANRL,)),
    "verbose": ForeignName("logger.progress", (SB3,), "true or false"),
}


def foreign_name(key: str) -> ForeignName | None:
    """Return our name for another library's dotted `key`, None if it is unknown."""
    section, _, name = key.rpartition(".")
    if name in POLICIES and section in SECTIONS:
        return POLICIES[name]
    return next((kind.foreign_names[key] for kind in run_kinds() if key in kind.foreign_names), None)


def in_our_words(overrides: Sequence[str]) -> list[str]:
    """Replace equivalent names of other libraries by ours, and print a line for each.

    `overrides` are texts `key=value`. Raises `ConfigError` for an option that is set under two names.
    """
    texts = {_key(text): text for text in overrides}
    ours: dict[str, str] = {}
    for key in texts:
        option = foreign_name(key)
        if option is None or option.note:
            continue
        if other := next((k for k in (option.key, *ours) if k in texts and ours.get(k, k) == option.key), ""):
            raise ConfigError(f"{texts[key]} and {texts[other]}: are the same option here, {option.key}; set it once")
        ours[key] = option.key
        say(f"{key} is {option.key} here", enabled=os.environ.get("RANK", "0") == "0")
    keys = [(ours.get(_key(text), ""), text) for text in overrides]
    return [f"{key}={text.partition('=')[2]}" if key else text for key, text in keys]


def _key(text: str) -> str:
    return text.partition("=")[0].lstrip("+~")


def translation(key: str) -> str:
    """Return "did you mean ppo.learning_rate (lr in CleanRL)?" for a name of another library, else nothing."""
    option = foreign_name(key)
    if option is None:
        return ""
    origin = f"{key.rpartition('.')[2]} in {' and '.join(option.libraries)}"
    return f"did you mean {option.key} ({origin}{f'; {option.note}' if option.note else ''})?"
