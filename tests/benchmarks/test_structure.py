"""benchmarks/structure.py counts correctly on a tiny checkout."""

import pytest

from benchmarks.structure import TARGETS, counts, entered, trace
from benchmarks.structure_parts.entered_files import PACKAGES
from benchmarks.structure_parts.options import unset

FILES = {
    "__init__.py": "",
    "agents/ppo/task.py": (
        "from typing import Protocol\nfrom sparring.envs.dogfight.rules import BOTS\n\n"
        "class PPOTask(Protocol):\n    num_envs: int\n\n    def close(self) -> None: ...\n"
    ),
    "agents/loop.py": "def train(run, stop):\n    while not stop.asked:\n        run.update()\n",
    "agents/same.py": "class Twin:\n    def save_state(self): ...\n",
    "curriculum/gae.py": "class Twin:\n    x = 1  # seconds\n    y = 2\n",
    "README.md": "Nobody is left, whoever asks.\n",
    "agents/logger.py": "class Logger:\n    def log(self, steps, row):\n        pass\n",
    "agents/late.py": "def used():\n    return 1\n\nVALUE = used()\n",
    "train.py": (
        "from sparring.agents import late\nfrom sparring.agents.logger import Logger\n"
        "from sparring.curriculum import steps\n\n"
        "def main():\n    Logger().log(1, {})\n    steps.advance()\n    Logger().log(2, {})\n"
        "    late.used()\n\nmain()\n"
    ),
    "curriculum/steps.py": "def advance():\n    pass\n",
    "docs/README.md": "[a page](one.md) and\n| lab notes |\n[another](two.md)\n",
    "docs/one.md": "three more words\n",
}


@pytest.fixture
def checkout(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_figures_of_small_checkout_by_hand(checkout):
    found = counts(checkout)
    assert found.keys() <= TARGETS.keys()
    assert found["imports from the core into parts"] == "1"
    assert found["vague names, per 1,000 lines"] == "0.0"
    assert found["product lines"] == str(sum(text.count("\n") for name, text in FILES.items() if name.endswith(".py")))
    assert found["banned words in code and docs"] == "2"
    assert found["comment lines on kernels and numerics"] == "33.3 %"
    assert found["words of the main navigation"] == "9"


def test_files_entered_by_run_are_counted(checkout, tmp_path_factory, monkeypatch):
    """Other packages are replaced by empty ones, since importing them takes seconds."""
    packages = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        (packages / f"{name}.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(packages))
    assert entered(checkout, "update train.py") == ["agents/logger.py", "curriculum/steps.py"]
    assert entered(checkout, "all train.py") == [
        "agents/late.py",
        "agents/logger.py",
        "curriculum/steps.py",
        "train.py",
    ]
    calls = trace(checkout, "update train.py")
    assert calls["functions"] == [["agents/logger.py", "Logger.log"], ["curriculum/steps.py", "advance"]]
    assert calls["depth"] == 2  # main, and one of them


def test_options_unset_by_run_and_sweep_files_are_listed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "sweep").mkdir()
    (tmp_path / "run" / "a.yaml").write_text("seed: 1\nphases: [{at: 1}, {stages: [{bots: [ace]}]}]\n")
    (tmp_path / "run" / "empty.yaml").write_text("# nothing\n")
    (tmp_path / "sweep" / "b.yaml").write_text(
        "defaults: {ppo: {clip: 0.1}}\nruns: {A: {}, B: {changes: {ppo: {epochs: 2}}}}\n"
    )
    (tmp_path / "sweep" / "c.yaml").write_text("search: {space: {ppo.gamma: [0.9]}}\nenv: {kwargs: {size: 3}}\n")
    options = ("seed", "phases.at", "phases.stages.bots", "phases.stages.at", "ppo.clip", "ppo.epochs", "ppo.gamma")
    assert unset(dict.fromkeys((*options, "env.kwargs")), tmp_path) == ["phases.stages.at", "env.kwargs"]
