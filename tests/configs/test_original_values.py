"""Sweeps and experiments against the values of the original system: every difference is named in its file.

The values are facts of github.com/bglick13/diplomacy-v2 at commit e6e2d33 (28 December 2025): the defaults of its
configuration, the differences in its sweep files, and those of the commands in its log of experiments; options have the
names that they have here.
"""

import re

import pytest

from sparring.configs.load import CONFIG_DIR, load
from sparring.configs.serialization import to_plain
from sparring.eval.analysis.sweeps.plan import read_sweep

DEFAULTS = {
    "model": {"lora_rank": 32, "lora_targets": "all", "temperature": 0.8, "show_valid_moves": False,
              "show_board_context": True, "show_map_windows": True, "show_action_counts": True},
    "league": {"dumbbot_game_probability": 0.1},
    "grpo": {
        "steps": 200, "groups": 16, "samples_per_group": 8, "buffer_depth": 3, "rollout_horizon_years": 4,
        "rollout_long_horizon_years": 6, "rollout_long_horizon_chance": 0.2,
        "win_bonus": 50.0, "winner_threshold_sc": 5, "use_position_scoring": True,
        "step_reward_weight": 0.8, "final_reward_weight": 0.2, "reward_discount_gamma": 0.0,
        "use_trajectory_level_rewards": False, "use_state_stratified_groups": False,
        "use_elo_conditioned_rewards": False, "leader_gap_penalty_weight": 0.3,
        "balance_bonus_weight": 0.2, "use_strategic_step_scoring": False,
        "learning_rate": 1e-5, "max_grad_norm": 10.0, "kl_beta": 0.0, "kl_beta_warmup_steps": 20, "kl_target": 0.0,
        "use_ema_reference": False, "ema_tau": 0.99, "use_ppo_clipping": True,
        "ppo_epsilon_low": 0.2, "ppo_epsilon_high": 0.5, "use_token_level_loss": True, "entropy_coef": 0.01,
        "use_importance_correction": True, "importance_cap": 3.0, "advantage_clip": 10.0,
        "loss_type": "grpo", "min_reward_variance": 0.0,
    },
}  # fmt: skip
PLAIN = {"grpo.use_token_level_loss": False, "grpo.entropy_coef": 0.0, "grpo.kl_beta_warmup_steps": 0}
STEADY = PLAIN | {"grpo.learning_rate": 5e-6, "grpo.max_grad_norm": 5.0, "model.lora_rank": 16}
BARE = STEADY | {
    "grpo.use_ppo_clipping": False, "grpo.use_importance_correction": False, "model.lora_targets": "attention",
}  # fmt: skip
EMA = PLAIN | {
    "model.lora_rank": 16, "model.temperature": 0.65, "grpo.learning_rate": 1e-6, "grpo.max_grad_norm": 5.0,
    "grpo.loss_type": "gspo", "grpo.use_ema_reference": True, "grpo.kl_beta": 0.04, "grpo.importance_cap": 1.5,
    "grpo.min_reward_variance": 0.01, "league.dumbbot_game_probability": 0.0,
}  # fmt: skip
LONG = {"grpo.rollout_horizon_years": 8, "grpo.rollout_long_horizon_years": 12, "grpo.rollout_long_horizon_chance": 0.5}
STRATEGIC = {
    "grpo.use_strategic_step_scoring": True, "grpo.step_reward_weight": 0.2, "grpo.final_reward_weight": 0.8,
    "grpo.win_bonus": 200.0, "grpo.winner_threshold_sc": 10,
}  # fmt: skip
STRATA, RATED = {"grpo.use_state_stratified_groups": True}, {"grpo.use_elo_conditioned_rewards": True}
SPARSE = {"grpo.use_trajectory_level_rewards": True}
RANK, MLP, NO_CLIP = {"model.lora_rank": 32}, {"model.lora_targets": "all"}, {"grpo.use_ppo_clipping": False}
SWEEPS = {
    "stability_ablation": (
        BARE | {"grpo.steps": 20},
        {"A": {}, "B": {"grpo.use_ppo_clipping": True}, "C": {"grpo.use_token_level_loss": True}, "D": RANK,
         "E": {"grpo.entropy_coef": 0.01}, "F": {"grpo.kl_beta": 0.01}, "G": MLP, "H": RANK | MLP},
    ),
    "mlp_ablation": (BARE | {"grpo.steps": 75, "grpo.kl_beta": 0.01}, {"A": {}, "B": MLP}),
    "mlp_stability": (
        STEADY | {"grpo.steps": 30, "grpo.kl_beta": 0.01},
        {"A": NO_CLIP, "B": {"grpo.kl_beta": 0.0}, "C": {}, "D": {"grpo.kl_beta": 0.02}},
    ),
    "reward_discount": (
        STEADY | {"grpo.steps": 100, "grpo.kl_beta": 0.02},
        {"A": {}, "B": {"grpo.reward_discount_gamma": 0.95}, "C": {"grpo.reward_discount_gamma": 1.0}},
    ),
    "reward_structure": (EMA | {"grpo.steps": 100}, {"A": {}, "B": SPARSE}),
    "grpo_grouping": (EMA | {"grpo.steps": 30}, {"A": {}, "B": STRATA, "C": RATED, "D": STRATA | RATED}),
    "signal_noise": (
        EMA | {"grpo.steps": 100},
        {"A": {}, "B": STRATA, "C": SPARSE | RATED | {"grpo.step_reward_weight": 0.0,
         "grpo.final_reward_weight": 1.0, "grpo.reward_discount_gamma": 0.99}},
    ),
    "horizon_scoring": (
        {"grpo.steps": 100, "grpo.leader_gap_penalty_weight": 0.0, "grpo.balance_bonus_weight": 0.0},
        {"A": {}, "B": LONG, "C": STRATEGIC, "D": LONG | STRATEGIC},
    ),
}  # fmt: skip
"""Of each sweep what all runs share, and what each adds."""
FIVE_YEARS = {"grpo.steps": 250, "grpo.rollout_horizon_years": 5, "grpo.winner_threshold_sc": 7}
EXPERIMENTS = {
    1: FIVE_YEARS,
    2: FIVE_YEARS | {"grpo.steps": 150, "league.initial_elo": 1200.0},
    3: {"grpo.steps": 200, "grpo.rollout_horizon_years": 8, "grpo.winner_threshold_sc": 10, "grpo.buffer_depth": 4,
        "grpo.groups": 12},
    4: {"grpo.steps": 250, "league.baseline": 0.4, "league.self_play": 0.3, "league.peer": 0.2,
        "league.exploitable": 0.1, "league.final_baseline": 0.1, "league.final_self_play": 0.4,
        "league.final_peer": 0.35, "league.final_exploitable": 0.15, "league.final_at": 100},
    5: FIVE_YEARS | {"grpo.win_bonus": 20.0, "grpo.winner_threshold_sc": 5},
    6: FIVE_YEARS | {"grpo.kl_beta_warmup_steps": 20, "grpo.advantage_clip": 5.0},
    7: {"grpo.steps": 250, "grpo.kl_beta": 0.0, "grpo.advantage_clip": 10.0},
    8: FIVE_YEARS | {"grpo.kl_beta": 0.04, "grpo.kl_beta_warmup_steps": 10, "grpo.kl_target": 0.02,
                     "grpo.advantage_clip": 5.0},
}  # fmt: skip
SIZES = {
    *("model.lora_rank", "model.show_map_windows", "model.show_action_counts", "grpo.steps", "grpo.groups"),
    *("grpo.samples_per_group", "grpo.buffer_depth", "grpo.learning_rate", "grpo.rollout_horizon_years"),
    *("grpo.rollout_long_horizon_years", "grpo.kl_beta_warmup_steps", "league.final_at"),
}
"""What a quick version may change."""


def differences(changes, config, but=()):
    """Return the options, by name without section, in which a run differs from the recorded values."""
    values = {f"{section}.{name}": value for section, part in DEFAULTS.items() for name, value in part.items()}
    values |= changes
    if values["grpo.kl_beta"] == config["grpo"]["kl_beta"] == 0:
        values.pop("grpo.kl_beta_warmup_steps")  # of nothing
    here = {key: config[key.partition(".")[0]][key.partition(".")[2]] for key in values}
    return {key.partition(".")[2] for key, value in values.items() if here[key] != value and key not in but}


def unnamed(path, differing):
    """Return the differing options that no comment of the file names."""
    comments = " ".join(line for line in path.read_text().splitlines() if line.startswith("#"))
    return differing - set(re.findall(r"\w+", comments))


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_match_original_values_or_name_difference(name):
    shared, runs = SWEEPS[name]
    plan = read_sweep([f"+sweep={name}", "seed=0"])
    assert [label.partition("-")[0] for label in plan.labels] == list(runs)
    for changes, config in zip(runs.values(), plan.runs, strict=True):
        assert not unnamed(CONFIG_DIR / "sweep" / f"{name}.yaml", differences(shared | changes, to_plain(config)))


@pytest.mark.parametrize("quick", ["", "_quick"])
@pytest.mark.parametrize("number", EXPERIMENTS)
def test_experiments_match_original_values_or_name_difference(number, quick):
    name = f"diplomacy_exp{number}{quick}"
    config = to_plain(load([f"+run={name}", "model.adapter=x"]))
    differing = differences(EXPERIMENTS[number], config, SIZES if quick else ())
    assert not unnamed(CONFIG_DIR / "run" / f"{name}.yaml", differing)


def test_every_sweep_based_on_original_is_compared():
    own = {"mlp_stability_quick", "quickstart_search"}
    assert {path.stem for path in (CONFIG_DIR / "sweep").glob("*.yaml")} - own == set(SWEEPS)
