"""Regimes in every game: match conditions compared in one evaluation, or a one-line reason for none."""

import json

import numpy as np
import pytest

import sparring
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.evaluation.command import AirCombatOptions
from sparring.envs.air_combat.rules import MATCH_REGIMES, CombatOptions
from sparring.envs.air_combat.training.opponents import CombatConditions
from sparring.envs.dogfight.evaluation.command import EvaluationOptions
from sparring.envs.dogfight.rules import LEVELS, REGIMES
from sparring.envs.dogfight.training.matches import play
from sparring.eval.options import parse
from sparring.eval.payoff import main as payoff_main
from sparring.eval.run import main

AIR = ["--env", "air_combat", "--ckpt", "bot:ace", "--games", "4", "--threads", "1", "--quiet"]
BY_HAND = {
    "none": {},
    "full": {"options": CombatOptions(randomization="full", observe_physics=False)},
    "low_start": {"low_start": 1.0},
    "rounds": {"gun": "rounds"},
    "f16": {"model": "f16"},
}
"""Conditions of matches in some regimes."""


def test_air_combat_regimes_are_match_conditions(tmp_path):
    words = ["--opponents", "chaser,turning", "--regimes", *BY_HAND, "--out", str(tmp_path)]
    assert main([*AIR, *words, "--require", "worst@f16>=0"]) == 0
    content, table = json.loads((tmp_path / "eval.json").read_text()), (tmp_path / "eval.md").read_text()
    found = {(record["regime"], record["opponent"]): record for record in content["records"]}
    assert [*found] == [(regime, opponent) for regime in BY_HAND for opponent in ("chaser", "turning")]
    for (regime, opponent), record in found.items():
        results = play("ace", opponent, games=4, seed=0, setting=CombatConditions(threads=1, **BY_HAND[regime]))
        assert (record["wins"], record["draws"], record["losses"]) == results.counts
        assert record["length"] == pytest.approx(results.length.mean() / rules.TICKS_PER_SECOND)
    lengths = {tuple(found[regime, opponent]["length"] for opponent in ("chaser", "turning")) for regime in BY_HAND}
    assert len(lengths) == len(BY_HAND)  # so that none is another by name alone
    assert [*content["summary"]] == [*BY_HAND]
    for regime in BY_HAND:
        assert f"## Regime: {regime}\n" in table
    assert "## Score % by regime" in table
    assert "gun cone, 5 regimes, deterministic" in table
    columns = [line.count("|") - 1 for line in table.splitlines() if line.startswith("| f16 ")]
    assert columns == [5, 5]  # of scores and of wins: the regime, two opponents, their mean and the worst


def test_requirement_names_failing_regime(error_line, capsys):
    assert main([*AIR, "--opponents", "turning", "--regimes", "none,low_start", "--require", "win@low_start>=1"]) in (
        0,
        1,
    )
    capsys.readouterr()
    words = ["--env", "air_combat", "--ckpt", "bot:do_nothing", "--games", "2", "--threads", "1", "--quiet"]
    assert main([*words, "--opponents", "ace", "--regimes", "none,low_start", "--require", "ace@low_start>=0.9"]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.endswith("failed: 0.0000 (0 of 2 won), regime low_start")
    assert "no regimes are played; leave out @full" in error_line(main, [*AIR, "--require", "ace@full>=0.9"])
    message = error_line(main, [*AIR, "--regimes", "none", "--require", "chaser@full>=0.9"])
    assert "unknown regime in --require" in message


def test_air_combat_table_without_regimes_names_none(tmp_path):
    assert main([*AIR, "--opponents", "chaser", "--out", str(tmp_path)]) == 0
    content, table = json.loads((tmp_path / "eval.json").read_text()), (tmp_path / "eval.md").read_text()
    assert [record["regime"] for record in content["records"]] == ["point_mass"]
    assert "Regime" not in table
    assert "regime" not in table.splitlines()[0]
    one = ["--opponents", "chaser", "--regimes", "f16", "--out", str(tmp_path)]
    assert main([*AIR, *one]) == 0
    table = (tmp_path / "eval.md").read_text()
    assert table.startswith("# ace: air combat, f16, gun rounds, regime f16, deterministic\n")
    assert "## Regime: f16" in table


@pytest.mark.parametrize(("trained", "drawn"), [("narrow", "full"), ("narrow", "none"), ("none", "full"), ("full", "")])
def test_drawn_physics_are_observed_as_in_training(trained, drawn):
    options = CombatOptions(randomization=trained)
    setting = CombatConditions(threads=1, options=options, drawn=drawn)
    batch, plain = setting.batch(2), CombatConditions(threads=1, options=options).batch(2)
    assert batch.contract == plain.contract  # so that a policy of these matches plays
    assert batch.obs.shape == plain.obs.shape
    np.testing.assert_allclose(batch.ranges.numpy(), np.array(rules.ranges(drawn or trained), np.float32))
    batch.close()
    plain.close()


def test_all_selects_every_regime():
    assert parse(AirCombatOptions, ["--ckpt", "bot:ace", "--regimes", "all"]).regimes == tuple(MATCH_REGIMES)
    expected = (*LEVELS, *REGIMES)
    assert parse(EvaluationOptions, ["--ckpt", "bot:ace", "--regimes", "all"]).regimes == expected


@pytest.mark.parametrize("env", ["dogfight", "air_combat"])
def test_payoff_matrix_has_one_regime(env, error_line):
    words = ["--env", env, "--opponents", "ace,brawler", "--games", "2", "--threads", "1"]
    message = error_line(payoff_main, [*words, "--regimes", "none,full"])
    assert message.endswith("--regimes: a payoff matrix needs one; give one name, not 2\n")
    data = sparring.payoff(env=env, opponents=["ace", "brawler"], games=2, threads=1, regimes=["full"]).data
    assert [record["regime"] for record in data["records"]] == ["full"]
    assert [*data["ratings"]] == ["full"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--env", "chess", "--ckpt", "bot:random"], "chess has one kind of games; give --opening-plies or --plies"),
        (["--env", "diplomacy", "--bot", "random"], "Diplomacy has one board and one start; give --last-year"),
        (["--env", "openspiel", "--ckpt", "x"], "a policy plays the game with the options it was trained with"),
        (["--env", "pettingzoo", "--ckpt", "x"], "a policy plays the game with the options it was trained with"),
        (["--env", "gymnasium", "--ckpt", "x"], "an environment has the parameters that it is registered with"),
    ],
)
def test_game_without_regimes_is_rejected(words, reason, error_line):
    assert f"--regimes: {reason}" in error_line(main, [*words, "--regimes", "full"])


def test_matrix_of_game_without_regimes_is_rejected(error_line):
    for env in ("chess", "diplomacy", "openspiel"):
        assert "--regimes: " in error_line(payoff_main, ["--env", env, "--opponents", "random,x", "--regimes", "full"])
