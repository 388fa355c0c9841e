"""The progress line names each figure: rates and shares are percentages alike, and something moves in every game."""

import json
from dataclasses import replace

import pytest

import sparring
from sparring.agents.ppo.self_play import league_status
from sparring.configs.schema import PhaseConfig, StageConfig
from sparring.curriculum.schedule import Schedule, SchedulePosition

SMALL = [
    *("env.num_envs=16", "ppo.rollout_steps=32", "ppo.minibatch_size=128", "network.hidden=16", "threads=1"),
    *("evaluation.every=2", "evaluation.games=4", "max_updates=2", "name=small", "device=cpu"),
]
PLAN = Schedule([PhaseConfig("any", 9, stages=[StageConfig(bots=["random", "ace"])])]).plan(
    SchedulePosition(0, 0, 0), {}
)


@pytest.mark.parametrize(
    ("scripted", "rates", "cost", "line"),
    [
        (0.18, {"random": 0.49}, "", "win rate: random 49%, ace not yet; self-play 82% of matches"),
        (1.0, {"random": 0.49, "ace": 1.0}, "", "win rate: random 49%, ace 100%"),
        (
            0.5,
            {},
            "opponents 7% of play",
            "win rate: random not yet, ace not yet; self-play 50% of matches; opponents 7% of play",
        ),
        (0.0, {"random": 0.49}, "", "self-play 100% of matches"),
    ],
)
def test_every_percentage_has_a_name(scripted, rates, cost, line):
    assert league_status(replace(PLAN, scripted_share=scripted), rates, {}, cost)[0] == line


def test_the_rate_is_named_by_what_the_game_counts():
    line, *_ = league_status(PLAN, {"random": 0.2}, {}, win="most centres")
    assert line == "most centres: random 20%, ace not yet"


@pytest.mark.parametrize("game", [["env=openspiel", "env.id=kuhn_poker"], ["env=pettingzoo"]])
def test_the_line_moves_where_no_bot_is_played(game, tmp_path, capsys):
    options = [*game, *SMALL, f"checkpoint_dir={tmp_path}", "phases.0.scripted_start=0", "phases.0.scripted_end=0"]
    sparring.train(overrides=options)
    said = capsys.readouterr().out
    last = json.loads((tmp_path / "small" / "metrics.jsonl").read_text().splitlines()[-1])
    entropy, length = last["train/entropy"], last["rollout/itself/length"]
    assert f"phase selfplay: self-play 100% of matches; {length:.1f} moves a match; entropy {entropy:.2f}; " in said
    check = f"check after update 1, win rate: random {last['eval/random/win_rate']:.0%}"
    check += f"; exploitability {last['eval/exploitability']:.3f}" if "eval/exploitability" in last else ""
    assert f"{check}\n" in said


def test_a_gymnasium_run_shows_its_return(tmp_path, capsys):
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
