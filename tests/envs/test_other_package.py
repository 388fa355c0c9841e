"""A game of another distribution, docs/examples/hill: found, trained and evaluated."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "docs" / "examples" / "hill"
USE = """\
import sys, warnings
warnings.simplefilter("error")  # a part that cannot be used is left out with a warning
from sparring.__main__ import main
from sparring.envs.game import games
assert [game.name for game in games()][-1] == "hill", games()
words = "train env=hill max_updates=2 name=hills threads=1 device=cpu logger.progress=false env.num_envs=16 " \\
    "ppo.rollout_steps=64 ppo.minibatch_size=256 evaluation.every=1 evaluation.games=2 checkpoint_dir="
assert main([*words.split()[:-1], f"checkpoint_dir={sys.argv[1]}"]) == 0
assert main(["train", "resume=hills", f"checkpoint_dir={sys.argv[1]}", "max_updates=3"]) == 0
assert main(["eval", "--ckpt", f"{sys.argv[1]}/hills/final.pt", "--games", "4", "--opponents", "climber"]) == 0
assert main(["eval", "--env", "hill", "--ckpt", "bot:climber", "--opponents", "idle"]) == 0
assert main(["eval", "--env", "hill", "--ckpt", "bot:climber", "--games", "3"]) == 2
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder with the package as installed by pip, without network."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*pip, "--target", str(folder), str(PACKAGE)], check=True, env=environment)
    return folder


def test_game_of_other_distribution_trains_resumes_and_evaluates(installed, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    command = [sys.executable, "-c", USE, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| climber | 0 | 0 | 4 |" in done.stdout
    assert "| idle | 200 | 0 | 0 |" in done.stdout
    assert "--games 3: must be even" in done.stderr
    rows = (tmp_path / "hills" / "metrics.jsonl").read_text().splitlines()
    assert len([row for row in map(json.loads, rows) if "event" not in row]) == 3
