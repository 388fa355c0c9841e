"""checkpoints/README.md matches the code: file format, contract, and files in a run folder."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from sparring.agents.policies.checkpoint import CONTRACT_KEYS
from sparring.agents.trainers import train
from sparring.configs.core.tensor_file import unpack
from sparring.configs.games import POLICY_FORMAT as FORMAT
from sparring.configs.games import POLICY_FORMAT_VERSION as FORMAT_VERSION
from sparring.configs.schema import EvaluationConfig
from sparring.envs.dogfight import GAME
from tests.agents.ppo.small_run import config

PAGE = (Path(__file__).resolve().parents[2] / "checkpoints" / "README.md").read_text(encoding="utf-8")
FILES, KEYS = (
    {row[0]: row[1] for row in re.findall(r"^\| (`.+?) \| (.+) \|$", part, re.MULTILINE)}
    for part in PAGE.split("A checkpoint is a dict")
)
LATER = {f"{kind}.{ending}" for kind in ("eval", "sprt", "payoff") for ending in ("json", "md")} | {"payoff.png"}
NOT_IN_EVERY_RUN = LATER | {"guard_report.json", "notes.md", "wandb_id"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a small run with every possible file."""
    root = tmp_path_factory.mktemp("runs")
    return train(config(root, evaluation=EvaluationConfig(every=1, games=2))).parent


def patterns():
    names = [name for cell in FILES for name in re.findall(r"`([^`]+)`", cell)]
    return [re.sub(r"<.+?>", "*", name).rstrip("/") for name in names]


def test_every_file_of_run_folder_is_on_page(folder):
    assert [path.name for path in folder.iterdir() if not any(fnmatch(path.name, p) for p in patterns())] == []


def test_every_file_on_page_is_in_run_folder(folder):
    names = [path.name for path in folder.iterdir()]
    missing = {pattern for pattern in patterns() if not any(fnmatch(name, pattern) for name in names)}
    assert missing == NOT_IN_EVERY_RUN
    assert all(re.fullmatch(r"update_\d{6}", path.name) for path in (folder / "state").iterdir())


def test_manifest_lists_policies(folder):
    assert sorted(json.loads((folder / "manifest.json").read_text())) == sorted(p.name for p in folder.glob("*.pt"))


def test_documented_keys_and_format_match_file(folder):
    content = unpack((folder / "final.pt").read_bytes())
    assert sorted(re.findall(r"`(\w+)`", " ".join(KEYS))) == sorted(content)
    assert KEYS["`format`, `format_version`"].startswith(f'`"{FORMAT}"`, {FORMAT_VERSION} ')
    named = re.findall(r"`(\w+)`", KEYS["`contract`"])
    assert named == [*CONTRACT_KEYS, *GAME.contract_keys]
    assert sorted(named) == sorted(content["contract"])
