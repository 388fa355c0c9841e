"""Learning curves: reading, smoothing, averaging, rejected input, tables and pictures."""

import io
import json
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from sparring.agents.opponents import players
from sparring.eval.analysis.plots import panels
from sparring.eval.analysis.plots.history import Curve, PhaseMark, mean, read_history
from sparring.eval.analysis.plots.panels import COLORS, Bundle, CurveChart, Panel, draw, open_gaps
from sparring.eval.curves import main
from tests.configs import messages

WIN = "rollout/win_rate"
STEPS = 1_000_000
"""Per update."""


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    """Write a run whose update i has values[i] of `metric`; Ellipsis omits it."""
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    monkeypatch.chdir(tmp_path)

    def make(name, values, metric=WIN, *, every=STEPS, end="", events=(), **more):
        rows = [{"env_steps": (i + 1) * every} for i in range(len(values))]
        for i, (row, value) in enumerate(zip(rows, values, strict=True)):
            row |= {} if value is ... else {metric: value}
            row |= {key.replace("__", "/"): column[i] for key, column in more.items()}
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + end)
        lines = [{"env_steps": at, "kind": "info", "event": text} for at, text in events]
        (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    return make


@pytest.fixture
def drawn(monkeypatch):
    """Record the charts a command would draw, since drawing is slow."""
    charts = []
    monkeypatch.setattr(panels, "draw", lambda chart, form: charts.append(chart) or b"")
    return charts


def points(curve):
    return dict(zip((curve.steps // STEPS).tolist(), curve.values.tolist(), strict=True))


def cells(text, first):
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def chart(*bundles, **more):
    labels = [f"group {i}" for i in range(len(bundles))]
    return CurveChart(labels, [Panel(WIN, bundles, more.pop("log", False))], **more)


def bundle(*runs):
    curves = [Curve(np.arange(1, len(run) + 1) * STEPS, np.array(run)) for run in runs]
    return Bundle(curves, mean(curves))


def test_missing_values_are_skipped(make_run):
    make_run("a", [..., 0.5, None, float("nan"), ..., 0.9])
    assert points(read_history("a").curve(WIN)) == {2: 0.5, 6: 0.9}


def test_smoothing_is_mean_of_last_updates_with_value(make_run):
    make_run("a", [0.1, 0.3, None, 0.9, 0.6, ..., ..., 0.2])
    assert points(read_history("a").curve(WIN, smooth=3)) == pytest.approx(
        {1: 0.1, 2: 0.2, 4: (0.3 + 0.9) / 2, 5: (0.9 + 0.6) / 2, 8: 0.2}
    )


def test_mean_covers_steps_where_all_runs_have_value(make_run):
    make_run("a", [0.0, 0.2, 0.4, 0.6, 0.8])
    make_run("b", [1.0, 1.0], every=2 * STEPS)
    make_run("c", [0.5, 0.5, None, 0.6])
    curves = [read_history(name).curve(WIN) for name in "abc"]
    assert points(mean(curves[:2])) == pytest.approx({2: 0.6, 4: 0.8})
    assert points(mean([curves[0], curves[2]])) == pytest.approx({1: 0.25, 2: 0.35, 4: 0.6})
    assert points(mean(curves[:1])) == points(curves[0])


def test_runs_with_unequal_updates_are_averaged_over_updates(make_run, printed, tmp_path):
    make_run("a", [0.0, 0.2, 0.4])
    make_run("b", [1.0, 1.0, None], every=STEPS + 7)
    curves = [read_history(name, by_update=True).curve(WIN) for name in "ab"]
    assert mean(curves).steps.tolist() == [1, 2]
    assert mean(curves).values.tolist() == pytest.approx([0.5, 0.6])
    out = tmp_path / "curves.svg"
    said = printed(main, ["a,b", "--metrics", WIN, "--by-update", "--out", str(out)])
    assert "| updates |" in said
    assert "no env steps in common" not in said
    assert out.stat().st_size > 1000


def test_last_value_of_repeated_step_counts(make_run):
    again = [{"env_steps": 2 * STEPS, WIN: 0.7}, {"env_steps": 2 * STEPS, "event": "old runs had them here"}]
    make_run("a", [0.1, 0.2, 0.3], end="".join(json.dumps(row) + "\n" for row in again))
    assert points(read_history("a").curve(WIN)) == {1: 0.1, 2: 0.7, 3: 0.3}


def test_partial_line_of_live_run_is_skipped(make_run):
    make_run("a", [0.1, 0.2], end='{"env_steps": 3000000, "rollout/win')
    assert points(read_history("a").curve(WIN)) == {1: 0.1, 2: 0.2}


@pytest.mark.parametrize("line", ["", "{", '{"env_steps": 1', "\0", "[" * 100_000, "[1]", "{}", '{"env_steps": 1.5}'])
def test_damaged_line_is_named(line, make_run, error_line):
    folder = make_run("a", [0.1, 0.2], end=f'{line}\n{{"env_steps": 4000000}}\n')
    err = error_line(main, ["a"])
    assert err.startswith(f"eval/curves.py: {folder / 'metrics.jsonl'}, line 3: is no")


def test_phases_and_stages_start_at_logged_rows_with_event_names(make_run):
    events = [
        *((0, "about 3 min on this machine"), (0, "phase first, update 0: ace, physics none")),
        *((2 * STEPS, "phase first, update 2: ace, physics none"), (3 * STEPS, "phase then on, update 3: brawler")),
    ]
    phases, stages = [0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, -1.0, 0.0]
    make_run("a", [0.1] * 5, events=events, curriculum__phase=phases, curriculum__stage=stages)
    make_run("b", [0.1] * 5)
    first, then = PhaseMark(0, True, "first"), PhaseMark(3 * STEPS, True, "then on")
    assert read_history("a").marks() == [first, PhaseMark(STEPS, False), then, PhaseMark(4 * STEPS, False)]
    assert read_history("b").marks() == []


def test_groups_are_summarized_in_table_per_metric(make_run, drawn, printed):
    make_run("a", [0.0, 0.2, 0.4], train__kl_max=[1.0, 2.0, 0.01])
    make_run("b", [0.0, 0.6, 0.8], train__kl_max=[1.0, 2.0, 0.03])
    make_run("c", [0.0, 0.5], train__kl_max=[1.0, 12345.0])
    out = printed(main, ["both = a, b", "c", "--metrics", WIN, "train/kl_max", "--smooth", "2"])
    first, second = out.split("## ")[1:]
    assert first.startswith(WIN)
    assert cells(first, "both") == ["both", "2", "3", "0.5", "0.3", "0.7"]
    assert cells(first, "c") == ["c", "1", "2", "0.25", "0.25", "0.25"]
    assert cells(second, "both") == ["both", "2", "3", "1.01", "1.005", "1.015"]
    assert out.endswith("each the mean of 2 updates.\n\nWrote curves.png\n")
    assert drawn[0].labels == ["both (2 runs)", "c"]
    assert points(drawn[0].panels[0].bundles[0].mean) == pytest.approx({1: 0.0, 2: 0.2, 3: 0.5})
    assert drawn[0].note == (
        "values: means of 2 updates; thin: one run, thick: the mean of its group, band: the mean's 95 % "
        "interval over runs; band of a single run: one standard deviation of its 2 updates"
    )
    assert cells(printed(main, ["all=a,b,c", "--smooth", "1"]), "all") == ["all", "3", "2 to 3", "0.5667", "0.4", "0.8"]


def test_runs_without_common_steps_get_note_instead_of_mean(make_run, capsys):
    make_run("a", [0.1, ..., 0.3])
    make_run("b", [..., 0.2, ..., 0.4])
    assert main(["_both=a,b"]) == 0
    out, err = capsys.readouterr()
    assert cells(out, "_both")[2:4] == ["3 to 4", "0.25"]
    assert "_both: its runs share no env steps, so their mean is not drawn." in out
    assert err == ""


@pytest.mark.parametrize(
    "metric", ["rollout/win_rate", "rollout/recent_return", "rollout/reward", "benchmark/reward_mean"]
)
def test_default_metric_exists_in_runs(metric, make_run, drawn, printed):
    make_run("a", [1.0, 2.0], metric)
    make_run("b", [1.0, 2.0], metric)
    assert printed(main, ["a", "b"]).startswith(f"## {metric}\n")
    assert [panel.metric for panel in drawn[0].panels] == [metric]


def test_first_run_is_highlighted_unless_disabled(make_run, drawn):
    for name in "ab":
        make_run(name, [0.1, 0.2], curriculum__phase=[0.0, 1.0], curriculum__stage=[0.0, 0.0])
    for more in ([], ["--no-events"]):
        assert main(["b", "a", *more]) == 0
    assert [len(chart.marks) for chart in drawn] == [2, 0]
    assert [chart.note.endswith("vertical lines: phases (dotted: stages) of b") for chart in drawn] == [True, False]


def test_picture_shows_every_run_and_mean(make_run):
    rising, falling = bundle([0.1, 0.2, 0.3], [0.3, 0.4, 0.5]), bundle([0.9, 0.5, 0.1])
    figure = panels._figure(chart(rising, falling))
    lines = figure.axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [
        *([0.1, 0.2, 0.3], [0.3, 0.4, 0.5], pytest.approx([0.2, 0.3, 0.4])),
        [0.9, 0.5, 0.1],  # A run alone is its mean.
    ]
    assert [line.get_color() for line in lines] == [COLORS[0]] * 3 + [COLORS[1]]
    assert lines[2].get_xdata().tolist() == [1.0, 2.0, 3.0]
    assert lines[2].get_linewidth() > 2 * lines[0].get_linewidth()


def test_group_band_is_interval_of_mean():
    """By hand: 0.1, 0.3, 0.5 have mean 0.3 and standard error 0.2 / sqrt(3); t with two degrees is 4.3027."""
    three = bundle([0.1, 0.1], [0.3, 0.3], [0.5, 0.5])
    assert three.mean.half == pytest.approx([4.3027 * 0.2 / 3**0.5] * 2, rel=1e-4)
    axes = panels._figure(chart(three)).axes[0]
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.3 - 0.49684, 0.3 + 0.49684), abs=1e-4)
    assert axes.get_ylim() == pytest.approx((0.08, 0.52))  # of the lines


def test_single_run_band_is_spread_of_updates(make_run):
    make_run("a", [0.1, 0.3, 0.3])
    assert read_history("a").curve(WIN, smooth=1).half is None
    assert mean([read_history("a").curve(WIN, smooth=2)]).half == pytest.approx([0.0, 0.1, 0.0])


def test_line_has_gap_where_values_are_missing():
    steps = np.array([1, 2, 3, 23, 24, 27]) * STEPS
    places, values = open_gaps(Curve(steps, np.arange(6.0)))
    assert np.isnan(places).tolist() == np.isnan(values).tolist() == [False] * 3 + [True] + [False] * 3
    one = Curve(steps[:1], np.ones(1))
    assert open_gaps(one)[1].tolist() == [1.0]
    assert panels._figure(chart(Bundle([one], one))).axes[0].lines[0].get_marker() == "."  # else it would not show


def test_phases_are_named_lines_and_stages_dotted():
    marks = [PhaseMark(0, True, "first"), PhaseMark(STEPS, False), PhaseMark(2 * STEPS, True, "second")]
    axes = panels._figure(chart(bundle([0.1] * 3), marks=marks)).axes[0]
    assert [(line.get_xdata()[0], line.get_linestyle()) for line in axes.lines[1:]] == [
        *((0.0, "-"), (1.0, ":"), (2.0, "-"))
    ]
    assert [text.get_text() for text in axes.texts] == ["first", "second"]


def test_only_requested_axes_are_logarithmic_and_steps_are_shared():
    panel = Panel("train/kl_max", [bundle([0.0, 0.1, 10.0])], log=True)
    figure = panels._figure(CurveChart(["a"], [Panel(WIN, [bundle([0.1, 0.2, 0.3, 0.4])]), panel]))
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]
    assert [axes.get_xlim() for axes in figure.axes] == [pytest.approx((0.0, 4.0), abs=0.1)] * 2
    assert draw(CurveChart(["a"], [panel]), "svg")


@pytest.mark.parametrize("form", ["png", "svg"])
def test_same_runs_give_same_bytes(form, make_run, monkeypatch):
    make_run("a", [0.1, 0.2, 0.3], curriculum__phase=[0.0, 1.0, 1.0], curriculum__stage=[0.0, 0.0, 1.0])
    make_run("b", [0.3, 0.2, 0.5])
    written = []
    for _ in range(2):
        assert main(["$x_{$=a,b", "--title", "as it is: $_{$", "--out", f"new/x.{form}"]) == 0
        written.append(Path(f"new/x.{form}").read_bytes())
        monkeypatch.setitem(mpl.rcParams, "axes.facecolor", "red")  # as a person's own settings may be
    one, two = written
    assert one == two
    assert b"dc:date" not in one
    assert b"<!-- $x_{$ (2 runs) -->" in one or form == "png"
    if form == "png":
        with Image.open(io.BytesIO(one)) as picture:
            assert set(picture.info) == {"dpi"}


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_curves"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, make_run, tmp_path, check_row):
    make_run("a", [0.1, 0.2], train__kl=[0.0, -1.0], train__never=[None, None])
    make_run("b", [0.1, 0.2])
    make_run("other", [0.1], "train/kl")
    make_run("empty", [])
    check_row(main, row)
    assert not list(tmp_path.glob("*.png"))


def test_run_can_be_named_by_folder(make_run, tmp_path, drawn, printed):
    make_run("elsewhere/a", [0.1, 0.2])
    for text in ("elsewhere/a", str(tmp_path / "elsewhere" / "a")):
        assert cells(printed(main, [text]), "a")[1:3] == ["1", "2"]


def test_missing_package_is_named(make_run, monkeypatch, error_line):
    make_run("a", [0.1])
    monkeypatch.delitem(sys.modules, "sparring.eval.analysis.plots.panels")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    needs = f"matplotlib is not installed for {sys.executable}; run `sparring install plots`\n"
    assert error_line(main, ["a"]) == f"eval/curves.py: {needs}"
