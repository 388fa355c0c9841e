"""Options that may change when a run is resumed."""

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


def test_unchanged_resume_has_no_drift():
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


def test_stored_options_of_other_kinds_are_not_changes():
    """Runs once stored the sections of all kinds; irrelevant ones are dropped with any value."""
    others = {"model": {"lora_rank": 8}, "grpo": {"steps": 7}}
    env = {**to_plain(DogfightRunConfig())["env"], "last_year": 1905, "normalize_obs": False}
    assert drift(from_stored({**to_plain(DogfightRunConfig()), **others, "env": env}), DogfightRunConfig()) == {}
    with pytest.raises(ConfigError, match=r"model\.lora_rank=32: the run was started with 8"):
        drift(from_stored({"trainer": "grpo", **others, "grpo": {}}), grpo())


def test_grpo_run_can_be_extended_but_not_shortened():
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
def test_changes_that_affect_learning_are_rejected_by_name(changes, words):
    with pytest.raises(ConfigError, match=words):
        drift(DogfightRunConfig(), replace(DogfightRunConfig(), **changes))


def test_run_with_annealed_shares_cannot_be_extended():
    """At step 299 of 300 they differ from step 249 of a shorter run, and would jump back."""
    fading = grpo(name="mine", league=LeagueConfig(final_self_play=0.4, final_baseline=0.05, final_peer=0.2))
    words = r"grpo\.steps=300: the run was started with 200, at which league\.final_self_play is reached; .*final\.pt"
    with pytest.raises(ConfigError, match=words):
        drift(fading, replace(fading, grpo=GRPOConfig(steps=300)))
    still = grpo(league=LeagueConfig(final_self_play=0.3))  # where it was at the first step
    assert drift(still, replace(still, grpo=GRPOConfig(steps=300)))


def test_missing_scale_is_named_with_stored_value():
    with pytest.raises(
        ConfigError, match=r"scale=1\.0: the run was started with 0\.01, .*; give scale=0\.01 to continue"
    ):
        drift(DogfightRunConfig(scale=0.01), DogfightRunConfig())


def test_rejected_change_names_command_for_new_run():
    before = DogfightRunConfig(run="quickstart", name="hawk")
    now = replace(before, resume="hawk", seed=2)
    with pytest.raises(ConfigError) as error:
        drift(before, now)
    assert str(error.value).endswith(
        "leave it out to continue, or start a new run from its policy with +run=quickstart init_from=hawk seed=2"
    )
