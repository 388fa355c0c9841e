"""A player and a reference in the same games: least-squares estimates, intervals, and the option."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.evaluation.reference import corrected, paired_rows, stratified
from sparring.envs.diplomacy.evaluation.results import record
from sparring.eval.run import main as run_main

main = partial(run_main, env="diplomacy")
QUICK = ["--threads", "1", "--device", "cpu", "--quiet", "--last-year", "1902"]
T_95 = {133: 1.97796, 132: 1.97810, 7: 2.36462}
"""Quantiles of Student's t, from tables."""


def drawn(games, seed, slope=0.5):
    """Return shares of a player and a reference, with power and game effects on both."""
    random = np.random.default_rng(seed)
    power = np.tile([0.3, 0.1, 0.0, -0.1, -0.1, 0.0, -0.2], games // 7)
    luck = random.normal(0.0, 0.1, games)
    reference = 1 / 7 + 0.5 * power + luck
    return 0.4 + power + slope * luck + random.normal(0.0, 0.05, games), reference


def least_squares(values, reference, expected):
    """Regress on power constants and the reference; return the value at the expected mean, and its error."""
    games = len(values)
    design = np.column_stack([np.tile(np.eye(7), (games // 7, 1)), reference])
    weights, *_ = np.linalg.lstsq(design, values, rcond=None)
    variance = np.square(values - design @ weights).sum() / (games - 8)
    at = np.array([*[1 / 7] * 7, expected])
    return at @ weights, np.sqrt(variance * at @ np.linalg.inv(design.T @ design) @ at)


def test_corrected_mean_matches_least_squares_regression():
    values, reference = drawn(140, 3)
    estimate, deviation = corrected(values, reference, 1 / 7)
    value, error = least_squares(values, reference, 1 / 7)
    assert estimate.value == pytest.approx(value, abs=1e-12)
    assert estimate.interval[1] - estimate.value == pytest.approx(T_95[132] * error, rel=1e-4)
    assert deviation == pytest.approx(0.05, rel=0.2)


def test_interval_by_power_excludes_variance_between_powers():
    values, _ = drawn(140, 4)
    estimate, deviation = stratified(values)
    groups = values.reshape(20, 7)
    variance = groups.var(axis=0, ddof=1).mean()
    assert estimate.value == pytest.approx(values.mean())
    assert deviation == pytest.approx(np.sqrt(variance))
    assert estimate.interval[1] - estimate.value == pytest.approx(T_95[133] * np.sqrt(variance / 140), rel=1e-4)
    assert deviation < values.std(ddof=1) / 1.5


@pytest.mark.parametrize("method", ["power", "corrected"])
def test_intervals_cover_true_mean_in_95_percent(method):
    hits = 0
    for seed in range(400):
        values, reference = drawn(28, seed)
        estimate, _ = stratified(values) if method == "power" else corrected(values, reference, 1 / 7)
        hits += estimate.interval[0] <= 0.4 <= estimate.interval[1]
    assert 0.92 < hits / 400 < 0.98


def test_reference_of_other_games_corrects_nothing():
    """Shifted by seven games, every power keeps its own games but pairs are broken."""
    values, reference = drawn(140, 5)
    _, paired = corrected(values, reference, 1 / 7)
    _, shifted = corrected(values, np.roll(reference, 7), 1 / 7)
    assert paired < 0.8 * shifted


def test_constant_reference_corrects_nothing():
    values, _ = drawn(28, 6)
    estimate, _ = corrected(values, np.full(28, 1 / 7), 1 / 7)
    assert estimate.value == pytest.approx(values.mean())


def test_rows_state_games_needed_for_three_points():
    values, reference = drawn(140, 7)
    rows = {row.name: row for row in paired_rows("me", "dumbbot", "dumbbot", values, reference)}
    assert [*rows] == ["me, every game alone", "me, by power", "me, corrected by dumbbot", "difference from dumbbot"]
    for row in rows.values():
        assert row.games % 7 == 0
    alone = rows["me, every game alone"]
    assert alone.games == pytest.approx((1.96 * values.std(ddof=1) / 0.03) ** 2, abs=7)
    assert rows["difference from dumbbot"].estimate.value == pytest.approx((values - reference).mean())
    others = paired_rows("me", "dumbbot", "chaos", values, reference)  # the mean of the reference is not known
    assert [row.name for row in others] == [name for name in rows if "corrected" not in name]
    assert paired_rows("me", "dumbbot", "dumbbot", values[:7], reference[:7]) == []


def test_reference_plays_same_games(tmp_path):
    words = ["--bot", "random", "--opponents", "dumbbot", "--games", "14", *QUICK, "--out"]
    assert main([*words, str(tmp_path / "a"), "--reference", "dumbbot"]) == 0
    assert main([*words[2:], str(tmp_path / "b"), "--bot", "dumbbot"]) == 0
    paired, alone = (json.loads((tmp_path / name / "diplomacy.json").read_text()) for name in "ab")
    assert [entry["one"] for entry in paired["records"]] == ["random", "dumbbot"]
    assert paired["records"][1] == alone["records"][0]
    (rows,) = paired["paired"]
    difference = rows[-1]["estimate"]["value"]
    assert difference == pytest.approx(paired["records"][0]["score"] - paired["records"][1]["score"])
    text = (tmp_path / "a" / "diplomacy.md").read_text()
    assert "## Compared with dumbbot in the same games" in text
    assert "random, corrected by dumbbot" in text


@pytest.mark.parametrize(("given", "year"), [({}, 1920), ({"last_year": 1910}, 1910), ({"last_year": 1935}, 1935)])
def test_benchmark_has_three_lengths_and_reference(given, year):
    options = DiplomacyOptions(ckpt="tiny", protocol="dumbbot-1v6", **given)
    assert (options.last_year, options.games, options.opponents, options.reference) == (
        year,
        140,
        ("dumbbot",),
        "dumbbot",
    )
    assert DiplomacyOptions(bot="dumbbot", protocol="dumbbot-1v6").reference == ""


def test_both_scores_are_distinguished():
    """A solo with 18 centres and 16 of another power: squares are 324 and 256 of 580."""
    owner = torch.tensor([[0] * 18 + [1] * 16] * 7)
    played = record("a", "b", owner, torch.full((7,), 1910), by_power=True)
    solo, second, third = played.alone_by_power[:3]
    assert solo.squares.value == pytest.approx(324 / 580)
    assert solo.searchbot.value == 1.0
    assert second.squares.value == pytest.approx(256 / 580)
    assert second.searchbot.value == third.searchbot.value == third.squares.value == 0.0
