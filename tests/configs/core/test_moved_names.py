"""Names at their old import paths: they work for one release and say the new path."""

from importlib import import_module

import pytest

from sparring.configs.core.errors import moved

MOVED = {
    "sparring.configs.language:LeagueConfig": "sparring.configs.core.league:LeagueConfig",
    "sparring.configs.language:ADAPTER": "sparring.configs.games:ADAPTER",
    "sparring.configs.schema:GRPORunConfig": "sparring.configs.language.runs:GRPORunConfig",
    "sparring.configs.schema:CloneRunConfig": "sparring.configs.language.runs:CloneRunConfig",
    "sparring.configs.schema:LanguageRunConfig": "sparring.configs.language.runs:LanguageRunConfig",
    "sparring.envs.game:text_game": "sparring.envs.text:text_game",
    "sparring.agents.run.preflight:check_sources": "sparring.agents.grpo.sources:check_sources",
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
def test_an_old_path_gives_the_object_and_names_the_new_path(old, new):
    module, name = old.split(":")
    with pytest.warns(DeprecationWarning, match=new.replace(":", ".").replace(".", r"\.")):
        found = getattr(import_module(module), name)
    home, name = new.split(":")
    assert found is getattr(import_module(home), name)


def test_an_unknown_name_is_still_refused_as_python_does():
    find = moved("mine", {"old": "math"})
    with pytest.raises(AttributeError, match="module 'mine' has no attribute 'new'"):
        find("new")
