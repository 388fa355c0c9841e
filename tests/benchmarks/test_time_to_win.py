"""The time to win is the time of the updates up to the first policy that wins often enough, and nothing else."""

import json
from argparse import Namespace

import pytest

from benchmarks import time_to_win
from benchmarks.time_to_win import Reached, clock, measure, verdict
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.envs.dogfight.rules import BOTS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with policies of 32, 64 and 96 steps, of which update u took u seconds."""
    root = tmp_path_factory.mktemp("root")
    small = ["env.num_envs=8", "ppo.rollout_steps=4", "ppo.minibatch_size=32", "network.hidden=4", "device=cpu"]
    small += ["threads=1", "logger.progress=false"]
    place = [f"checkpoint_dir={root / 'runs'}", "name=ppo-1", "checkpoint_every=1", "max_updates=3"]
    folder = train(load(["+run=quickstart", *small, *place])).parent
    rows = [{"env_steps": 32 * u, "time/steps_per_second": 32.0 / u} for u in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [{"event": "x"}, *rows]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_to_win, "ROOT", root)
        yield folder


def args(share):
    return Namespace(folder="runs", share=share, games=2, threads=1)


def test_the_clock_adds_up_the_updates(run):
    assert clock(run / "metrics.jsonl") == pytest.approx({32: 1.0, 64: 3.0, 96: 6.0})


@pytest.mark.parametrize(("shares", "steps", "enough"), [([0.2, 0.9, 1.0], 64, True), ([0.1, 0.2, 0.3], 96, False)])
def test_the_first_policy_that_wins_against_every_bot_counts(run, monkeypatch, shares, steps, enough):
    rates = iter(shares)
    monkeypatch.setattr(time_to_win, "win_rates", lambda *_: dict.fromkeys(BOTS, 1.0) | {"brawler": next(rates)})
    found = measure("ppo", 1, args(0.9))
    assert (found.env_steps, found.enough) == (steps, enough)
    assert found.minutes == pytest.approx({64: 3.0, 96: 6.0}[steps] / 60.0)
    assert found.speed == pytest.approx(96 / 6.0)


def test_policies_really_play(run, monkeypatch):
    monkeypatch.setattr(time_to_win, "BOTS", ("brawler",))
    found = measure("ppo", 1, args(0.0))
    assert found.env_steps == 32
    assert set(found.win_rates) == {"brawler"}


def test_a_median_needs_most_runs_to_reach_the_target():
    def reached(trainer, minutes, enough):
        return Reached(trainer, 1, 1.0, minutes, 1, {}, enough)

    ours = [reached("ppo", 4.0, True), reached("ppo", 6.0, True), reached("ppo", 5.0, False)]
    theirs = [reached("sb3", 9.0, True), reached("sb3", 20.0, False), reached("sb3", 20.0, False)]
    assert verdict([*ours, *theirs]) == "ours: 2 of 3 runs, median 6.0 minutes; SB3: 1 of 3 runs."


def test_a_run_without_policies_or_updates_has_no_time(run, monkeypatch, tmp_path):
    monkeypatch.setattr(time_to_win, "ROOT", tmp_path)
    (tmp_path / "runs" / "ppo-1").mkdir(parents=True)
    (tmp_path / "runs" / "ppo-1" / "metrics.jsonl").touch()
    with pytest.raises(InputError, match="holds no step_"):
        measure("ppo", 1, args(0.9))


@pytest.mark.parametrize(
    "words", [["--share", "0"], ["--seeds", "0"], ["ppo.gamma=0.9", "init_from=released/dogfight_strong"]]
)
def test_a_share_that_is_reached_without_learning_is_refused(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["time_to_win.py", *words])
    with pytest.raises(SystemExit):
        time_to_win.parse()
    assert words[-1].partition("=")[0] in capsys.readouterr().err


def test_no_median_is_given_where_no_run_got_there():
    assert verdict([Reached("ppo", 1, 1.0, 5.0, 1, {}, False)] * 3) == "ours: 0 of 3 runs."
