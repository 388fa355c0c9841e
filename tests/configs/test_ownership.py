"""Which game an option belongs to: said by --help, and true of every key there is."""

from sparring.configs.help import help_text
from sparring.configs.ownership import _OWNERS, GYMNASIUM, kind_of, whose
from sparring.configs.schema import (
    DIPLOMACY,
    DOGFIGHT,
    EventConfig,
    PhaseConfig,
    RandomizationConfig,
    RunConfig,
    StageConfig,
)
from sparring.configs.validate import options


def keys():
    stage, level, event = StageConfig(bots=["ace"], weights=[1.0]), RandomizationConfig(), EventConfig()
    phase = PhaseConfig(stages=[stage], randomization=[level], events=[event])
    return [key for key, _, _ in options(RunConfig(phases=[phase]))]


def test_options_and_their_games():
    assert whose("seed") == whose("ppo.clip") == whose("env.id") == whose("phases.0.updates") == ()
    assert whose("env.reward.win") == whose("env.rules") == whose("self_play.slots") == (DOGFIGHT,)
    assert whose("evaluation.every") == whose("phases.3.stages.0.bots.1") == (DOGFIGHT, DIPLOMACY)
    assert whose("evaluation.check_bot") == whose("phases.0.scripted_end") == (DOGFIGHT,)
    assert whose("env.last_year") == (DIPLOMACY,)
    assert whose("env.normalize_obs") == (GYMNASIUM,)
    assert [kind_of(name) for name in (DOGFIGHT, DIPLOMACY, "CartPole-v1")] == [DOGFIGHT, DIPLOMACY, GYMNASIUM]


def test_every_entry_is_about_options_there_are():
    plain = [".".join(part for part in key.split(".") if not part.isdigit()) for key in keys()]
    assert [entry for entry in _OWNERS if not any(f"{key}.".startswith(f"{entry}.") for key in plain)] == []


def test_help_says_whose_an_option_is():
    text = " ".join(help_text().split())
    assert "env.reward.win=5.0 [-1000, 1000]; the dogfight only" in text
    assert "env.last_year=1910 [1901, 30000]; Diplomacy only" in text
    assert "env.normalize_obs=False True or False; Gymnasium only" in text
    assert "evaluation.every=0 [0, 10000000]; the dogfight and Diplomacy only" in text
    assert "env.num_envs=256 [1, 1000000] network" not in text.split("env.normalize_obs")[0]
    assert "env.num_envs=256 [1, 1000000] env.normalize_obs" in text
