import math

import pytest

from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import BOTS
from sparring.configs.serialization import from_plain, options
from sparring.configs.validate import validate

STAGE = {"bots": ["ace"]}


def refusal(**plain):
    with pytest.raises(ConfigError) as caught:
        validate(from_plain(plain))
    assert "\n" not in str(caught.value)
    return str(caught.value)


LANGUAGE = {"trainer": "grpo", "env": {"id": "sparring/Diplomacy-v0"}}


def phase(**entries):
    return {"updates": 10, "stages": [STAGE], **entries}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"ppo": {"clip": 0}}, "ppo.clip=0: must be in (0, 1]; the default is 0.2"),
        ({"ppo": {"gamma": 1.01}}, "ppo.gamma=1.01: must be in [0, 1]; the default is 0.999"),
        ({"ppo": {"learning_rate": math.inf}}, "ppo.learning_rate=inf: must be in (0, 1]; the default is 0.0003"),
        ({"env": {"reward": {"win": -math.inf}}}, "env.reward.win=-inf: must be in [-1000, 1000]; the default is 5.0"),
        ({"env": {"num_envs": 1}}, "env.num_envs=1: must be at least 2, so the learner plays both seats"),
        ({"env": {"num_envs": 0}}, "env.num_envs=0: must be in [1, 1000000]; the default is 256"),
        ({"env": {"normalize_obs": True}}, "env.normalize_obs=True: is an option of Gymnasium's environments, not of"),
        ({"env": {"id": "a b"}}, "env.id=a b: must be an id known to Gymnasium, such as CartPole-v1"),
        ({"env": {"id": "CartPole-v1", "mirror": True}}, "env.mirror=True: is an option of sparring/Dogfight-v1"),
        (
            {"env": {"id": "CartPole-v1"}, "phases": [phase()]},
            "phases.0.stages=[{'bots': ['ace']}]: is an option of sparring/Dogfight-v1",
        ),
        (
            {"env": {"id": "sparring/Diplomacy-v0"}, "phases": [{"updates": 1, "events": [{"log_std": -1}]}]},
            "phases.0.events.0.log_std=-1: is an option of sparring/Dogfight-v1",
        ),
        (
            {"env": {"id": "sparring/Diplomacy-v0"}, "self_play": {"promotion_games": 400}},
            "self_play.promotion_games=400: is an option of sparring/Dogfight-v1",
        ),
        ({**LANGUAGE, "phases": []}, "phases=[]: is an option of ppo and sb3, not of trainer=grpo; leave it out"),
        ({**LANGUAGE, "env": {"num_envs": 7}}, "env.num_envs=7: is an option of ppo and sb3, not of trainer=grpo"),
        ({"endpoint": {"url": "sk-secret"}}, "unknown key 'endpoint': is not an option any more; evaluations take it"),
        ({"dry_run": True}, "dry_run=True: is an option of grpo and clone with sparring/Chess-v0, not of trainer=ppo;"),
        ({"grpo": {"steps": 3}}, "grpo.steps=3: is an option of grpo, not of trainer=ppo; leave it out"),
        (
            {**LANGUAGE, "ppo": {"learning_rate": 0.5}},
            "ppo.learning_rate=0.5: is an option of ppo and sb3, not of trainer=grpo; leave it out",
        ),
        ({**LANGUAGE, "clone": {"hidden": 64}}, "clone.hidden=64: is an option of clone, not of trainer=grpo"),
        ({**LANGUAGE, "evaluation": {"every": 1}}, "evaluation.games=100: must be a multiple of 7, so that it plays"),
        (
            {**LANGUAGE, "grpo": {"aggregation": "dr_grpo", "use_token_level_loss": True}},
            "grpo.use_token_level_loss=true: weighs samples by their tokens, and grpo.aggregation=dr_grpo weighs none;",
        ),
        ({"seed": -1}, "seed=-1: must be in [0, 2147483647]; the default is 1"),
        ({"env": {"rules": "clasic"}}, "env.rules=clasic: choose from classic, challenge; did you mean 'classic'?"),
        ({"ppo": {"precision": "fp8"}}, "ppo.precision=fp8: choose from auto, fp32, fp16, bf16; did you mean 'fp"),
        ({"device": "cuda:"}, "device=cuda:: must be auto, cpu, cuda or cuda:N such as cuda:1"),
        ({"name": "../x"}, "name=../x: must be letters"),
        ({"phases": [phase(floor=0.3)]}, "phases.0.floor=0.3: must be in [0, 0.2]; the default is 0.05"),
        (
            {"phases": [{"updates": 1, "advance": "x"}]},
            "unknown key 'phases.0.advance': is not an option any more; every run has on_update",
        ),
        (
            {"phases": [phase(stages=[{"bots": ["acee"]}])]},
            f"phases.0.stages.0.bots.0=acee: choose from {', '.join(BOTS)}; did you mean 'ace'?",
        ),
        (
            {"phases": [phase(randomization=[{"level": "wide"}])]},
            "phases.0.randomization.0.level=wide: choose from none, narrow, full, default, high",
        ),
        ({"phases": [phase(events=[{"snapshot": "step_9"}])]}, "phases.0.events.0.snapshot=step_9: must be letters"),
        ({"evaluation": {"check_bot": "ase"}}, "evaluation.check_bot=ase: choose from"),
        (
            {"env": {"id": "CartPole-v1"}, "evaluation": {"every": 3}},
            "evaluation.every=3: is an option of sparring/Dogfight-v1",
        ),
    ],
)
def test_out_of_range_value_is_rejected(plain, message):
    assert refusal(**plain).startswith(message)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"env": {"num_envs": 4}, "ppo": {"rollout_steps": 8, "minibatch_size": 33}},
         "ppo.minibatch_size=33: must be at most 32, which is ppo.rollout_steps 8 x env.num_envs 4"),
        ({"network": {"log_std_init": 0.5}}, "network.log_std_init=0.5: must be in [-2.0, 0.0]"),
        ({"network": {"log_std_min": 1.0}}, "network.log_std_min=1.0: must be at most network.log_std_max, 0.0"),
        ({"phases": [phase(events=[{"log_std": 1.0}])]}, "phases.0.events.0.log_std=1.0: must be in [-2.0, 0.0]"),
        ({"phases": []}, "phases=[]: a run needs at least one phase"),
        ({"phases": [{}]}, "phases.0.stages: the first phase needs a stage at update 0"),
        ({"phases": [phase(stages=[{"at": 1, **STAGE}])]},
         "phases.0.stages: the first phase needs a stage at update"),
        ({"phases": [phase(stages=[STAGE, {"at": 10, **STAGE}])]}, "phases.0.stages.1.at=10: must be in [0, 10)"),
        ({"phases": [phase(stages=[STAGE, {"at": 5, **STAGE}, {"at": 5, **STAGE}])]},
         "phases.0.stages.2.at=5: must be above 5"),
        ({"phases": [phase(randomization=[{"at": 10}])]}, "phases.0.randomization.0.at=10: must be in [0, 10)"),
        ({"phases": [phase(randomization=[{"at": 4}, {"at": 3}])]}, "phases.0.randomization.1.at=3: must be above 4"),
        ({"phases": [phase(events=[{"at": 10, "log_std": -1}])]}, "phases.0.events.0.at=10: must be in [0, 10)"),
        ({"phases": [phase(events=[{"at": 3}])]}, "phases.0.events.0: has no effect"),
        ({"phases": [phase(stages=[{"bots": []}])]}, "phases.0.stages.0.bots=[]: a stage needs at least one bot"),
        ({"phases": [phase(stages=[{"bots": ["ace", "ace"]}])]}, "phases.0.stages.0.bots=[ace, ace]: name each bot"),
        ({"phases": [phase(events=[{"snapshot": "a"}]), phase(events=[{"snapshot": "a"}])]},
         "phases.1.events.0.snapshot=a: is already used"),
    ],
)  # fmt: skip
def test_conflicting_options_are_rejected(plain, message):
    assert refusal(**plain).startswith(message)


@pytest.mark.parametrize(
    "plain",
    [
        {"device": "cuda:3"},
        {"name": "mean-knight.2"},
        {"ppo": {"rollout_steps": 8, "minibatch_size": 32}, "env": {"num_envs": 4}},
        {"phases": [phase(), {"stages": [{"at": 5, **STAGE}], "scripted_end": 0.0}]},
        {"phases": [phase(events=[{"at": 9, "snapshot": "pre_brawler", "log_std": -2.0}])]},
    ],
)
def test_consistent_options_are_accepted(plain):
    validate(from_plain(plain))


def test_options_are_named_as_typed():
    config = from_plain({"phases": [phase(stages=[{"bots": ["ace", "chaser"]}])]})
    values = options(config)
    assert values["phases.0.stages.0.bots.1"] == "chaser"
    assert values["env.reward.win"] == 5.0
