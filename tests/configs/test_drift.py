"""What may change when a run is continued."""

from dataclasses import replace

import pytest

from configs.drift import drift
from configs.names import ConfigError
from configs.schema import EnvConfig, LoggerConfig, PPOConfig, RunConfig


def test_nothing_changed():
    assert drift(RunConfig(), RunConfig(name="x", resume="x", run="y")) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_updates": 5}, {"max_updates": (0, 5)}),
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
        ({"phases": []}, r"phases\.0\.name=None: the run was begun with curriculum"),
    ],
)
def test_what_learning_depends_on_is_refused_by_name(changes, words):
    with pytest.raises(ConfigError, match=words):
        drift(RunConfig(), replace(RunConfig(), **changes))
