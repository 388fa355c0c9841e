"""Runs of imported games: resuming, self-play of all seats, promotion, and rejected options."""

import json

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.ppo.self_play import SelfPlay
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import read_json
from sparring.configs.load import load
from sparring.configs.schema import PhaseConfig, SelfPlayConfig, StageConfig
from sparring.curriculum.schedule import Schedule
from sparring.eval.exploit import main as exploit

MODULE = "tests.envs.imported.foreign_game"

SMALL = [
    *("env.num_envs=16", "ppo.rollout_steps=32", "ppo.minibatch_size=128", "network.hidden=16", "threads=1"),
    *("evaluation.every=2", "evaluation.games=4", "self_play.snapshot_every=1", "logger.progress=false"),
]


def train(folder, name, game, *options, updates=4):
    options = [*game, *SMALL, f"checkpoint_dir={folder}", f"name={name}", f"max_updates={updates}", *options]
    sparring.train(overrides=options)
    rows = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    weights = torch.load(folder / name / "final.pt", weights_only=True)["weights"]
    return weights, [{key: row[key] for key in row if not key.startswith("time/")} for row in rows]


KUHN = ["env=openspiel", "env.id=kuhn_poker"]
TICTACTOE = ["env=pettingzoo"]
RECURRENT = [
    *("network.memory=lstm", "ppo.sequence_length=3", "self_play.both_seats=false", "self_play.pool_share=0.2"),
    "env.roles=[player_0,player_1]",
]
LARGER_STEPS = [  # than the run file's, which takes ten times as many moves
    *("ppo.clip=0.2", "ppo.value_coefficient=0.5", "ppo.max_grad_norm=0.5", "phases.0.updates=480"),
    *("ppo.final_learning_rate_fraction=0.1", "ppo.final_entropy_fraction=0.3"),
    *("self_play.pool_share=0.2", "phases.0.scripted_start=0.1"),
]
TESTED = ["self_play.promotion_games=8"]


@pytest.mark.parametrize(("game", "options"), [(KUHN, RECURRENT), (TICTACTOE, TESTED)])
def test_resumed_run_equals_uninterrupted_run(tmp_path, game, options):
    whole = train(tmp_path, "whole", game, *options)
    train(tmp_path, "halves", game, *options, updates=2)
    sparring.train(overrides=["resume=halves", f"checkpoint_dir={tmp_path}", "max_updates=4"])
    weights = torch.load(tmp_path / "halves" / "final.pt", weights_only=True)["weights"]
    assert all(torch.equal(one, weights[name]) for name, one in whole[0].items())
    rows = [json.loads(line) for line in (tmp_path / "halves" / "metrics.jsonl").read_text().splitlines()]
    assert [{key: row[key] for key in row if not key.startswith("time/")} for row in rows] == whole[1]
    last = whole[1][-1]
    assert last["league/pool_size"] >= 1
    assert ("eval/exploitability" in last) == (game is KUHN)
    assert ("rollout/itself/matches" in last) == (options is TESTED)


def test_kuhn_poker_is_learned(tmp_path):
    options = ["evaluation.every=40", "ppo.entropy_coefficient=0.1", *LARGER_STEPS]
    _, rows = train(tmp_path, "kuhn", KUHN, *options, updates=80)
    _, last = (row["eval/exploitability"] for row in rows if "eval/exploitability" in row)
    assert last < 0.12 < 0.458  # uniform play


@pytest.mark.parametrize(("seat", "rate"), [(0, 1.0), (1, 0.0)])
def test_only_configured_seat_learns_and_is_measured(tmp_path, seat, rate):
    """In this variant the first seat always wins."""
    game = ["env=pettingzoo", "env.id=tests.envs.imported.own_game", "env.kwargs.fault=seats", f"env.seat={seat}"]
    options = ["self_play.both_seats=false", "phases.0.scripted_start=1.0", "phases.0.scripted_end=1.0"]
    _, (row,) = train(tmp_path, "run", game, *options, "evaluation.every=1", updates=1)
    assert row["rollout/random/win_rate"] == row["eval/random/win_rate"] == rate


def test_self_play_of_all_seats_has_its_share():
    env = type("Env", (), {"bots": ("random",), "slots": 3, "device": "cpu"})()
    phase = PhaseConfig("p", 4, stages=[StageConfig(bots=["random"])], scripted_start=0.2, scripted_end=0.2)
    plan = Schedule([phase]).plan(0, {})
    self_play = SelfPlay(env, None, None, SelfPlayConfig(both_seats=True, pool_share=0.25), seed=0)
    assert self_play._shares(plan).tolist() == pytest.approx([0.2, *[0.2 / 3] * 3, 0.6])


def test_learner_rotates_over_three_seats_against_each_opponent():
    dealt = []
    stub = {"bots": ("random", "first"), "slots": 1, "opponents": np.zeros(24, dtype=np.int32)}
    env = type("Env", (), stub | {"assign": lambda _, opponents: dealt.append(opponents)})()
    plan = Schedule([PhaseConfig("p", 4, stages=[StageConfig(bots=["random", "first"])])])
    self_play = SelfPlay(env, None, None, SelfPlayConfig(), seed=0, seats=3)
    self_play.deal(plan.plan(0, {}), None)
    for opponent, matches in enumerate((12, 12)):
        assert np.bincount(np.flatnonzero(dealt[0] == opponent) % 3, minlength=3).tolist() == [matches // 3] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["env=pettingzoo", "env.id=pettingzoo.classic.no_such_v9"], r"env\.id=pettingzoo\.classic\.no_such_v9"),
        (["env=openspiel", "env.id=leduc_pokr"], r"env\.id=leduc_pokr.*leduc_poker"),
        (["env=openspiel", "env.id=kuhn_poker", "env.kwargs.players=99"], r"env\.id=kuhn_poker"),
        (["env=pettingzoo", "network.encoder=impala"], r"network\.encoder=impala: .* does not provide a picture"),
        (["env=pettingzoo", "against=nobody"], r"against=nobody"),
        (["env=pettingzoo", "env.seat=2", "self_play.both_seats=false"], r"env\.seat=2: must be in \[-1, 1\]"),
        (["env=openspiel", "env.seat=1"], r"env\.seat=1: has no effect without self_play\.both_seats=false"),
        (["env=pettingzoo", "trainer=sb3"], r"trainer=sb3: does not train .*; choose ppo"),
        (["env=openspiel", "env.kwargs={a: [1]}"], r"env\.kwargs=.*a is a list; must be a number"),
    ],
)
def test_unplayable_runs_are_rejected_in_one_line(tmp_path, options, message):
    with pytest.raises(InputError, match=message) as refused:
        sparring.train(overrides=[*options, f"checkpoint_dir={tmp_path}", "name=refused", "logger.progress=false"])
    assert "\n" not in str(refused.value)


def test_registered_openspiel_game_is_trained_and_attacked(tmp_path, capsys):
    """Uniform play loses 11 / 24 in Kuhn poker; a policy with near-zero weights loses about as much."""
    pytest.importorskip("pyspiel")
    own = f"{MODULE}:kuhn_poker_of_a_user"
    words = ["env=openspiel", f"env.id={own}", "network.hidden=8", "phases.0.updates=1", "env.num_envs=4"]
    small = ["ppo.rollout_steps=8", "ppo.minibatch_size=16", "evaluation.games=4", "threads=1", "device=cpu"]
    sparring.train(overrides=[*words, *small, f"checkpoint_dir={tmp_path}", "name=own", "logger.progress=false"])
    run = str(tmp_path / "own" / "final.pt")
    out = ["--attacker", "sampling", "--moves", "4000", "--quiet", "--target", "stochastic"]
    assert exploit([run, *out]) == 2
    assert f"runs the code of the module {MODULE}; if you trust it, add --import {MODULE}" in capsys.readouterr().err
    assert exploit([run, *out, "--import", MODULE, "--out", str(tmp_path / "run")]) == 0
    assert exploit(["openspiel:uniform", *out, "--id", own, "--out", str(tmp_path / "uniform")]) == 0
    exact = [read_json(tmp_path / name / "exploit.json")["exploitability"] for name in ("run", "uniform")]
    assert exact[0]["uniform"] == exact[1]["sampled"] == pytest.approx(11 / 24)


def test_unimportable_openspiel_module_gives_one_line_error(tmp_path):
    pytest.importorskip("pyspiel")
    for own, message in (
        ("no_such_games:mine", "put its folder on PYTHONPATH"),
        ("json:mine", "not a game of OpenSpiel"),
    ):
        with pytest.raises(InputError, match=rf"^env\.id={own}: .*{message}") as refused:
            sparring.train(overrides=["env=openspiel", f"env.id={own}", f"checkpoint_dir={tmp_path}", "name=refused"])
        assert "\n" not in str(refused.value)


def test_module_named_only_by_file_is_not_imported(tmp_path):
    run = tmp_path / "mine.yaml"
    run.write_text("env: {package: pettingzoo, id: my_games.secret}\n")
    with pytest.raises(
        InputError, match=r"runs the code of the module my_games\.secret; if you trust it, add env\.id="
    ):
        load([f"+run={run}"])
    config = load([f"+run={run}", "env.id=my_games.secret"])
    assert config.env.id == "my_games.secret"
    assert config.network.encoder == "by_size"  # as the run files have; convolutions make small boards slow
