"""Options that would be ignored beside others are refused by both names, and what the line says helps."""

from dataclasses import replace

import pytest
import yaml

from sparring.configs.core.errors import ConfigError
from sparring.configs.kinds import declared
from sparring.configs.load import load
from sparring.configs.schema import RUNS
from sparring.configs.serialization import to_plain

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
    (["grpo.elo_scale=1"], "grpo.use_elo_conditioned_rewards=true"),
    (["league.matchmaking=rating", "grpo.play=self_play"], "grpo.play=league"),
    (["league.win_rate_form=variance"], "league.matchmaking=win_rate"),
    (["league.win_rate_power=1"], "league.matchmaking=win_rate"),
    (
        ["league.win_rate_power=1", "league.win_rate_form=variance", "league.matchmaking=win_rate"],
        "league.win_rate_form=hard",
    ),
    (["league.rating_width=10"], "league.matchmaking=rating"),
    (["league.rating_self_play=0.5"], "league.matchmaking=rating"),
    (["league.checkpoint_every=20", "league.checkpoint_schedule=thinning"], "league.checkpoint_schedule=even"),
    (["clone.hidden=64", "model.name=smollm2"], "model.name=tiny"),
    (["clone.layers=2", "model.name=smollm2"], "model.name=tiny"),
    (["clone.heads=2", "model.name=smollm2"], "model.name=tiny"),
    (["clone.init_std=0.1", "model.name=smollm2"], "model.name=tiny"),
]


def grpo(*options):
    return load(["+run=diplomacy_quickstart", *options])


def either(*options):
    """A run of the trainer whose options are given."""
    return load(["+run=diplomacy_clone", *options]) if "model.name" in "".join(options) else grpo(*options)


@pytest.mark.parametrize(("options", "cure"), IDLE)
def test_it_is_refused_by_both_names_and_either_cure_of_the_line_works(options, cure):
    key, needed = options[0].split("=")[0], cure.split("=")[0]
    with pytest.raises(ConfigError, match=rf"^{key}=[a-z0-9.]+: has no effect without {needed}\b") as refused:
        either(*options)
    either(*options, cure)
    if len(options) < 3:  # there the second option needs the third as the first does
        either(*options[1:], str(refused.value).rpartition(" or ")[2])


def test_every_option_with_needs_is_tried_above():
    needing = {key for kind in RUNS for key, option in declared(kind).items() if option.metadata.get("needs")}
    assert needing == {options[0].split("=")[0] for options, _ in IDLE}


@pytest.mark.parametrize(
    "options", [["grpo.kl_beta=0", "grpo.kl_beta_warmup_steps=5"], ["grpo.use_ppo_clipping=false"]]
)
def test_what_is_on_by_default_may_be_switched_off(options):
    grpo(*options)


def test_a_run_started_with_such_a_pair_is_continued(tmp_path):
    before = grpo()
    before.grpo = replace(before.grpo, importance_mask=True)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.yaml").write_text(yaml.safe_dump(to_plain(before)))
    assert load(["resume=old", f"checkpoint_dir={tmp_path}"]).grpo.importance_mask
