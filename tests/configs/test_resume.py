"""What may change when a run is continued."""

from dataclasses import replace

import pytest

from sparring.configs.core.errors import ConfigError
from sparring.configs.core.session import LoggerConfig
from sparring.configs.language import GRPOConfig
from sparring.configs.language.league import LeagueConfig
from sparring.configs.resume import drift
from sparring.configs.schema import PPOConfig
from sparring.configs.serialization import from_stored, to_plain
from sparring.envs.diplomacy.config import DiplomacyGRPORunConfig
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig


def grpo(**options):
    return DiplomacyGRPORunConfig(**options)


def test_a_run_continued_unchanged_has_no_drift():
    assert drift(DogfightRunConfig(), DogfightRunConfig(name="x", resume="x", run="y")) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_updates": 5}, {"max_updates": (0, 5)}),
        ({"device": "cpu"}, {"device": ("auto", "cpu")}),
        ({"env": DogfightEnvConfig(num_envs=512)}, {"env.num_envs": (256, 512)}),
        ({"logger": LoggerConfig(wandb="offline")}, {"logger.wandb": ("off", "offline")}),
    ],
)
def test_harmless_changes_are_listed(changes, expected):
    assert drift(DogfightRunConfig(), replace(DogfightRunConfig(), **changes)) == expected


def test_stored_options_of_other_kinds_are_not_reported_as_changes():
    """Every run once stored the sections of all: what means nothing to it is dropped, whatever its value."""
    others = {"model": {"lora_rank": 8}, "grpo": {"steps": 7}}
    env = {**to_plain(DogfightRunConfig())["env"], "last_year": 1905, "normalize_obs": False}
    assert drift(from_stored({**to_plain(DogfightRunConfig()), **others, "env": env}), DogfightRunConfig()) == {}
    with pytest.raises(ConfigError, match=r"model\.lora_rank=32: the run was started with 8"):
        drift(from_stored({"trainer": "grpo", **others, "grpo": {}}), grpo())


def test_a_grpo_run_may_be_extended_but_not_shortened():
    assert drift(grpo(), grpo(grpo=GRPOConfig(steps=300))) == {"grpo.steps": (200, 300)}
    with pytest.raises(ConfigError, match=r"grpo\.steps=100: the run was started with 200; .*give max_updates=100"):
        drift(grpo(), grpo(grpo=GRPOConfig(steps=100)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 2}, r"seed=2: the run was started with 1"),
        ({"ppo": PPOConfig(gamma=0.9)}, r"ppo\.gamma=0\.9: the run was started with 0\.999"),
        ({"env": DogfightEnvConfig(rules="challenge")}, r"env\.rules=challenge: the run was started with classic"),
        ({"phases": []}, r"phases\.0\.name=None: the run was started with curriculum"),
    ],
)
def test_what_learning_depends_on_is_refused_by_name(changes, words):
    with pytest.raises(ConfigError, match=words):
        drift(DogfightRunConfig(), replace(DogfightRunConfig(), **changes))


def test_a_run_with_shares_tied_to_its_end_cannot_be_extended():
    """At step 299 of 300 they are not what a run of 300 steps had at step 249, and went back to an earlier value."""
    fading = grpo(name="mine", league=LeagueConfig(final_self_play=0.4, final_baseline=0.05, final_peer=0.2))
    words = r"grpo\.steps=300: the run was started with 200, at which league\.final_self_play is reached; .*final\.pt"
    with pytest.raises(ConfigError, match=words):
        drift(fading, replace(fading, grpo=GRPOConfig(steps=300)))
    still = grpo(league=LeagueConfig(final_self_play=0.3))  # where it was at the first step
    assert drift(still, replace(still, grpo=GRPOConfig(steps=300)))


def test_a_missing_scale_is_named_with_the_run_s_own():
    with pytest.raises(
        ConfigError, match=r"scale=1\.0: the run was started with 0\.01, .*; give scale=0\.01 to continue"
    ):
        drift(DogfightRunConfig(scale=0.01), DogfightRunConfig())


def test_a_refused_change_names_the_command_of_a_new_run_from_the_policy():
    before = DogfightRunConfig(run="quickstart", name="hawk")
    now = replace(before, resume="hawk", seed=2)
    with pytest.raises(ConfigError) as error:
        drift(before, now)
    assert str(error.value).endswith(
        "remove it to continue, or start a new run from its policy with +run=quickstart init_from=hawk seed=2"
    )
