"""Extending a finished run: equal to the longer run unless options are annealed, which is reported."""

from dataclasses import replace

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.resume import drift
from sparring.configs.schema import PhaseConfig, PPOConfig, StageConfig
from tests.agents.ppo.small_run import ENVS, STEPS, config, flat, metrics, state_of, untimed

CONSTANT = PPOConfig(
    rollout_steps=STEPS, epochs=2, minibatch_size=64, precision="fp32", final_learning_rate_fraction=1.0
)
CURRICULUM = PhaseConfig("curriculum", 1, stages=[StageConfig(bots=["do_nothing", "ace"])])


def run(folder, updates, **options):
    """Train one curriculum update, then self-play, `updates` in total."""
    selfplay = PhaseConfig("selfplay", updates - 1, scripted_start=0.5, scripted_end=0.5)
    return config(folder, **({"phases": [CURRICULUM, selfplay], "ppo": CONSTANT, "checkpoint_every": 100} | options))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return an uninterrupted run of six updates."""
    root = tmp_path_factory.mktemp("whole")
    train(run(root, 6))
    return root


def test_extended_run_equals_longer_run_bit_for_bit(whole, tmp_path, capsys):
    for updates in (3, 5, 6):
        train(run(tmp_path, updates))
    out = capsys.readouterr().out
    assert "option changed: phases.1.updates was 2 and is 5" in out
    assert "inexact" not in out
    assert state_of(tmp_path) == state_of(whole)
    assert untimed(metrics(tmp_path)) == untimed(metrics(whole))
    final = [load_checkpoint(root / "small" / "final.pt") for root in (tmp_path, whole)]
    assert flat(final[0].network.state_dict()) == flat(final[1].network.state_dict())
    assert (final[0].training["update"], final[0].training["env_steps"]) == (6, 6 * STEPS * ENVS)


def test_annealed_options_are_named_on_extension(tmp_path, capsys):
    annealed = replace(CONSTANT, final_learning_rate_fraction=0.5, entropy_coefficient=0.01, final_entropy_fraction=0.0)
    for updates in (2, 3):
        train(run(tmp_path, updates, ppo=annealed))
    words = "the updates before had ppo.learning_rate and ppo.entropy_coefficient of a run with another length"
    assert f"inexact resume: {words}" in capsys.readouterr().out
    rates = [row["train/learning_rate"] / annealed.learning_rate for row in metrics(tmp_path)]
    assert rates == pytest.approx([1.0, 0.5, 0.5])


def test_finished_run_names_option_that_extends_it(tmp_path, capsys):
    def said(config):
        train(config)
        return capsys.readouterr().out

    said(run(tmp_path, 3))
    done = "nothing left to do: 3 updates done, 3 asked for"
    assert f"{done} by the schedule; to continue, set phases.1.updates=3 or more" in said(run(tmp_path, 3))
    longer = said(run(tmp_path, 3, max_updates=6))
    words = "by the schedule, which max_updates=6 does not extend; to continue, set phases.1.updates=5 or more"
    assert f"{done} {words}" in longer
    assert f"{done} by max_updates; raise it, or set max_updates=0 for all 6" in said(run(tmp_path, 6, max_updates=3))
    assert "done after 6 updates" in said(run(tmp_path, 6))
    assert "6 updates done, 3 asked for by the schedule" in said(run(tmp_path, 3))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ([2, 2], r"phases\.0\.updates=2: the run was started with 1, .*only phases\.1\.updates can be raised"),
        ([1, 1], r"phases\.1\.updates=1: the run was started with 2; remove it, and set max_updates=2 to stop"),
    ],
)
def test_other_lengths_are_rejected(tmp_path, changed, words):
    before = run(tmp_path, 3)
    phases = [replace(phase, updates=updates) for phase, updates in zip(before.phases, changed, strict=True)]
    with pytest.raises(ConfigError, match=words):
        drift(before, replace(before, phases=phases))
