"""What may change when a run is continued."""

from dataclasses import replace

import pytest

from configs.drift import drift
from configs.language import GRPOConfig, LeagueConfig
from configs.names import ConfigError
from configs.schema import EnvConfig, LoggerConfig, PPOConfig, RunConfig


def test_nothing_changed():
    assert drift(RunConfig(), RunConfig(name="x", resume="x", run="y")) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_updates": 5}, {"max_updates": (0, 5)}),
        ({"grpo": GRPOConfig(steps=300)}, {"grpo.steps": (250, 300)}),
        ({"device": "cpu"}, {"device": ("auto", "cpu")}),
        ({"env": EnvConfig(num_envs=512)}, {"env.num_envs": (256, 512)}),
        ({"logger": LoggerConfig(wandb="offline")}, {"logger.wandb": ("off", "offline")}),
    ],
)
def test_harmless_changes_are_listed(changes, expected):
    assert drift(RunConfig(), replace(RunConfig(), **changes)) == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 2}, r"seed=2: the run was begun with 1"),
        ({"ppo": PPOConfig(gamma=0.9)}, r"ppo\.gamma=0\.9: the run was begun with 0\.999"),
        ({"env": EnvConfig(rules="challenge")}, r"env\.rules=challenge: the run was begun with classic"),
        ({"grpo": GRPOConfig(steps=100)}, r"grpo\.steps=100: the run was begun with 250; .*give max_updates=100"),
        ({"phases": []}, r"phases\.0\.name=None: the run was begun with curriculum"),
    ],
)
def test_what_learning_depends_on_is_refused_by_name(changes, words):
    with pytest.raises(ConfigError, match=words):
        drift(RunConfig(), replace(RunConfig(), **changes))


def test_a_run_whose_shares_end_with_it_is_not_made_longer():
    """At step 299 of 300 they are not what a run of 300 steps had at step 249, and went back to an earlier value."""
    fading = RunConfig(name="mine", league=LeagueConfig(final_self_play=0.4, final_baseline=0.05, final_peer=0.2))
    words = r"grpo\.steps=300: the run was begun with 250, at which league\.final_self_play is reached; .*final\.pt"
    with pytest.raises(ConfigError, match=words):
        drift(fading, replace(fading, grpo=GRPOConfig(steps=300)))
    still = RunConfig(league=LeagueConfig(final_self_play=0.3))  # where it was at the first step
    assert drift(still, replace(still, grpo=GRPOConfig(steps=300)))
