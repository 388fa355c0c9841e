"""The `DogfightEnv` docstring is the documentation page: its tables match the code."""

import dataclasses
import importlib.util
import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.config import RewardConfig
from sparring.envs.dogfight.interfaces.gymnasium_env import DogfightEnv
from sparring.envs.dogfight.interfaces.numpy_batch import RENDER_MODES, MatchOptions
from sparring.envs.dogfight.interfaces.spaces import SLACK, action_space, observation_space

ROOT = Path(__file__).resolve().parents[3]
DOC = inspect.getdoc(DogfightEnv)


def tables(heading):
    """Return the tables under a heading: lists of rows, each a dict from column title to text."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL).group(1)
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
        head, _, *rows = [[cell.strip(" `") for cell in line.strip("| ").split("|")] for line in block.splitlines()]
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def number(text):
    return math.pi if text == "pi" else float(text)


def observations():
    """Return rows by index, with `13 + 4k` expanded."""
    by_index = {}
    for row in tables("Observations")[0]:
        start, _, every = row["index"].partition(" + ")
        for k in range(8 if every else 1):
            assert every in ("", "4k")
            by_index[int(start) + 4 * k] = row
    return by_index


def test_documented_actions_match_action_space():
    rows = tables("Actions")[0]
    space = action_space()
    assert [int(row["index"]) for row in rows] == list(range(space.shape[0]))
    assert [row["action"] for row in rows] == ["turn", "throttle", "shoot"]
    np.testing.assert_array_equal([number(row["low"]) for row in rows], space.low)
    np.testing.assert_array_equal([number(row["high"]) for row in rows], space.high)


def test_documented_observations_cover_every_index_with_bounds():
    rows = observations()
    space = observation_space("classic", observe_physics=True)
    assert sorted(rows) == list(range(59)) == list(range(space.shape[0]))
    low = np.array([number(rows[index]["low"]) for index in range(59)])
    high = np.array([number(rows[index]["high"]) for index in range(59)])
    np.testing.assert_allclose(space.low, low - SLACK, atol=6e-6)
    np.testing.assert_allclose(space.high, high + SLACK, atol=6e-6)


def test_documented_parameters_match_rules():
    rows = observations()
    for index, parameter in enumerate(rules.PARAMETERS, start=46):
        assert rows[index]["observation"] == parameter.name
        assert number(rows[index]["normalizer"]) == parameter.normalizer
    assert number(rows[5]["normalizer"]) == rules.HEIGHT
    assert number(rows[45]["normalizer"]) == rules.MAX_TICKS


def test_challenge_frame_covers_every_index():
    covered = []
    for row in tables("Observations")[1]:
        ends = [int(end) for end in re.findall(r"\d+", row["index in a frame"])]
        covered += range(ends[0], ends[-1] + 1)
    assert covered == list(range(rules.CHALLENGE_FRAME_SIZE))
    frames = rules.CHALLENGE_FRAMES * rules.CHALLENGE_FRAME_SIZE
    assert observation_space("challenge", observe_physics=True).shape == (frames,) == (224,)


def test_physics_table_matches_parameters():
    rows = tables("Physics")[0]
    for row, parameter in zip(rows, rules.PARAMETERS, strict=True):
        assert (row["parameter"], row["unit"]) == (parameter.name, parameter.unit)
        assert number(row["default"]) == parameter.default
        assert tuple(map(number, row["narrow"].split(" .. "))) == parameter.narrow
        assert tuple(map(number, row["full"].split(" .. "))) == parameter.full


def test_regime_table_matches_regimes():
    said = {}
    for row in tables("Physics")[1]:
        changes = [] if row["changes"] == "nothing" else [change.split(" ") for change in row["changes"].split(", ")]
        said[row["regime"]] = {name: number(value) for name, value in changes}
    assert said == rules.REGIMES


def test_documented_rewards_are_default_weights():
    said = {row["term"]: number(row["weight"]) for row in tables("Rewards")[0]}
    weights = dataclasses.asdict(RewardConfig())
    assert weights.pop("zero_sum") is False  # a switch, told below the table
    assert said == weights
    minus = {row["term"] for row in tables("Rewards")[0] if row["sign"] == "-"}
    assert minus == {"damage_taken", "lose"}


def test_documented_arguments_match_signature_and_options():
    said = {row["argument"]: row["default"] for row in tables("Arguments")[0]}
    signature = inspect.signature(DogfightEnv.__init__).parameters.values()
    real = {p.name: str(p.default) for p in signature if p.kind is p.KEYWORD_ONLY}
    for option in dataclasses.fields(MatchOptions):
        factory = option.default_factory
        real[option.name] = str(option.default) if factory is dataclasses.MISSING else f"{factory.__name__}()"
    assert said == real


@pytest.mark.parametrize(
    ("argument", "choices"),
    [
        ("opponent", rules.BOTS),
        ("rules", rules.RULES),
        ("randomization", rules.LEVELS),
        ("spawn", rules.SPAWNS),
        ("bot_rate", rules.BOT_RATES),
        ("render_mode", RENDER_MODES),
    ],
)
def test_documented_arguments_name_every_choice(argument, choices):
    meaning = next(row["meaning"] for row in tables("Arguments")[0] if row["argument"] == argument)
    assert [choice for choice in choices if not re.search(rf"\b{choice}\b", meaning)] == []


def test_facts_in_prose_match_code():
    text = " ".join(DOC.split())
    assert f"x in [{-rules.HALF_WIDTH:g}, {rules.HALF_WIDTH:g}]" in text
    assert f"y in [0, {rules.HEIGHT:g}]" in text
    assert f"slower than {rules.STALL_SPEED:g} m/s stalls" in text
    assert f"ticks of 1/{rules.TICKS_PER_SECOND} s" in text
    assert f"{rules.MAX_TICKS:,} ticks ({rules.MAX_TICKS / rules.TICKS_PER_SECOND:g} s)" in text
    assert f"[`min_speed` + {rules.SPAWN_SPEED_MARGIN:g}, {rules.SPAWN_SPEED_HIGH:g}] m/s" in text


def test_versions_end_with_registered_one():
    assert rules.ENV_ID.endswith("-" + tables("Version history")[0][-1]["version"])


def test_committed_pages_match_generator():
    spec = importlib.util.spec_from_file_location("generate_env_pages", ROOT / "docs" / "generate_env_pages.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    pages = generator.pages()
    assert ROOT / "docs" / "envs" / "dogfight.md" in pages
    for path, page in pages.items():
        assert path.read_text(encoding="utf-8") == page, "run `python docs/generate_env_pages.py`"
