"""Resumed runs of other trainers: every row once, for any step counter and restart."""

import json
import sqlite3

import numpy as np
import pytest

from sparring.eval.analysis.sources.reading import RowTable, add_logged
from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles
from sparring.eval.analysis.sources.trackio_files import LAYOUT, TrackioFiles
from sparring.eval.analysis.sources.wandb_offline import WandBOffline
from tests.eval.analysis.wandb_server import stop_service

FIRST, ON, OVERLAP = range(0, 1000, 100), range(1000, 2000, 100), range(500, 1500, 100)


def read(parts, declared=()):
    """Return the history of parts of rows, each counted from 0 unless a row gives `_step`."""
    table, events = RowTable(), []
    for rows in parts:
        table.begin_part()
        for number, row in enumerate(rows):
            add_logged(table, events, row.items(), step=row.get("_step", number))
    return table.history(events, (), declared)


def rows(steps, key, *, mark, **more):
    """Return a row per step with `score` `mark`, which is not an integer."""
    return [{"score": mark + 0.5, key: step, **more} for step in steps]


def scores(history):
    return history.columns["score"].tolist()


@pytest.mark.parametrize(
    "key",
    ["global_step", "train/global_step", "trainer/global_step", "time/total_timesteps", "epoch", "my_own", "Games"],
)
def test_resumed_run_keeps_all_rows_if_step_continues(key):
    history = read([rows(FIRST, key, mark=1), rows(ON, key, mark=2), rows(range(2000, 2500, 100), key, mark=3)])
    assert history.columns[key].tolist() == list(range(0, 2500, 100))
    assert history.step.tolist() == list(range(25))
    assert history.notes == ()


@pytest.mark.parametrize("key", ["global_step", "num_timesteps", "epoch", "my_own"])
def test_repeated_rows_of_resumed_part_replace_earlier(key):
    """The first process died at 900; the second resumes from 500, a third from 1,400."""
    history = read([rows(FIRST, key, mark=1), rows(OVERLAP, key, mark=2), rows(range(1400, 1700, 100), key, mark=3)])
    assert history.columns[key].tolist() == list(range(0, 1700, 100))
    assert scores(history) == [1.5] * 5 + [2.5] * 9 + [3.5] * 3
    assert (
        f"6 of 23 rows are left out: their metrics are logged again later at the same step or an earlier one by {key}"
        in (history.notes[0])
    )
    assert (np.diff(history.step) > 0).all()


@pytest.mark.parametrize(
    "more",
    [{}, {"episodes": None}, {"step": None}, {"num_tokens": 512}, {"lr_steps": 7}, {"unix_time": None}],
    ids=str,
)
def test_no_row_is_lost_if_no_metric_continues(more):
    """Process counters, options and clocks do not tell where a part resumes."""

    def part(mark):
        values = {"unix_time": 1_700_000_000 + 1000 * mark}
        name, value = next(iter(more.items()), ("", 0))
        counted = [values.get(name, 0) + number if value is None else value for number in range(10)]
        return [{"score": mark + 0.5} | ({name: count} if name else {}) for count in counted]

    history = read([part(1), part(2)])
    assert scores(history) == [1.5] * 10 + [2.5] * 10
    assert history.step.tolist() == list(range(20))
    assert "begins again at 0 in 1 later parts, and no metric counts on" in history.notes[0]


def test_process_counter_does_not_replace_run_step():
    parts = [
        [
            {"score": mark + 0.5, "global_step": step, "step": number, "episodes": 3 * number}
            for number, step in enumerate(on)
        ]
        for mark, on in ((1, FIRST), (2, ON))
    ]
    assert scores(read(parts)) == [1.5] * 10 + [2.5] * 10
    other = [[{**row, "frames_x": row.pop("global_step")} for row in map(dict, part)] for part in parts]
    assert scores(read(other)) == [1.5] * 10 + [2.5] * 10


def test_define_metric_sets_step_of_named_metrics_only():
    """Training continues; the evaluation, which counts its rounds, repeats from round 2."""

    def part(first, round, mark):
        training = [{"loss": mark + 0.5, "seen": first + number} for number in range(6)]
        return [*training, *({"eval/score": mark + 0.25, "eval/round": round + number} for number in range(4))]

    history = read([part(10, 0, 1), part(16, 3, 2)], [("loss", "seen"), ("eval/*", "eval/round")])
    assert history.columns["eval/score"][~np.isnan(history.columns["eval/score"])].tolist() == [1.25] * 3 + [2.25] * 4
    assert history.columns["loss"][~np.isnan(history.columns["loss"])].tolist() == [1.5] * 6 + [2.5] * 6


def test_rows_between_steps_belong_to_preceding_step():
    """Evaluations log no step: the one after step 300 is repeated with it, the one before is not."""
    first = [{"global_step": 0, "score": 1.5}, {"eval": 0.1}, {"global_step": 300, "score": 1.5}, {"eval": 0.3}]
    second = [{"global_step": 300, "score": 2.5}, {"eval": 0.35}, {"global_step": 600, "score": 2.5}, {"eval": 0.6}]
    history = read([first, second])
    assert history.columns["eval"][~np.isnan(history.columns["eval"])].tolist() == [0.1, 0.35, 0.6]
    ours = [
        [{"env_steps" if key == "global_step" else key: row[key] for key in row} for row in part]
        for part in (first, second)
    ]
    history = read(ours)
    assert history.columns["eval"][~np.isnan(history.columns["eval"])].tolist() == [0.1, 0.35, 0.6]


def write_part(root, id, steps, *, key, mark, define=False):
    wandb = pytest.importorskip("wandb")
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True, disable_git=True)
    run = wandb.init(mode="offline", dir=str(root), project="p", id=id, name=id, resume="allow", settings=settings)
    if define:
        run.define_metric("*", step_metric=key)
    for step in steps:
        run.log({"score": mark + 0.5, key: step})
    run.finish()
    for path in (root / "wandb").glob("offline-run-*"):
        path.rename(path.with_name(f"later-{len(list((root / 'wandb').glob('later-*')))}"))


def test_resumed_wandb_files_are_read_as_one_run(tmp_path):
    write_part(tmp_path, "plain", FIRST, key="global_step", mark=1)
    write_part(tmp_path, "plain", ON, key="global_step", mark=2)
    write_part(tmp_path, "named", FIRST, key="x", mark=1, define=True)
    write_part(tmp_path, "named", OVERLAP, key="x", mark=2, define=True)
    assert not stop_service()
    source = WandBOffline(tmp_path)
    assert scores(source.history("plain")) == [1.5] * 10 + [2.5] * 10
    assert source.history("plain").notes == source.record("plain").notes == ()
    assert scores(source.history("named")) == [1.5] * 5 + [2.5] * 10
    cut = max((tmp_path / "wandb").rglob("run-plain.wandb"), key=str)
    cut.write_bytes(cut.read_bytes()[:-200])  # the process died while it wrote
    assert scores(WandBOffline(tmp_path).history("plain"))[:10] == [1.5] * 10


@pytest.mark.parametrize(("on", "kept"), [(ON, 20), (OVERLAP, 15)], ids=["goes on", "overlaps"])
def test_trackio_rows_with_falling_step_use_run_step(tmp_path, on, kept):
    with sqlite3.connect(tmp_path / "p.db") as file:
        file.executescript(LAYOUT)
        for mark, steps in ((1, FIRST), (2, on)):
            for number, row in enumerate(rows(steps, "global_step", mark=mark)):
                file.execute(
                    "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('a', '', 'a', ?, ?)",
                    (number, json.dumps(row)),
                )
    history = TrackioFiles(tmp_path).history("a")
    assert scores(history) == [1.5] * (kept - 10) + [2.5] * 10


def write_events(folder, number, points, **restart):
    from torch.utils.tensorboard import SummaryWriter

    earlier = set(folder.glob("*"))
    with SummaryWriter(str(folder), **restart) as writer:
        for step, values in points:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
    (path,) = set(folder.glob("*")) - earlier
    path.rename(path.with_name(f"events.out.tfevents.{number}"))


@pytest.mark.parametrize(("on", "kept"), [(ON, 20), (OVERLAP, 15)], ids=["goes on", "overlaps"])
def test_event_files_with_restarted_step_use_run_step(tmp_path, on, kept):
    for number, steps in enumerate((FIRST, on)):
        points = enumerate(rows(steps, "time/total_timesteps", mark=number + 1))
        write_events(tmp_path / "one", number, points)
    history = TensorBoardFiles(tmp_path).history("one")
    assert scores(history) == [1.5] * (kept - 10) + [2.5] * 10
    assert history.env_steps.tolist() == list(range(0, on[-1] + 100, 100))
    assert "the steps come from time/total_timesteps" in history.notes[0]


def test_event_files_with_purge_step_are_read_like_tensorboard(tmp_path):
    """The second file starts at 300, the third at 500: three points of the first and two of the second remain."""
    for number, (steps, restart) in enumerate(
        (
            (range(0, 1000, 100), {}),
            (range(300, 900, 100), {"purge_step": 300}),
            (range(500, 700, 100), {"purge_step": 500}),
        )
    ):
        write_events(tmp_path / "one", number, [(step, {"score": number + 0.5}) for step in steps], **restart)
    history = TensorBoardFiles(tmp_path).history("one")
    assert history.env_steps.tolist() == list(range(0, 700, 100))
    assert scores(history) == [0.5, 0.5, 0.5, 1.5, 1.5, 2.5, 2.5]
