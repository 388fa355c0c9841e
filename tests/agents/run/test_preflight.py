"""What a run would begin with is looked for before it has a folder, which would keep the slip as its configuration."""

import pytest

from sparring.agents.run.preflight import FolderClaim
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import new_league


def early(folder, *options):
    FolderClaim(load(["+run=diplomacy_exp1_quick", f"checkpoint_dir={folder}", "name=mine", *options]))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("league.inherit=nowhere", "league.inherit=nowhere: .*nowhere"),
        ("model.adapter=nothing.pt", r"model\.adapter=nothing\.pt: is no file; give an adapter's"),
    ],
)
def test_a_slip_is_refused_by_name_and_leaves_no_folder(tmp_path, option, said):
    with pytest.raises(InputError, match=said):
        early(tmp_path, option)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run", ["diplomacy_exp2", "diplomacy_exp2_quick"])
def test_the_experiment_that_trains_an_adapter_asks_for_it(tmp_path, run):
    with pytest.raises(
        InputError, match=rf"^model\.adapter is missing: \+run={run} .*give model\.adapter=FILE"
    ) as refused:
        FolderClaim(load([f"+run={run}", f"checkpoint_dir={tmp_path}", "name=mine"]))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_taken(tmp_path):
    (tmp_path / "adapter.pt").write_bytes(b"read by the trainer")
    (tmp_path / "theirs").mkdir()
    LeagueFile(tmp_path / "theirs").begin(new_league(("random",), "toy"))
    early(tmp_path, "league.inherit=theirs", f"model.adapter={tmp_path / 'adapter.pt'}")
