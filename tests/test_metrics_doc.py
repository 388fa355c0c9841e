"""docs/metrics.md and the code agree: a short run writes the keys the page lists, and no others."""

import json
import re
from pathlib import Path

import pytest

from configs.schema import (
    DIPLOMACY,
    DIPLOMACY_BOTS,
    EnvConfig,
    EvaluationConfig,
    LoggerConfig,
    NetworkConfig,
    PhaseConfig,
    PPOConfig,
    RunConfig,
    SelfPlayConfig,
    StageConfig,
)
from envs.dogfight.rules import BOTS, REGIMES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<key>[^`]+)` \|[^|]*\|[^|]*\|(?P<when>[^|]*)\|$", re.MULTILINE)
NAMES = [*BOTS, *DIPLOMACY_BOTS]
PLACEHOLDERS = {"<opponent>": [*NAMES, "selfplay"], "<bot>": NAMES, "<regime>": REGIMES, "<i>": ["0", "1"]}


def documented():
    """Key as on the page -> whether it stands in every row."""
    return {row["key"]: not row["when"].strip() for row in ROW.finditer(PAGE.read_text())}


def matches(documented_key, key):
    pattern = re.escape(documented_key)
    for placeholder, names in PLACEHOLDERS.items():
        pattern = pattern.replace(placeholder, f"(?:{'|'.join(names)})")
    return re.fullmatch(pattern, key) is not None


def trained(root, **options):
    """The rows of a run of two updates."""
    from agents.ppo.loop import train

    options |= {"name": "documented", "checkpoint_dir": str(root), "device": "cpu", "threads": 1}
    options |= {"network": NetworkConfig(hidden=8), "logger": LoggerConfig(progress=False)}
    train(RunConfig(**options))
    lines = (root / "documented" / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "event" not in row]


@pytest.fixture(scope="module")
def gymnasium_rows(tmp_path_factory):
    return trained(
        tmp_path_factory.mktemp("gymnasium"),
        env=EnvConfig(id="CartPole-v1", num_envs=4),
        ppo=PPOConfig(rollout_steps=100, epochs=1, minibatch_size=400, precision="fp32"),
        phases=[PhaseConfig("training", 2)],
    )


@pytest.fixture(scope="module")
def diplomacy_rows(tmp_path_factory):
    return trained(
        tmp_path_factory.mktemp("diplomacy"),
        env=EnvConfig(id=DIPLOMACY, num_envs=14, last_year=1902),
        ppo=PPOConfig(rollout_steps=8, epochs=1, minibatch_size=112, precision="fp32"),
        phases=[PhaseConfig(updates=2, stages=[StageConfig(bots=["random"])])],
        evaluation=EvaluationConfig(every=2, games=7),
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The rows of a run of two updates with self-play and every check on. A match is over after at most 90 steps."""
    return trained(
        tmp_path_factory.mktemp("checkpoints"),
        env=EnvConfig(num_envs=32, action_repeat=120),
        ppo=PPOConfig(rollout_steps=100, epochs=1, minibatch_size=1600, precision="fp32"),
        phases=[PhaseConfig(updates=2, stages=[StageConfig(bots=["ace"])], scripted_start=0.8, scripted_end=0.8)],
        self_play=SelfPlayConfig(slots=1),
        evaluation=EvaluationConfig(every=2, games=2, check_every=2, regimes_every=2, check_bot="ace"),
    )


def test_the_page_lists_keys_of_every_group():
    groups = {key.split("/")[0] for key in documented()}
    assert groups == {"rollout", "train", "time", "curriculum", "league", "guard", "eval"}


def test_every_written_key_is_documented_once(rows, gymnasium_rows, diplomacy_rows):
    assert len(rows) == len(gymnasium_rows) == len(diplomacy_rows) == 2
    for key in set().union(*rows, *gymnasium_rows, *diplomacy_rows) - {"env_steps"}:
        assert len([known for known in documented() if matches(known, key)]) == 1, key


def test_every_documented_key_is_written(rows, gymnasium_rows, diplomacy_rows):
    written = set().union(*rows, *gymnasium_rows, *diplomacy_rows)
    assert [known for known in documented() if not any(matches(known, key) for key in written)] == []


def test_keys_without_a_condition_stand_in_every_row(rows):
    always = [known for known, in_every_row in documented().items() if in_every_row]
    assert always
    assert [known for known in always for row in rows if not any(matches(known, key) for key in row)] == []
