"""Preflight checks run before the run folder exists; a rejected start can be repeated with other options."""

import pytest

from sparring.agents.run.folder import RunFolder
from sparring.agents.run.preflight import FolderClaim
from sparring.agents.run.session import RunSession, fresh_start
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import new_league


def early(folder, *options):
    FolderClaim(load(["+run=diplomacy_exp1_quick", f"checkpoint_dir={folder}", "name=mine", *options]))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("league.inherit=nowhere", "league.inherit=nowhere: .*nowhere"),
        ("model.adapter=nothing.pt", r"model\.adapter=nothing\.pt: is not a file; pass an adapter"),
    ],
)
def test_missing_input_is_rejected_by_name_without_folder(tmp_path, option, said):
    with pytest.raises(InputError, match=said):
        early(tmp_path, option)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run", ["diplomacy_exp2", "diplomacy_exp2_quick"])
def test_adapter_experiment_requires_adapter(tmp_path, run):
    with pytest.raises(
        InputError, match=rf"^model\.adapter is missing: \+run={run} .*set model\.adapter=FILE"
    ) as refused:
        FolderClaim(load([f"+run={run}", f"checkpoint_dir={tmp_path}", "name=mine"]))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_existing_inputs_are_accepted(tmp_path):
    (tmp_path / "adapter.pt").write_bytes(b"read by the trainer")
    (tmp_path / "theirs").mkdir()
    LeagueFile(tmp_path / "theirs").restore(new_league(("random",), "toy"))
    early(tmp_path, "league.inherit=theirs", f"model.adapter={tmp_path / 'adapter.pt'}")


def config(root, *options):
    return load(["+run=diplomacy_exp1_quick", f"checkpoint_dir={root}", "name=mine", "logger.progress=false", *options])


@pytest.fixture
def refused(tmp_path):
    """Return what is left when the trainer fails right after opening its folder, with seed 1."""
    with RunSession(config(tmp_path), total=1) as session:
        session.states.folder.mkdir()
        session.folder.pool.mkdir()
    return tmp_path


def stored(root):
    return RunFolder(root / "mine").read_config()


def test_corrected_command_replaces_options_of_rejected_start(refused):
    corrected = config(refused, "seed=7", "model.name=smollm2", "logger.wandb_project=other")
    with RunSession(corrected, total=1, claim=FolderClaim(corrected)) as session:
        session.report_resume(0, {})
    assert (stored(refused)["seed"], stored(refused)["model"]["name"]) == (7, "smollm2")
    said = (refused / "mine" / "events.jsonl").read_text()
    assert "starts from the beginning, and config.yaml now has its seed, model.name, logger.wandb_project" in said


def test_retry_checks_initial_files_again(refused):
    with pytest.raises(ConfigError, match=r"model\.adapter=nothing\.pt: is not a file"):
        FolderClaim(config(refused, "model.adapter=nothing.pt"))


def state(folder, name="update_000000"):
    (folder / "state" / name).mkdir()


STARTED = {
    "a state": state,
    "a damaged state put aside": lambda folder: state(folder, "update_000000.damaged"),
    "half a state": lambda folder: state(folder, ".update_000000.x.tmp"),
    "a policy": lambda folder: (folder / "final.pt").write_bytes(b"weights"),
    "a model": lambda folder: (folder / "final").mkdir(),
    "a row": lambda folder: (folder / "metrics.jsonl").write_text("{}\n"),
    "a snapshot": lambda folder: (folder / "pool" / "snapshot.pt").write_bytes(b"weights"),
    "a person's notes": lambda folder: (folder / "notes.txt").write_text("keep"),
}


@pytest.mark.parametrize("what", STARTED)
def test_non_empty_folder_keeps_its_options(refused, what):
    STARTED[what](refused / "mine")
    with pytest.raises(ConfigError, match="seed=7: the run was started with 1"):
        FolderClaim(config(refused, "seed=7"))
    assert stored(refused)["seed"] == 1


def test_league_of_rejected_start_is_renamed(refused):
    """Its base model belongs to the mistaken command; the run creates its own."""
    LeagueFile(refused / "mine").restore(new_league(("random",), "slip"))
    written = (refused / "mine" / "league.json").read_bytes()
    RunSession(config(refused, "model.name=smollm2"), total=1).close()
    assert not (refused / "mine" / "league.json").exists()
    assert (refused / "mine" / "league.json.before").read_bytes() == written


def test_many_changed_options_are_counted():
    line = fresh_start({f"option_{number}": (1, 2) for number in range(8)})
    assert line.endswith("now has its option_0, option_1, option_2, option_3, option_4, 3 more options")
