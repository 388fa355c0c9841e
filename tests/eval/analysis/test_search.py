"""Search expressions: what they select, and error positions."""

import pytest

from sparring.configs.core.errors import InputError
from sparring.eval.analysis.record import RunRecord
from sparring.eval.analysis.search import SearchError, config_test, parse, unused_names

RUN = RunRecord(
    id="dark-ghost",
    source="folder",
    path="/x",
    status="completed",
    created=1.0,
    updated=2.0,
    config={"seed": 3, "deterministic": True, "note": None, "model": {"name": "smollm2", "lora_rank": 16}},
    summary={"train/loss": 0.25, "env_steps": 128},
    tags=("power-laws", "ppo"),
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("status = completed", True),
        ("status == failed", False),
        ("status != failed", True),
        ("config.seed >= 3 and config.seed < 4", True),
        ("seed = 3.0", True),
        ("lora_rank = 16", True),
        ("config.lora_rank > 16", False),
        ("deterministic = true", True),
        ("note = null", True),
        ("train/loss <= 0.25", True),
        ("summary.train/loss < 1e-3", False),
        ("tags = ppo", True),
        ("tags ~ POWER", True),
        ("tags != ppo", False),
        ("not status = failed and (seed = 9 or seed = 3)", True),
        ("seed = 9 or seed = 3 and status = failed", False),
        ("seed = 3 or seed = 9 and status = failed", True),
        ("not not seed", True),
        ("missing", False),
        ("missing < 3", False),
        ("missing != 3", True),
        ('model.name = "smollm2"', True),
        ("id ~ 'ghost'", True),
        ("id < zebra", False),
        ("seed = 3 or order", True),
        ("order or nothing or android", False),
        ("status = and or status = or or status = not", False),
        ("seed=3 and(status=failed)", False),
        ("seed\n=\n3", True),
        ("note = '\"null\"'", False),
        ("not(seed=9)and(not seed=8)", True),
    ],
)
def test_expression_selects_matching_runs(text, holds):
    assert parse(text)(RUN) is holds


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "expected a name"),
        ("seed =", 7, "expected a value after ="),
        ("seed = 3 status", 10, "expected and, or, or the end, not 'status'"),
        ("(seed = 3", 10, "expected )"),
        ("seed = 3)", 9, "expected and, or, or the end, not ')'"),
        ("and seed", 1, "expected a name, such as status or config.seed, not 'and'"),
        ("seed = 3 and", 13, "expected a name"),
        ("seed = = 3", 8, "expected a value after =, not '='"),
        ("  seed ! 3", 8, "'!' is not part of an expression"),
        ("seed = 'x", 8, "the quote is not closed"),
        ("(" * 60 + "a", 52, "nested more than 50 deep"),
        ("not " * 60 + "a", 205, "nested more than 50 deep"),
        ("a and (" * 60 + "a", 358, "nested more than 50 deep, not 'a'"),
        ("(seed = 3 status", 11, "expected ), not 'status'"),
        ("seed > = 3", 8, "expected a value after >, not '='"),
        ("seed = 3\nstatus", 10, "expected and, or, or the end, not 'status'"),
        ("seed = 3 android", 10, "expected and, or, or the end, not 'android'"),
        ("seed = 3 orbit", 10, "expected and, or, or the end, not 'orbit'"),
        ("seed = (3)", 8, "expected a value after =, not '('"),
        ("seed = 3 and 'and' = 4 'it'", 24, "expected and, or, or the end, not 'it'"),
        ("= 3 and 'x", 1, "expected a name, such as status or config.seed, not '='"),
    ],
)
def test_errors_point_to_column(text, column, problem):
    with pytest.raises(SearchError) as error:
        parse(text)
    assert f"search, column {column}: {problem}" in str(error.value)


@pytest.mark.parametrize("text", ["__import__('os').system('x')", "().__class__", "seed = 3; import os", "lambda: 1"])
def test_python_is_text_or_rejected(text):
    with pytest.raises(SearchError):
        parse(text)


def test_option_value_pair_selects_runs():
    assert config_test("lora_rank=16")(RUN)
    assert config_test("model.name=smollm2")(RUN)
    assert not config_test("model.name=Qwen/Qwen2.5-7B-Instruct")(RUN)
    for text in ("seed", "=3"):
        with pytest.raises(InputError, match='write "KEY=VALUE"'):
            config_test(text)


def test_names_no_run_has_are_named():
    assert unused_names("status = a and seeed = 2", [RUN]) == (
        "search, column 16: no run has 'seeed'; did you mean 'seed'?"
    )
    assert unused_names("seed = missing", [RUN]) == ""
