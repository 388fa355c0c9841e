"""The progress line names every figure, and changes in every game."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import sparring
from sparring.agents.ppo import start
from sparring.agents.ppo.self_play import standing
from sparring.agents.ppo.start import estimate_seconds
from sparring.agents.ppo.trainer import PPOTrainer
from sparring.configs.load import load
from sparring.configs.schema import PhaseConfig, StageConfig
from sparring.curriculum.schedule import Schedule

SMALL = [
    *("env.num_envs=16", "ppo.rollout_steps=32", "ppo.minibatch_size=128", "network.hidden=16", "threads=1"),
    *("evaluation.every=2", "evaluation.games=4", "max_updates=2", "name=small", "device=cpu"),
]
PLAN = Schedule([PhaseConfig("any", 9, stages=[StageConfig(bots=["random", "ace"])])]).plan(0, {})


@pytest.mark.parametrize(
    ("scripted", "rates", "cost", "line"),
    [
        (0.18, {"random": 0.49}, "", "win rate: random 49%, ace not yet; self-play 82% of matches"),
        (1.0, {"random": 0.49, "ace": 1.0}, "", "win rate: random 49%, ace 100%"),
        (0.5, {}, "opponents 7% of play",
         "win rate: random not yet, ace not yet; self-play 50% of matches; opponents 7% of play"),
        (0.0, {"random": 0.49}, "", "self-play 100% of matches"),
    ],
)  # fmt: skip
def test_every_percentage_has_name(scripted, rates, cost, line):
    assert standing(replace(PLAN, scripted_share=scripted), rates, cost) == line


def test_rate_is_named_after_unit_of_game():
    line = standing(PLAN, {"random": 0.2}, win="most centres")
    assert line == "most centres: random 20%, ace not yet"


@pytest.mark.parametrize("game", [["env=openspiel", "env.id=kuhn_poker"], ["env=pettingzoo"]])
def test_line_changes_when_no_bot_is_played(game, tmp_path, capsys):
    options = [*game, *SMALL, f"checkpoint_dir={tmp_path}", "phases.0.scripted_start=0", "phases.0.scripted_end=0"]
    sparring.train(overrides=options)
    said = capsys.readouterr().out
    last = json.loads((tmp_path / "small" / "metrics.jsonl").read_text().splitlines()[-1])
    entropy, length = last["train/entropy"], last["rollout/itself/length"]
    assert f"phase selfplay: self-play 100% of matches; {length:.1f} moves a match; entropy {entropy:.2f}; " in said
    check = f"check after update 1, win rate: random {last['eval/random/win_rate']:.0%}"
    check += f"; exploitability {last['eval/exploitability']:.3f}" if "eval/exploitability" in last else ""
    assert f"{check}\n" in said


def test_gymnasium_run_shows_return(tmp_path, capsys):
    options = [
        "env=gymnasium",
        "env.id=CartPole-v1",
        "env.num_envs=8",
        "ppo.rollout_steps=64",
        "ppo.minibatch_size=128",
    ]
    sparring.train(overrides=[*options, "max_updates=1", "name=small", f"checkpoint_dir={tmp_path}", "threads=1"])
    row = json.loads((tmp_path / "small" / "metrics.jsonl").read_text().splitlines()[-1])
    assert (
        f": mean return {row['rollout/recent_return']:.1f}; entropy {row['train/entropy']:.2f}; "
        in capsys.readouterr().out
    )


SIZES = ["env.num_envs=8", "ppo.rollout_steps=32", "ppo.minibatch_size=64", "ppo.epochs=3", "network.hidden=4"]
PLACE = ["device=cpu", "threads=1", "logger.progress=false"]


@pytest.fixture
def run(tmp_path):
    run = PPOTrainer(load(["+run=quickstart", "max_updates=100", *SIZES, *PLACE, f"checkpoint_dir={tmp_path}"]))
    yield run
    run.close()


def estimate(run):
    return estimate_seconds(run.config, run.network, run.rollout, updates=run.updates, threads=run.threads)


def test_seconds_per_sample_are_scaled_to_whole_run(run, monkeypatch):
    """A trial is 16 steps of 8 matches; pretend that it takes 128 s to collect and 256 s to learn from once."""
    ticks = itertools.cycle([0.0, 128.0, 384.0])
    monkeypatch.setattr(start, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    assert estimate(run) == 100 * 32 * 8 * (1.0 + 3 * 2.0)


def test_trial_leaves_run_unchanged(run):
    def state():
        draws = (run.actions.get_state(), run.learner.shuffle.get_state())
        return torch.cat([p.flatten() for p in run.network.parameters()]).clone(), run.task.batch.obs.clone(), *draws

    before, steps = state(), run.rollout.obs.clone()
    assert estimate(run) > 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert torch.equal(run.rollout.obs, steps)
    assert not run.learner.optimizer.state
