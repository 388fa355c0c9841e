import math
from functools import reduce

import pytest
import yaml

from sparring.configs import kinds
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import runs
from sparring.configs.schema import PhaseConfig
from sparring.configs.serialization import from_plain, from_stored, to_plain
from sparring.envs.dogfight.config import DogfightRunConfig
from tests.configs.run_configs import run_config


def refusal(plain):
    with pytest.raises(ConfigError) as caught:
        from_plain(plain)
    return str(caught.value)


@pytest.mark.parametrize("run", runs())
def test_run_round_trips_through_yaml(run):
    config = run_config(run)
    assert from_plain(yaml.safe_load(yaml.safe_dump(to_plain(config)))) == config


def test_omitted_option_keeps_default():
    assert from_plain({}) == DogfightRunConfig()
    assert from_plain({"phases": [{"updates": 5}]}).phases == [PhaseConfig(updates=5)]


def test_plain_data_is_independent_of_configuration():
    config = DogfightRunConfig()
    to_plain(config)["phases"][0]["stages"][0]["bots"].clear()
    assert config == DogfightRunConfig()


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"phases": [{}, {"stages": [{"bot": ["ace"]}]}]},
            "unknown key 'phases.1.stages.0.bot'; did you mean 'phases.1.stages.0.bots'?",
        ),
        ({"num_envs": 4}, "unknown key 'num_envs'; did you mean 'env.num_envs'?"),
        ({"self_play": {"_target_": "os.system"}}, "unknown key 'self_play._target_'"),
        ({"ppo": 3}, "ppo=3: must be a mapping of options"),
        ({"phases": {"updates": 3}}, "phases={'updates': 3}: must be a list"),
        ({"phases": [3]}, "phases.0=3: must be a mapping of options"),
        ({"seed": 1.5}, "seed=1.5: must be a whole number"),
        ({"seed": math.nan}, "seed=nan: must be a whole number"),
        ({"seed": True}, "seed=True: must be a whole number"),
        ({"seed": "1"}, "seed=1: must be a whole number"),
        ({"seed": None}, "seed=None: must be a whole number"),
        ({"ppo": {"clip": "much"}}, "ppo.clip=much: must be a number"),
        ({"ppo": {"clip": True}}, "ppo.clip=True: must be a number"),
        ({"logger": {"progress": 1}}, "logger.progress=1: must be true or false"),
        ({"logger": {"wandb": False}}, "logger.wandb=False: must be text; YAML reads"),
        ({"name": ["a"]}, "name=['a']: must be text"),
    ],
)
def test_invalid_content_gives_one_line_with_fix(plain, message):
    head, _, hint = message.partition("; ")
    assert refusal(plain).startswith(head)
    assert hint in refusal(plain)
    assert "\n" not in refusal(plain)


def test_unknown_key_lists_siblings_and_nearest():
    message = refusal({"logger": {"progres": 3}})
    known = "logger.wandb, logger.wandb_project, logger.trackio, logger.progress"
    assert message == f"unknown key 'logger.progres': choose from {known}; did you mean 'logger.progress'?"


def test_removed_option_with_remaining_behaviour_is_dropped():
    old = {"trainer": "grpo", "grpo": {"mask_replay": True, "first_decision_only": False, "steps": 7}}
    assert from_stored(old) == from_plain({"trainer": "grpo", "grpo": {"steps": 7}})
    assert len(old["grpo"]) == 3
    with pytest.raises(ConfigError, match=r"^grpo\.mask_replay=False: is not an option any more; every run has True"):
        from_stored({"trainer": "grpo", "grpo": {"mask_replay": False}})


def test_removed_list_and_nested_options_are_found():
    env = {"id": "sparring/Chess-v0", "data": {"random_share": 0.2, "engine_share": 0.0, "plies": 30}}
    assert from_stored({"trainer": "grpo", "env": env}).env.data.plies == 30
    with pytest.raises(ConfigError, match=r"^tasks\.analysis\.padded=False: is not an option any more; every run has"):
        from_stored({"trainer": "grpo", "env": env, "tasks": {"analysis": {"padded": False}}})
    tests = {"sprt": 400, "always": 0}  # games of a test
    for promotion, games in tests.items():
        pool = {"promotion": promotion, "promotion_games": 400}
        assert from_stored({"self_play": pool}).self_play.promotion_games == games
    old = {"name": "a", "advance": "on_update", "success": 0.8, "stages": [{"bots": ["ace"], "weights": []}]}
    assert from_stored({"phases": [old]}) == from_plain({"phases": [{"name": "a", "stages": [{"bots": ["ace"]}]}]})


DOGFIGHT, LANGUAGE = {}, {"trainer": "grpo"}


@pytest.mark.parametrize(
    ("base", "key", "default", "other"),
    [
        (DOGFIGHT, "phases.0.success", 0.0, 0.9),
        (DOGFIGHT, "phases.0.stages.0.weights", [], [1.0, 2.0]),
        (DOGFIGHT, "self_play.sampling", "hard", "variance"),
        (DOGFIGHT, "ppo.magnet_coefficient", 0.0, 0.05),
        (DOGFIGHT, "env.bot_rate", "tick", "agent"),
        (DOGFIGHT, "env.spawn", "random", "fixed"),
        (DOGFIGHT, "env.repeat_unwon", 0.0, 0.5),
        (LANGUAGE, "grpo.rollout_no_warmup_chance", 0.2, 0.0),
        (LANGUAGE, "grpo.baseline_decay", 0.95, 0.9),
        ({"trainer": "clone"}, "clone.minutes", 0.0, 30.0),
    ],
)
def test_removed_option_is_read_only_with_former_default(base, key, default, other):
    def stored(value):
        plain = to_plain(from_plain(base))
        *sections, name = key.split(".")
        reduce(lambda inner, at: inner[int(at)] if at.isdigit() else inner[at], sections, plain)[name] = value
        return plain

    assert from_stored(stored(default)) == from_plain(base)
    with pytest.raises(ConfigError) as refused:
        from_stored(stored(other))
    assert str(refused.value) == f"{kinds.bare(key)}={other}: is not an option any more; every run has {default}"


def test_removed_section_without_effect_is_dropped():
    plain = {"trainer": "grpo", "endpoint": {"url": "http://host/v1", "api": "chat"}}
    assert from_stored(plain) == from_plain({"trainer": "grpo"})
    assert from_stored({"endpoint": {"api": "chat"}}) == from_plain({})


def test_removed_option_of_other_kind_is_dropped():
    assert from_stored({"grpo": {"mask_replay": False}, "seed": 3}) == from_plain({"seed": 3})
    with pytest.raises(ConfigError, match=r"^self_play\.eviction=weakest: is not an option any more"):
        from_stored({"self_play": {"eviction": "weakest"}})
    assert from_stored({"self_play": {"below_share": 0.6}}) == from_plain({})
    with pytest.raises(
        ConfigError, match=r"^self_play\.below_share=0\.5: is not an option any more; every run has 0\.6"
    ):
        from_stored({"self_play": {"below_share": 0.5}})
    assert from_stored({"guard": {"cut": 0.5, "window": 50, "restore_kl": 10.0}}) == from_plain({})
    with pytest.raises(ConfigError, match=r"^guard\.window=3: is not an option any more; every run has 50"):
        from_stored({"trainer": "grpo", "guard": {"window": 3}})


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"ppo": {"learning_rate": "abc"}}, "ppo.learning_rate=abc: must be a number in (0, 1]; the default is 0.0003"),
        ({"threads": "many"}, "threads=many: must be a whole number in [0, 4096]; the default is 0"),
        ({"env": {"rules": ["classic"]}}, "env.rules=['classic']: must be text; choose from classic, challenge"),
        ({"device": 1.5}, "device=1.5: must be text: auto, cpu, cuda or cuda:N such as cuda:1"),
        ({"env": {"mirror": "so"}}, "env.mirror=so: must be true or false"),
        (
            {"phases": [{"stages": [{"bots": ["ace", 1.5]}]}]},
            "phases.0.stages.0.bots.1=1.5: must be text: a bot, a checkpoint, an ONNX file, or module:Name of a Python "
            "object",
        ),
    ],
)
def test_wrong_type_names_allowed_values(plain, message):
    assert refusal(plain) == message


def test_integral_floats_and_integers_are_interchangeable():
    config = from_plain({"max_updates": 1e6, "ppo": {"clip": 1}, "name": 7})
    assert (config.max_updates, type(config.max_updates)) == (1_000_000, int)
    assert (config.ppo.clip, type(config.ppo.clip)) == (1.0, float)
    assert config.name == "7"


def test_optional_value_may_be_null():
    plain = {"phases": [{"events": [{"log_std": None}, {"log_std": -1}]}]}
    assert [event.log_std for event in from_plain(plain).phases[0].events] == [None, -1.0]
