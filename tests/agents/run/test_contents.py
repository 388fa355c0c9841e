"""What may lie in a run's folder: links, FIFOs and folders in place of files are refused by name at the start."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparring.agents.run.preflight import FolderClaim
from sparring.agents.run.session import RunSession
from sparring.configs.core.errors import InputError
from sparring.configs.load import load

ROOT = Path(__file__).resolve().parents[3]
FILES = (
    *(
        "lock",
        "config.yaml",
        "metrics.jsonl",
        "events.jsonl",
        "league.json",
        "league.lock",
        "manifest.json",
        "final.pt",
    ),
    *("events.out.tfevents.1.host.2.0", "pool/index.json", "pool/snapshot_000001.pt", "adapters/old/step.pt"),
    "final/model.safetensors",
    *("state/update_000001/state.pt", "state/update_000001/manifest.json", "wandb_id", "guard_report.json"),
)
FOLDERS = ("pool", "state", "state/update_000001", "adapters", "adapters/old", "wandb")


def config(root, *options):
    return load(["+run=quickstart", f"checkpoint_dir={root}", "name=mine", "logger.progress=false", *options])


@pytest.fixture
def folder(tmp_path):
    """A run's folder, with something beside it that no run may touch."""
    RunSession(config(tmp_path), total=1).close()
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("lock", "index.json", "snapshot_000001.pt", ".leftover.1.tmp"):
        (precious / name).write_text("keep")
    yield tmp_path / "mine"
    assert sorted(path.name for path in precious.iterdir()) == [
        *(".leftover.1.tmp", "index.json", "lock", "snapshot_000001.pt"),
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


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["link", "broken link", "device", "FIFO", "folder"])
def test_what_is_not_a_file_is_refused_by_name(folder, name, kind):
    target = {"link": folder.parent / "precious" / "lock", "broken link": "nothing", "device": "/dev/zero"}.get(kind)
    if name.startswith("events.out") and kind == "folder":
        pytest.skip("a folder of that name is harmless")
    other = os.mkfifo if kind == "FIFO" else Path.mkdir
    replaced(folder / name, (lambda path: path.symlink_to(target)) if target else other)
    refused(folder, name)


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("kind", ["link", "broken link", "FIFO", "file"])
def test_what_is_not_a_folder_is_refused_by_name(folder, name, kind):
    target = {"link": folder.parent / "precious", "broken link": "nothing"}.get(kind)
    other = os.mkfifo if kind == "FIFO" else Path.touch
    replaced(folder / name, (lambda path: path.symlink_to(target)) if target else other)
    if (name, kind) == ("adapters/old", "file"):
        FolderClaim(config(folder.parent)).release()  # any file may lie there
    else:
        refused(folder, name)


@pytest.mark.parametrize("target", ["nothing", "/dev/zero"])
def test_a_run_whose_configuration_is_a_link_is_no_missing_run(folder, target):
    replaced(folder / "config.yaml", lambda path: path.symlink_to(target))
    with pytest.raises(InputError, match=re.escape(f"{folder / 'config.yaml'}: is a link")):
        load(["resume=mine", f"checkpoint_dir={folder.parent}"])


def test_links_in_the_folder_of_weights_and_biases_are_its_own(folder):
    (folder / "wandb").mkdir()
    (folder / "wandb" / "latest-run").symlink_to("run-1")
    FolderClaim(config(folder.parent)).release()


@pytest.mark.parametrize("name", ["lock", "config.yaml", "metrics.jsonl"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["FIFO", "device"])
def test_the_command_ends_at_once_with_one_line(folder, name, make):
    replaced(folder / name, make)
    command = [sys.executable, str(ROOT / "train.py"), "resume=mine", f"checkpoint_dir={folder.parent}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{folder / name}: is a" in done.stderr
