"""Run folders: names, content, and rejected links, FIFOs and folders in place of files."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest
import yaml

from sparring.agents.run import folder as run_folder
from sparring.agents.run.folder import ADJECTIVES, CALLSIGNS, RunFolder, RunFolderError
from sparring.agents.run.preflight import FolderClaim
from sparring.agents.run.session import RunSession
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from tests.configs.run_configs import configured


def test_generated_name_is_adjective_callsign_run(tmp_path):
    folder = RunFolder.create(tmp_path / "checkpoints", "", "unified_dr_gpu_v3")
    adjective, callsign, run = folder.name.split("-")
    assert (adjective in ADJECTIVES, callsign in CALLSIGNS, run) == (True, True, "unified_dr_gpu_v3")
    assert folder.path.is_dir()


def test_name_without_run_file_has_two_parts(tmp_path):
    assert len(RunFolder.create(tmp_path).name.split("-")) == 2


def test_word_lists_are_large_and_plain():
    for words in (ADJECTIVES, CALLSIGNS):
        assert len(set(words)) == len(words) >= 40
        assert all(word.isalpha() and word.islower() for word in words)


def test_existing_generated_name_is_redrawn(tmp_path, monkeypatch):
    draws = iter(["dark", "ghost", "dark", "ghost", "calm", "raven"])
    monkeypatch.setattr(run_folder.secrets, "choice", lambda words: next(draws))
    assert RunFolder.create(tmp_path, "", "v3").name == "dark-ghost-v3"
    assert RunFolder.create(tmp_path, "", "v3").name == "calm-raven-v3"


def test_existing_run_name_is_rejected(tmp_path):
    assert RunFolder.create(tmp_path, "mine").path == tmp_path / "mine"
    with pytest.raises(RunFolderError, match=r"name='mine': .* exists; choose another or leave it empty"):
        RunFolder.create(tmp_path, "mine")


def test_concurrent_starts_with_one_name_create_one_run(tmp_path):
    def create(_):
        try:
            return RunFolder.create(tmp_path / "checkpoints", "mine").name
        except RunFolderError:
            return None

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(create, range(64))).count("mine") == 1


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "two words", "released", "-flag"])
def test_invalid_folder_name_is_rejected(tmp_path, name):
    with pytest.raises(RunFolderError, match=r"name=.*must be letters, digits"):
        RunFolder.create(tmp_path, name)


def test_error_names_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderError, match=r"file/runs: cannot be created \(Not a directory\); use"):
        RunFolder.create(tmp_path / "file" / "runs")


def test_run_files_have_expected_paths(tmp_path):
    folder = RunFolder(tmp_path / "dark-ghost")
    paths = [folder.config, folder.state, folder.pool, folder.final, folder.step(4096), folder.named("pre_brawler")]
    names = ["config.yaml", "state", "pool", "final.pt", "step_4096.pt", "pre_brawler.pt"]
    assert paths == [folder.path / name for name in names]
    with pytest.raises(RunFolderError, match=r"snapshot='\.\./x': must be letters"):
        folder.named("../x")


def test_configuration_is_yaml_in_declaration_order(tmp_path):
    folder = RunFolder.create(tmp_path)
    config = {"seed": 1, "env": {"id": "sparring/Dogfight-v1", "rules": "classic"}, "bots": ["ace"], "none": None}
    folder.write_config(config)
    text = folder.config.read_text()
    assert yaml.safe_load(text) == config
    assert text.index("seed") < text.index("env") < text.index("bots")


def test_run_is_opened_by_name(tmp_path):
    assert RunFolder.open(tmp_path, "mine") is None
    assert RunFolder.open(tmp_path, "") is None
    folder = RunFolder.create(tmp_path, "mine")
    folder.write_config({"seed": 1})
    assert RunFolder.open(tmp_path, "mine") == folder
    assert folder.read_config() == {"seed": 1}


@pytest.mark.parametrize("text", ["[1, 2", "just text", None])
def test_unreadable_configuration_is_named(tmp_path, text):
    folder = RunFolder.create(tmp_path, "mine")
    if text:
        folder.config.write_text(text)
    with pytest.raises(RunFolderError, match=r"config\.yaml: (cannot be read|is not a configuration)"):
        folder.read_config()


FILES = (
    *("lock", "config.yaml", "metrics.jsonl", "events.jsonl", "league.json", "league.lock", "manifest.json"),
    "final.pt",
    *("events.out.tfevents.1.host.2.0", "pool/index.json", "pool/snapshot_000001.pt", "adapters/old/step.pt"),
    "final/model.safetensors",
    *("state/update_000001/state.pt", "state/update_000001/manifest.json", "wandb_id", "guard_report.json"),
)
FOLDERS = ("pool", "state", "state/update_000001", "adapters", "adapters/old", "wandb")


def config(root, *options):
    base = ("+run=quickstart", "name=mine", "logger.progress=false")
    return configured(base, f"checkpoint_dir={root}", *options)


@pytest.fixture
def folder(tmp_path):
    """Return a run folder next to something no run may touch."""
    RunSession(config(tmp_path), total=1).close()
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("lock", "index.json", "snapshot_000001.pt", ".leftover.1.tmp"):
        (precious / name).write_text("keep")
    yield tmp_path / "mine"
    assert sorted(path.name for path in precious.iterdir()) == [
        *(".leftover.1.tmp", "index.json", "lock", "snapshot_000001.pt")
    ]
    assert {path.read_text() for path in precious.iterdir()} == {"keep"}


def replaced(path, make):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path)


def refused(folder, name):
    with pytest.raises(InputError) as caught:
        FolderClaim(config(folder.parent))
    assert str(caught.value).startswith(f"{folder / name}: is ")
    assert "\n" not in str(caught.value)


def each_once(names, *kinds):
    """Pair every name with one of the kinds in turn, and the first name with all of them."""
    return [*((names[0], kind) for kind in kinds), *zip(names[1:], cycle(kinds), strict=False)]


@pytest.mark.parametrize(("name", "kind"), each_once(FILES, "link", "broken link", "device", "FIFO", "folder"))
def test_non_file_is_rejected_by_name(folder, name, kind):
    target = {"link": folder.parent / "precious" / "lock", "broken link": "nothing", "device": "/dev/zero"}.get(kind)
    other = os.mkfifo if kind == "FIFO" else Path.mkdir
    replaced(folder / name, (lambda path: path.symlink_to(target)) if target else other)
    refused(folder, name)


@pytest.mark.parametrize(("name", "kind"), each_once(FOLDERS, "link", "broken link", "FIFO", "file"))
def test_non_folder_is_rejected_by_name(folder, name, kind):
    target = {"link": folder.parent / "precious", "broken link": "nothing"}.get(kind)
    other = os.mkfifo if kind == "FIFO" else Path.touch
    replaced(folder / name, (lambda path: path.symlink_to(target)) if target else other)
    if (name, kind) == ("adapters/old", "file"):
        FolderClaim(config(folder.parent)).release()  # any file may lie there
    else:
        refused(folder, name)


@pytest.mark.parametrize("target", ["nothing", "/dev/zero"])
def test_linked_configuration_is_not_reported_as_missing_run(folder, target):
    replaced(folder / "config.yaml", lambda path: path.symlink_to(target))
    with pytest.raises(InputError, match=re.escape(f"{folder / 'config.yaml'}: is a link")):
        load(["resume=mine", f"checkpoint_dir={folder.parent}"])


def test_links_in_wandb_folder_are_allowed(folder):
    (folder / "wandb").mkdir()
    (folder / "wandb" / "latest-run").symlink_to("run-1")
    FolderClaim(config(folder.parent)).release()
