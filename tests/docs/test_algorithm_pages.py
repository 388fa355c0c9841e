"""Algorithm pages: documented defaults match, and names in equations are options."""

import re
from dataclasses import MISSING
from pathlib import Path

import pytest

from sparring.configs.kinds import declared, run_kinds

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "algorithms").glob("*.md")}
OPTIONS = {key: field for kind in run_kinds() for key, field in declared(kind).items()}


@pytest.mark.parametrize("page", ["ppo", "grpo"])
def test_options_have_documented_defaults(page):
    rows = re.findall(r"^\| (`[\w.]+`(?:[^|]*`[\w.]+`)?[^|]*) \| ([^|]+) \|", PAGES[page], re.MULTILINE)
    stated = [
        (key, value)
        for names, values in rows
        for key, value in zip(re.findall(r"`([\w.]+)`", names), re.split(r", | x ", values.strip()), strict=False)
        if "." in key
    ]
    assert len(stated) >= 5
    for key, value in stated:
        kinds = [kind for kind in run_kinds() if key in declared(kind)]
        defaults = [declared(kind)[key].default for kind in kinds]  # games differ in some
        assert MISSING not in defaults, key
        assert any(str(default) == value or float(value) == default for default in defaults), key


@pytest.mark.parametrize("page", ["ppo", "grpo"])
def test_names_in_equations_are_options(page):
    """Such as `ppo_epsilon_low` and `value_coefficient`; other words with underscores are quantities."""
    quantities = {"pi_old", "pi_ref", "V_old", "V_near", "pi_trainer", "pi_sampler", "delta_t", "mean_t", "sum_y"}
    (equations,) = re.findall(r"```text\n(.*?)```", PAGES[page], re.DOTALL)
    words = {word for word in re.findall(r"\b[a-z]\w*_\w+", equations) if len(word) > 5} - quantities
    assert {word for word in words if not any(key.endswith(f".{word}") for key in OPTIONS)} - {"dr_grpo"} == set()
