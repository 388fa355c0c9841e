"""Measures and criteria of sweep files: values and error positions."""

import numpy as np
import pytest

from sparring.configs.core.errors import ConfigError
from sparring.eval.analysis.sweeps.criteria import read_criterion, read_measure
from sparring.eval.analysis.sweeps.file import parse_sweep


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mean(a/b)", 3.0), ("max(a/b)", 6.0), ("min(a/b)", 1.0), ("first(a/b)", 2.0), ("last(a/b)", 6.0),
        ("change(a/b)", 4.0), ("count(a/b)", 3.0), (" final ( a/b ) ", 3.0),
    ],
)  # fmt: skip
def test_every_reduction_of_measure_by_hand(text, value):
    assert read_measure(text).of(np.array([2.0, 1.0, 6.0])) == value


def test_final_is_mean_of_last_ten_rows():
    assert read_measure("final(x)").of(np.arange(100.0)) == np.mean(np.arange(90.0, 100.0))


def test_measure_without_values_is_unknown_and_count_zero():
    assert np.isnan(read_measure("max(x)").of(np.array([])))
    assert read_measure("count(x)").of(np.array([])) == 0.0


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("every run: max(kl/max) < 1", 1.0, False), ("every run: max(kl/max) <= 1", 1.0, True),
        ("some run: change(elo/base_model) < -50", -50.5, True), ("every run: count(x) >= 20", 19.0, False),
        ("every run: max(x) = 0", 0.0, True), ("between runs: last(x) > 5e-2", 0.04, False),
    ],
)  # fmt: skip
def test_every_comparison_of_criterion_by_hand(text, value, held):
    criterion = read_criterion(text)
    assert criterion.holds(value) is held
    assert read_criterion(str(criterion)) == criterion


@pytest.mark.parametrize(
    ("text", "minus"),
    [("D minus A: last(x) > 0", (("D",), "A")), ("some of B C minus A: last(x) < 0", (("B", "C"), "A"))],
)
def test_differences_of_named_runs(text, minus):
    assert read_criterion(text).minus == minus
    content = {"hypothesis": "a", "run": "gymnasium", "primary": {"measure": "last(x)", "goal": "lower"}}
    content |= {"runs": {"B": {"description": "b"}, "C": {"description": "c"}}, "criteria": [text]}
    with pytest.raises(ConfigError, match=r"criteria\.0=.*choose from B, C"):
        parse_sweep("mine", content, "mine.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("evry run: max(x) < 1", r"column 1: must begin with one of 'every run', .*did you mean 'every run'"),
        ("max(x) < 1", "column 1: must begin with"),
        ("every run: maxx(x) < 1", r"column 12: expected a reduction: one of mean, .*did you mean 'max'"),
        ("every run: max x < 1", r"column 16: expected an opening bracket"),
        ("every run: max(kl/max < 1", "column 23: expected a closing bracket"),
        ("every run: max(x) << 1", "column 19: expected a comparison: one of <=, >="),
        ("every run: max(x) < one", r"column 21: expected a number, such as 0\.5"),
        ("every run: max(x) < 1 or 2", "column 23: nothing may follow here"),
        ("every run: __import__('os').system('x') < 1", "column 12: expected a reduction"),
    ],
)
def test_error_points_to_column(text, message):
    with pytest.raises(ConfigError, match=message) as raised:
        read_criterion(text)
    assert "\n" not in str(raised.value)
