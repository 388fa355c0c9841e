import math

import pytest

from sparring.configs.core.allowed import Form, complaint, describe, inside


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (0, "(0, 1]", False),
        (1e-9, "(0, 1]", True),
        (1, "(0, 1]", True),
        (1.0001, "(0, 1]", False),
        (0, "[0, 1)", True),
        (1, "[0, 1)", False),
        (-2.5, "[-3, -2]", True),
        (math.nan, "[-1000, 1000]", False),
        (math.inf, "[0, 1000]", False),
        (-math.inf, "[-1000, 1000]", False),
    ],
)
def test_interval_includes_closed_ends_only(value, interval, expected):
    assert inside(value, interval) is expected


def test_errors_state_allowed_values():
    assert complaint(7, "(0, 1]") == "must be in (0, 1]"
    assert complaint("clasic", ("classic", "challenge")) == "choose from classic, challenge; did you mean 'classic'?"
    assert complaint("B", Form("[a-z]+", "small letters")) == "must be small letters"
    assert complaint("b", Form("[a-z]+", "small letters")) is None


def test_pattern_must_match_full_text():
    assert complaint("abc1", Form("[a-z]+", "small letters")) == "must be small letters"
    assert complaint("abc\n", Form("[a-z]+", "small letters")) == "must be small letters"


def test_allowed_values_are_described_briefly():
    assert describe("[0, 1]") == "[0, 1]"
    assert describe(("a", "b")) == "a, b"
    assert describe(Form(".", "one letter")) == "one letter"
