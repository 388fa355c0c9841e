"""Damaged and truncated files: nothing raises, valid parts are read, and damage is named."""

import random
import shutil

import numpy as np
import pytest

from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles
from sparring.eval.analysis.sources.wandb_offline import WandBOffline
from tests.eval.analysis.wandb_server import stop_service

SOURCES = {
    "folder": (RunFolders, "metrics.jsonl"),
    "wandb-offline": (WandBOffline, "run-*.wandb"),
    "tensorboard": (TensorBoardFiles, "events.out.tfevents.*"),
}
TAIL = 1 << 16
SAMPLES = 3


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """Return a root with a run whose three logs exceed 64 KiB."""
    pytest.importorskip("wandb")
    from tests.eval.analysis.conftest import write_run

    root = tmp_path_factory.mktemp("long")
    write_run(root, "long", wandb="offline", rows=1000, rolled_back=False)
    assert not stop_service()
    return root


def copy_of(root, tmp_path, name):
    """Copy a source's only or largest file; return the copy's path."""
    cls, pattern = SOURCES[name]
    found = max(root.rglob(pattern), key=lambda path: path.stat().st_size)
    target = tmp_path / found.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(found, target)
    return cls(tmp_path), target


@pytest.mark.parametrize("name", SOURCES)
def test_file_truncated_anywhere_in_last_64_kib_is_read(long_run, tmp_path, name):
    source, path = copy_of(long_run, tmp_path, name)
    data, whole = path.read_bytes(), source.history(source.runs()[0].id)
    assert len(data) > TAIL
    random.seed(0)
    offsets = {*random.sample(range(len(data) - TAIL, len(data)), SAMPLES), len(data) - 1, len(data) - TAIL}
    before = 0
    for size in sorted(offsets):
        path.write_bytes(data[:size])
        (run,) = source.runs()
        history = source.history(run.id)
        rows = len(history.step)
        assert before <= rows <= len(whole.step)
        before = rows
        np.testing.assert_array_equal(history.env_steps, whole.env_steps[:rows])
        last = rows - 1  # TensorBoard's last row may lack metrics that were cut off
        np.testing.assert_array_equal(history.columns["rollout/reward"][:last], whole.columns["rollout/reward"][:last])
        assert run.status == "completed" if size == len(data) else run.status in ("killed", "completed")
    assert before > len(whole.step) - 5


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("size", [0, 1, 6, 7, 8, 20, 300])
def test_file_truncated_near_start_is_read(long_run, tmp_path, name, size):
    source, path = copy_of(long_run, tmp_path, name)
    path.write_bytes(path.read_bytes()[:size])
    for run in source.runs():
        assert len(source.history(run.id).step) <= 5


@pytest.mark.parametrize("name", SOURCES)
def test_flipped_bytes_lose_rows_and_are_named(long_run, tmp_path, name):
    source, path = copy_of(long_run, tmp_path, name)
    data, (run,) = path.read_bytes(), source.runs()
    whole = source.history(run.id)
    truth = dict(zip(whole.env_steps.tolist(), whole.columns["rollout/reward"].tolist(), strict=True))
    random.seed(1)
    for _ in range(4):
        place = random.randrange(len(data) // 4, len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x80]) + data[place + 1 :])
        (run,) = source.runs()
        history = source.history(run.id)
        assert history.damage
        assert str(path) in history.damage[0]
        found = history.columns["rollout/reward"]
        same = [
            truth.get(step) == value for step, value in zip(history.env_steps, found, strict=True) if value == value
        ]
        assert all(same)
        assert len(same) > 100


def test_random_bytes_are_not_listed_as_run(tmp_path):
    random.seed(2)
    for name in ("a/events.out.tfevents.1", "a/run-x.wandb", "a/metrics.jsonl", "a/events.jsonl", "a/config.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(random.randbytes(100_000))
    for cls in (RunFolders, TensorBoardFiles, *([WandBOffline] if pytest.importorskip("wandb") else [])):
        (run,) = cls(tmp_path).runs()
        assert run.damage
        assert len(cls(tmp_path).history(run.id).step) == 0
