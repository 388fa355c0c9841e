"""`curves` draws a run from every source that `runs` reads, with the same values."""

import importlib.util
import json

import pytest

from sparring.eval import runs
from sparring.eval.analysis.plots.history import HistoryError
from sparring.eval.curves import CurveOptions, curves, main
from sparring.eval.options import parse
from tests.eval.analysis.wandb_server import stop_service

METRIC = "rollout/reward"


def points(*words):
    content = json.loads(curves(parse(CurveOptions, [*words, "--smooth", "1"]), keep=False).json)
    ((group,),) = (content["metrics"][METRIC],)
    return group["runs"][0]


def expected(root):
    lines = (root / "dark-ghost" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)[METRIC] for line in lines]


@pytest.mark.parametrize("source", ["auto", "folder", "wandb-offline", "tensorboard"])
def test_run_has_same_curve_from_every_source(recorded, source):
    if source == "wandb-offline" and not importlib.util.find_spec("wandb"):
        pytest.skip("the package wandb is not installed")
    names = {"tensorboard": "dark-ghost"}
    run = points(names.get(source, "dark-ghost"), "--dir", str(recorded), "--source", source, "--metrics", METRIC)
    assert run["env_steps"] == [128 * update for update in range(1, 41)]
    assert run["values"] == pytest.approx(expected(recorded), rel=1e-6)


def test_run_is_drawn_from_trackio(recorded, tmp_path, capsys):
    database = tmp_path / "project.db"
    assert runs.main(["export", "dark-ghost", "--dir", str(recorded), "--source", "folder", "-o", str(database)]) == 0
    run = points("dark-ghost", "--dir", str(tmp_path), "--source", "trackio", "--metrics", METRIC)
    assert run["values"] == pytest.approx(expected(recorded))


def test_run_without_env_steps_is_drawn_by_update(tmp_path, monkeypatch):
    """W&B rows without env steps, as from another trainer."""
    wandb = pytest.importorskip("wandb")
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True, disable_git=True)
    run = wandb.init(mode="offline", project="p", dir=str(tmp_path), id="plain", name="plain", settings=settings)
    for step in range(9):
        run.log({METRIC: 2.0 * step}, step=step)
    run.finish()
    assert not stop_service()
    with pytest.raises(HistoryError, match="9 of 9 rows have no env steps; draw it with --by-update"):
        points("plain", "--dir", str(tmp_path), "--metrics", METRIC)
    drawn = points("plain", "--dir", str(tmp_path), "--metrics", METRIC, "--by-update")
    assert (drawn["updates"], drawn["values"]) == (list(range(1, 10)), [2.0 * step for step in range(9)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dark-gost", "--dir", "{root}"], "did you mean dark-ghost?"),
        (["dark-ghost", "--dir", "{root}", "--source", "mlflow"], "--source 'mlflow'"),
        (["dark-ghost", "--dir", "{root}/none"], "is not a folder; give the folder that holds the runs"),
        (["dark-ghost", "--dir", "{root}", "--metrics", "rollout/rewrd"], "did you mean 'rollout/reward'?"),
    ],
)
def test_wrong_source_gives_one_line_error(recorded, words, message, error_line):
    assert message in error_line(main, [word.format(root=recorded) for word in words])


def test_tensorboard_run_is_found_by_path(recorded, monkeypatch):
    events = next(recorded.rglob("events.out.tfevents*")).parent
    assert points(str(events), "--metrics", METRIC)["values"] == pytest.approx(expected(recorded), rel=1e-6)
