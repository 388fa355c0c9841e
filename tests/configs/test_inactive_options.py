"""Inactive options are rejected by the names of both options, and the suggested fixes work."""

from dataclasses import replace

import pytest
import yaml

from sparring.agents import trainers
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.kinds import bare, declared, run_kinds
from sparring.configs.load import load, runs
from sparring.configs.serialization import to_plain
from sparring.configs.validate import idle_options
from tests.configs.run_configs import run_config

IDLE = [
    (["grpo.importance_mask=true"], "grpo.use_importance_correction=true"),
    (["grpo.importance_cap=2"], "grpo.use_importance_correction=true"),
    (["grpo.use_ema_reference=true", "grpo.kl_beta=0"], "grpo.kl_beta=0.01"),
    (["grpo.ema_tau=0.9"], "grpo.use_ema_reference=true"),
    (
        ["grpo.use_strategic_step_scoring=true", "grpo.use_trajectory_level_rewards=true"],
        "grpo.use_trajectory_level_rewards=false",
    ),
    (["grpo.advantage_std=sample", "grpo.scale_advantages=false"], "grpo.scale_advantages=true"),
    (["grpo.advantage_std_floor=0.1", "grpo.scale_advantages=false"], "grpo.scale_advantages=true"),
    (["grpo.ppo_delta=2", "grpo.use_ppo_clipping=false"], "grpo.use_ppo_clipping=true"),
    (["league.matchmaking=rating", "grpo.play=self_play"], "grpo.play=league"),
    (["league.rating_width=10"], "league.matchmaking=rating"),
    (["league.players=[released/diplomacy_student]", "grpo.play=self_play"], "grpo.play=league"),
    (["league.checkpoint_every=20", "league.checkpoint_schedule=thinning"], "league.checkpoint_schedule=even"),
    (["grpo.workers=2", "grpo.buffer_depth=0"], "grpo.buffer_depth=1"),
    (["grpo.executor=ray", "grpo.buffer_depth=0"], "grpo.buffer_depth=1"),
    (["ppo.gsde_every=4"], "network.gsde=true"),
    (["self_play.exploiter_every=100"], "network.styles=3"),
    (["self_play.exploiter_updates=50", "network.styles=3"], "self_play.exploiter_every=100"),
    (["ppo.sequence_length=4", "env=pettingzoo"], "network.memory=gru"),
    (["self_play.pool_share=0.5", "env=pettingzoo", "self_play.both_seats=false"], "self_play.both_seats=true"),
    (["env.observation=observation", "env=pettingzoo"], "env.package=openspiel"),
    (["env.twin=off", "env=openspiel", "env.id=pettingzoo.classic.tictactoe_v3"], "env.package=pettingzoo"),
    (["env.seat=1", "env=pettingzoo"], "self_play.both_seats=false"),
    (["env.closing=30", "env.rules=challenge"], "env.rules=classic"),
    (["evaluation.check_bot=ace"], "evaluation.check_every=5"),
    (["evaluation.check_bot=ace"], "evaluation.regimes_every=5"),
    (["evaluation.exploit_moves=500", "env=openspiel"], "evaluation.exploit_every=5"),
    (["env.answer.max_tokens=64", "env=openspiel_text"], "env.answer.form=reasoning"),
    (["clone.hidden=64", "model.name=smollm2"], "model.name=tiny"),
    (["clone.layers=2", "model.name=smollm2"], "model.name=tiny"),
    (["clone.heads=2", "model.name=smollm2"], "model.name=tiny"),
    (["clone.init_std=0.1", "model.name=smollm2"], "model.name=tiny"),
]


def grpo(*options):
    return load(["+run=diplomacy_quickstart", *options])


def either(*options):
    """Run the trainer with the given options."""
    if {"env=pettingzoo", "env=openspiel", "env=openspiel_text"} & {*options}:
        return load([*options])
    if options[0].startswith(("ppo.", "self_play.", "evaluation.", "phases.", "network.", "env.")):
        return load(["+run=quickstart", *options])
    return load(["+run=diplomacy_clone", *options]) if "model.name" in "".join(options) else grpo(*options)


@pytest.mark.parametrize(("options", "cure"), IDLE)
def test_pair_is_rejected_by_both_names_and_either_fix_works(options, cure):
    key, needed = options[0].split("=")[0], cure.split("=")[0]
    expected = rf"^{key}=[a-z0-9._/]+: has no effect without (.* or )?{needed}\b"
    with pytest.raises(ConfigError, match=expected) as refused:
        either(*options)
    either(*options, cure)
    if len(options) < 3 or "env=pettingzoo" in options:  # there the second option needs the third as the first does
        either(*options[1:], str(refused.value).rpartition(" or ")[2])


def test_every_option_with_needs_is_covered():
    needing = {key for kind in run_kinds() for key, option in declared(kind).items() if option.metadata.get("needs")}
    assert needing == {bare(options[0].split("=")[0]) for options, _ in IDLE}


@pytest.mark.parametrize(
    "options", [["grpo.kl_beta=0", "grpo.kl_beta_warmup_steps=5"], ["grpo.use_ppo_clipping=false"]]
)
def test_default_option_may_be_disabled(options):
    grpo(*options)


def test_run_started_with_such_pair_resumes(tmp_path):
    before = grpo()
    before.grpo = replace(before.grpo, importance_mask=True)
    policies = load(["+run=quickstart"])
    policies.self_play = replace(policies.self_play, exploiter_updates=10)
    for name, config in (("old", before), ("older", policies)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(to_plain(config)))
    assert load(["resume=old", f"checkpoint_dir={tmp_path}"]).grpo.importance_mask
    assert load(["resume=older", f"checkpoint_dir={tmp_path}"]).self_play.exploiter_updates == 10


@pytest.mark.parametrize(
    ("run", "options", "line"),
    [
        ("baseline_v1", ["trainer=sb3", "guard.enabled=false", "ppo.epochs=2"], "trainer=sb3: guard.enabled"),
        ("self_play", ["ppo.entropy_coefficient=0"], "ppo.entropy_coefficient=0.0: ppo.final_entropy_fraction"),
        ("bots_only", ["ppo.adaptive_kl=0.01", "ppo.final_learning_rate_fraction=0.5"],
         "ppo.adaptive_kl above 0: ppo.final_learning_rate_fraction"),
        ("bots_only", ["ppo.precision=fp32", "ppo.warmup_updates=3"], "ppo.precision=fp32: ppo.warmup_updates"),
        ("bots_only", ["self_play.pool_size=5"],
         "phases.scripted_start=1.0 and phases.scripted_end=1.0: self_play.pool_size"),
        ("bots_only", ["env.reward.shaping=0"], "env.reward.shaping=0.0: env.reward.exposure"),
        ("bots_only", ["env.rules=challenge", "env.observe_physics=false"],
         "env.rules=challenge: env.observe_physics"),
        ("baseline_v1", ["evaluation.games=8"],
         "evaluation.every=0 and evaluation.check_every=0 and evaluation.regimes_every=0: evaluation.games"),
        ("diplomacy_exp1", ["grpo.kl_beta=0", "grpo.kl_beta_warmup_steps=3"],
         "grpo.kl_beta=0.0: grpo.kl_beta_warmup_steps"),
        ("rookworld_overfit_r1", ["overfit.enabled=false"], "overfit.enabled=false: overfit.greedy, overfit.label"),
        ("diplomacy_exp1", ["grpo.use_trajectory_level_rewards=true", "grpo.step_reward_weight=1"],
         "grpo.use_trajectory_level_rewards=true: grpo.reward_discount_per, grpo.step_reward_weight"),
        ("diplomacy_quickstart", ["grpo.play=self_play"], "grpo.play=self_play: league.dumbbot_game_probability"),
    ],
)  # fmt: skip
def test_disabled_feature_with_parameters_is_reported_at_start(run, options, line):
    assert idle_options(load([f"+run={run}", *options])) == [f"without effect with {line}"]


@pytest.mark.parametrize("run", runs())
def test_run_files_set_no_inactive_option(run):
    assert idle_options(run_config(run)) == []


@pytest.mark.parametrize("option", ["step_reward_weight=1", "win_bonus=9", "count_fork_year=true"])
def test_chess_rejects_reward_options_of_other_games(option):
    with pytest.raises(ConfigError, match=rf"^grpo\.{option.split('=')[0]}=.*: is an option of sparring/Diplomacy-v0"):
        load(["+run=rookworld_grpo", f"grpo.{option}"])


def test_inactive_options_are_printed_before_start(tmp_path, capsys, monkeypatch):
    config = load(["+run=gymnasium", "ppo.precision=fp32", "ppo.warmup_updates=3", f"checkpoint_dir={tmp_path}"])

    def stop(name):
        raise InputError("stopped before the trainer loads")

    monkeypatch.setattr(trainers, "load_trainer", stop)
    with pytest.raises(InputError, match="stopped before the trainer loads"):
        trainers.train(config)
    assert "without effect with ppo.precision=fp32: ppo.warmup_updates\n" in capsys.readouterr().err
