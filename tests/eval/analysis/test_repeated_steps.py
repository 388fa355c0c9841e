"""Repeated steps in a log and names shared by several runs: nothing is lost or chosen silently."""

import json

import pytest

from sparring.eval.analysis.options import find_run
from sparring.eval.analysis.record import AmbiguousRunError
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles
from sparring.eval.analysis.sources.wandb_offline import WandBOffline
from tests.eval.analysis.wandb_server import stop_service


def write_events(folder, points, *, name="return", number=1):
    """Write one event file of a foreign logger without restart marks; files are ordered by `number`."""
    from torch.utils.tensorboard import SummaryWriter

    earlier = set(folder.glob("*"))
    with SummaryWriter(str(folder)) as writer:
        for step, value in points:
            writer.add_scalar(name, value, step)
    (path,) = set(folder.glob("*")) - earlier
    path.rename(path.with_name(f"events.out.tfevents.{number}"))


def write_rows(folder, rows):
    folder.mkdir()
    (folder / "config.yaml").write_text("seed: 1\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def points_of(history, metric):
    return list(zip(*(part.tolist() for part in history.series(metric, "env_steps")), strict=True))


def test_all_values_of_repeated_step_are_returned(tmp_path):
    """Three episodes end at each step; another metric has one value per step."""
    write_events(tmp_path / "one", [(step, value) for step in (0, 4) for value in (1.0, 2.0, 30.0)])
    write_events(tmp_path / "one", [(0, 7.0), (4, 8.0)], name="loss", number=2)
    history = TensorBoardFiles(tmp_path).history("one")
    assert points_of(history, "return") == [(0, 1), (0, 2), (0, 30), (4, 1), (4, 2), (4, 30)]
    assert points_of(history, "loss") == [(0, 7), (4, 8)]
    assert (history.step.tolist(), history.notes) == ([1, 1, 1, 2, 2, 2], ())


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (range(0, 100, 10), range(50, 80, 10), [(0, 1), (10, 1), (20, 1), (30, 1), (40, 1), (50, 2), (60, 2), (70, 2)]),
        (range(0, 40, 10), range(5, 30, 10), [(0, 1), (5, 2), (15, 2), (25, 2)]),
        (range(0, 20, 10), range(20, 40, 10), [(0, 1), (10, 1), (20, 2), (30, 2)]),
    ],
    ids=["restart", "another run", "continued"],
)
def test_repeated_steps_hide_earlier_rows_and_are_reported(tmp_path, first, second, kept):
    write_events(tmp_path / "one", [(step, 1.0) for step in first])
    write_events(tmp_path / "one", [(step, 2.0) for step in second], number=2)
    history = TensorBoardFiles(tmp_path).history("one")
    assert points_of(history, "return") == kept
    lost = len(first) + len(second) - len(kept)
    assert len(history.notes) == (lost > 0)
    assert all(
        f"tfevents.2 begins again at step {second[0]}" in note and f"{lost} steps" in note for note in history.notes
    )


def test_decreasing_step_within_file_is_noted(tmp_path):
    write_events(tmp_path / "one", [(1, 1.0), (2, 2.0), (1, 3.0), (2, 4.0)])
    history = TensorBoardFiles(tmp_path).history("one")
    assert points_of(history, "return") == [(1, 1), (1, 3), (2, 2), (2, 4)]
    assert "falls 1 times" in history.notes[0]


@pytest.mark.parametrize(
    ("rows", "loss", "reward", "note"),
    [
        ([(1, "loss", 1), (1, "reward", 2), (2, "loss", 3), (2, "reward", 4)], [(1, 1), (2, 3)], [(1, 2), (2, 4)],
         ""),
        ([(1, "loss", 1), (2, "loss", 3), (1, "reward", 2)], [(1, 1), (2, 3)], [(1, 2)], ""),
        ([(1, "loss", 1), (1, "loss", 3), (2, "reward", 2)], [(1, 3)], [(2, 2)], "1 values are replaced"),
        ([(1, "loss", 1), (2, "loss", 2), (1, "loss", 3), (2, "loss", 4), (2, "reward", 5)], [(1, 3), (2, 4)],
         [(2, 5)], "2 of 4 rows are left out"),
    ],
    ids=["two calls a step", "a late evaluation", "one metric twice", "a counter that restarts"],
)  # fmt: skip
def test_rows_of_same_step_are_merged_and_lost_rows_reported(tmp_path, rows, loss, reward, note):
    write_rows(tmp_path / "one", [{"env_steps": step, name: value} for step, name, value in rows])
    source = RunFolders(tmp_path)
    history = source.history("one")
    assert (points_of(history, "loss"), points_of(history, "reward")) == (loss, reward)
    assert [text in history.notes[0] for text in [note] if text] == [True] * bool(note)
    assert source.record("one").notes == history.notes


def write_wandb(root, steps, *, value=0.0, **names):
    wandb = pytest.importorskip("wandb")
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True, disable_git=True)
    run = wandb.init(mode="offline", dir=str(root), settings=settings, **{"project": "p", **names})
    for step in steps:
        run.log({"loss": value + step}, step=step)
    run.finish()
    # A folder is named by the second; files of one run are in the order of these names.
    for path in (root / "wandb").glob("offline-run-*"):
        path.rename(path.with_name(f"later-{len(list((root / 'wandb').glob('later-*')))}"))


def test_ambiguous_wandb_name_is_rejected_with_ids(tmp_path):
    for id, name, project in (
        ("one", "twin", "p"),
        ("two", "twin", "p"),
        ("same", "left", "p"),
        ("same", "right", "q"),
    ):
        write_wandb(tmp_path, [1], id=id, name=name, project=project)
    assert not stop_service()
    source = WandBOffline(tmp_path)
    assert {run.id for run in source.runs()} == {"twin:one", "twin:two", "left", "right"}
    with pytest.raises(AmbiguousRunError, match=r"'twin' fits 2 runs in .*: name one of twin:one, twin:two"):
        find_run("twin", [source])
    assert [find_run(name, [source])[1].summary["run_id"] for name in ("two", "twin:two", "right")] == [
        *("two", "two", "same")
    ]
    assert [run.id for run in WandBOffline(tmp_path, "q").runs()] == ["right"]


def test_name_in_two_sources_is_reported(tmp_path, capsys):
    write_rows(tmp_path / "one", [{"env_steps": 1, "loss": 1.0}])
    write_events(tmp_path / "events" / "one", [(1, 1.0)])
    source, _ = find_run("one", [RunFolders(tmp_path), TensorBoardFiles(tmp_path / "events")])
    assert source.name == "folder"
    assert "'one' is in folder and in tensorboard; folder is read" in capsys.readouterr().err
