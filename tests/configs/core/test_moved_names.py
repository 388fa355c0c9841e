"""Old import paths work for one release and name the new path."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from sparring.configs.core.errors import MOVED as MOVED_MODULES
from sparring.configs.core.errors import MovedModules, moved

MOVED = {
    "sparring.configs.language:LeagueConfig": "sparring.configs.language.league:LeagueConfig",
    "sparring.configs.language:ADAPTER": "sparring.configs.games:ADAPTER",
    "sparring.configs.schema:GRPORunConfig": "sparring.configs.language.runs:GRPORunConfig",
    "sparring.configs.schema:CloneRunConfig": "sparring.configs.language.runs:CloneRunConfig",
    "sparring.configs.schema:LanguageRunConfig": "sparring.configs.language.runs:LanguageRunConfig",
    "sparring.envs.game:text_game": "sparring.envs.text:text_game",
    "sparring.agents.run.preflight:check_sources": "sparring.agents.language.grpo.sources:check_sources",
    "sparring.envs.hubs.matches:POWERS": "sparring.envs.diplomacy.board.map_file:POWERS",
    "sparring.envs.hubs.matches:DiplomacyMatch": "sparring.envs.diplomacy.interfaces.text_match:DiplomacyMatch",
    "sparring.envs.hubs.matches:ChessMatch": "sparring.envs.chess.interfaces.text_match:ChessMatch",
    "sparring.eval.api:check": "sparring.eval.check:check_game",
    "sparring.eval.api:curves": "sparring.eval.curves:read_curves",
    "sparring.eval.api:diplomacy_replay": "sparring.eval.diplomacy_replay:replay_game",
    "sparring.eval.api:runs": "sparring.eval.runs:ask_runs",
    "sparring.configs.sweeps.file:overrides": "sparring.configs.overrides:nested_texts",
}


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_old_path_returns_object_and_names_new_path(old, new):
    module, name = old.split(":")
    with pytest.warns(DeprecationWarning, match=new.replace(":", ".").replace(".", r"\.")):
        found = getattr(import_module(module), name)
    home, name = new.split(":")
    assert found is getattr(import_module(home), name)


def test_unknown_name_raises_attribute_error():
    find = moved("mine", {"old": "math"})
    with pytest.raises(AttributeError, match="module 'mine' has no attribute 'new'"):
        find("new")


@pytest.mark.parametrize(
    ("old", "new"),
    {
        "eval.dogfight": "envs.dogfight.evaluation",
        "eval.dogfight.command": "envs.dogfight.evaluation.command",
        "agents.llm.decoding": "agents.language.decoding",
        "agents.grpo.step": "agents.language.grpo.step",
        "agents.sweeps.launch": "eval.analysis.sweeps.launch",
        "agents.ppo.tasks.dogfight": "envs.dogfight.training.task",
        "agents.opponents.dogfight.held_out": "envs.dogfight.training.opponents.held_out",
    }.items(),
)
def test_old_module_is_module_of_new_path(old, new):
    home = import_module(f"sparring.{new}")
    spec = home.__spec__
    sys.modules.pop(f"sparring.{old}", None)
    with pytest.warns(DeprecationWarning, match=rf"sparring\.{old} has moved to sparring\.{new}$"):
        found = import_module(f"sparring.{old}")
    assert found is home
    assert (found.__name__, found.__spec__, sys.modules[f"sparring.{old}"]) == (f"sparring.{new}", spec, home)


@pytest.mark.parametrize("new", MOVED_MODULES.values())
def test_every_moved_module_exists_at_new_path(new):
    assert find_spec(f"sparring.{new}")


def test_other_modules_are_not_treated_as_moved():
    for name in ("sparring.eval.dogfights", "sparring.eval", "eval.dogfight", "sparring", "numpy", "sparring.eval.run"):
        assert MovedModules().find_spec(name) is None


def test_import_statement_warns_at_line_with_old_path(tmp_path):
    """Runs in a separate process, since Python imports a module once."""
    code = """import sparring
from sparring.eval.dogfight.responses import RECORDED
import sparring.eval.dogfight.speed as speed
print(speed.__name__)
"""
    (tmp_path / "mine.py").write_text(code)
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "sparring.envs.dogfight.evaluation.speed\n"
    assert re.findall(r"mine.py:(\d): DeprecationWarning: .* has moved to (\S+)", done.stderr) == [
        ("2", "sparring.envs.dogfight.evaluation"),
        ("2", "sparring.envs.dogfight.evaluation.responses"),
        ("3", "sparring.envs.dogfight.evaluation.speed"),
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_unknown_module_raises_module_not_found_error():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'sparring\.envs\.dogfight\.evaluation\.no_such'"):
        import_module("sparring.eval.dogfight.no_such")
