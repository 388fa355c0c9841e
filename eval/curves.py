"""Learning curves of several runs: `python eval/curves.py "on=RUN,RUN" "off=RUN,RUN" --metrics M M --out curves.png`.

Reads each run from its folder, W&B files, TensorBoard events, trackio or the W&B cloud. Draws one panel per metric over
env steps: each run is a thin line, its group's mean a thick line with a band. Vertical lines mark the phases and stages
of the first run. The band is the mean's 95 % interval over the runs (Student's t). For a single run it is the standard
deviation of the updates that a point averages. Also prints the mean, minimum and maximum of each group's last values.
Needs neither torch nor the game, so it can be used during training.

`history.py` reads, `panels.py` draws. Drawing needs matplotlib: `sparring install plots`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/curves.py")

import numpy as np

from sparring.agents.opponents.players import find_folder
from sparring.agents.run.log_files import METRICS
from sparring.configs.core.errors import InputError, choose, one_line
from sparring.configs.core.files import CHECKPOINTS
from sparring.eval.analysis.options import SourceName, SourceOptions, find_run
from sparring.eval.analysis.output import warn
from sparring.eval.analysis.plots.history import Curve, CurveGroup, RunHistory, from_rows, mean, read_history
from sparring.eval.analysis.record import RunNotFoundError, history_rows
from sparring.eval.command import CommandReport, make_folders, publish_report, run_command, several_names, written
from sparring.eval.options import CommandOptions, CommandText, Groups, argument, check_suffix, from_keywords, parse
from sparring.eval.plots import MILLION, check_matplotlib
from sparring.eval.stats.tables import table

if TYPE_CHECKING:
    from sparring.eval.analysis.plots.panels import Panel

FORMS = (".png", ".svg")
PICTURE = Path("curves.png")
USUAL = (
    *("rollout/win_rate", "rollout/recent_return", "rollout/reward", "benchmark/reward_mean"),
    *("train/answer_loss", "train/order_loss"),
)
"""Default metric: the first of these that all runs have."""
SOURCES = tuple(SourceName)
SMOOTH = "[1, 10000]"

_EXAMPLES = """\
examples:
  python eval/curves.py run_a run_b                            each run is a line: rollout/win_rate
  python eval/curves.py "guard on=a1,a2,a3" "guard off=b1,b2,b3" --metrics rollout/win_rate train/kl_max
  python eval/curves.py g1,g2,g3 --metrics game/avg_sc_count kl/mean --by-update
  python eval/curves.py RUN --dir /data/logs --source tensorboard --metrics loss
  python eval/curves.py a1,a2,a3 --metrics train/kl_max --log train/kl_max --smooth 20 --out kl.svg

exit codes: 0 done, 2 bad input or a package missing, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class CurveOptions(CommandOptions):
    """Options of the command; the runs have not been located yet."""

    TEXT = CommandText(
        "eval/curves.py",
        "Draw learning curves of runs, one panel per metric over env steps, and print their last values. In a group "
        "of several runs, each run is a thin line and their mean a thick line with its 95 % interval.",
        _EXAMPLES,
        usage="python eval/curves.py GROUP [GROUP ...] [options]",
    )
    groups: Groups = argument((), metavar="GROUP", positional=True)
    """RUN or LABEL=RUN,RUN: names or folders of the runs in one group."""
    metrics: tuple[str, ...] = argument((), metavar="M", split=True)
    """Metrics, as in docs/metrics.md (default: win rate, return or reward)."""
    log: tuple[str, ...] = argument((), metavar="M", split=True)
    """Metrics to draw on a logarithmic axis."""
    smooth: int = argument(5, SMOOTH, metavar="N")
    """Average the last N updates (default: 5; 1: no smoothing)."""
    by_update: bool = argument(False)
    """Plot over updates instead of env steps, if the runs' env steps differ."""
    no_events: bool = argument(False)
    """Do not mark the starts of phases and stages."""
    dir: Path | None = argument(None, metavar="DIR")
    """Folder of the runs, for any source (default: checkpoints)."""
    source: str = argument("auto", SOURCES, metavar="S")
    """Where to look (default: auto, all sources, the cloud last)."""
    project: str = argument("", metavar="P")
    """W&B or trackio project."""
    title: str = argument("", metavar="T")
    """Title of the picture."""
    out: Path | None = argument(None, metavar="FILE")
    """The picture, .png or .svg (default: curves.png)."""

    @classmethod
    def from_words(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Parse the groups."""
        return values | {"groups": tuple(map(_read_group, values.get("groups", ())))}

    def check(self) -> None:
        """Raise `InputError` without runs or for another picture format."""
        check_suffix("--out", self.out, *FORMS)
        if not self.groups:
            raise InputError("no runs given: name one or more before the options, or LABEL=RUN,RUN for a group")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/curves.py", lambda words: publish_report(curves(parse(CurveOptions, words))), arguments)


def read_groups(options: CurveOptions) -> list[CurveGroup]:
    """Find and read all runs. Raises `InputError` if that fails or if two groups have the same label."""
    where = SourceOptions(options.project, options.dir or CHECKPOINTS, SourceName(options.source))
    groups: dict[str, CurveGroup] = {}
    for label, names in options.groups:
        runs = tuple(_read_run(name, where, by_update=options.by_update) for name in names)
        group = CurveGroup(label or ", ".join(run.name for run in runs), runs)
        if group.label in groups:
            raise InputError(f"{group.label}: two groups have this label; choose another, as in LABEL=RUN,RUN")
        if len({(run.folder, run.name) for run in runs}) < len(runs):
            raise InputError(f"{group.label}: a run is named twice; remove one")
        groups[group.label] = group
    return list(groups.values())


def _read_run(text: str, where: SourceOptions, *, by_update: bool) -> RunHistory:
    """Read a run from its folder, else from the sources that `eval/runs.py` reads."""
    default = where == SourceOptions()
    if default and find_folder(text, holding=METRICS):
        return read_history(text, by_update=by_update)
    try:
        source, record = find_run(text, where.find())
    except RunNotFoundError:
        if default:
            return read_history(text)  # raises, and names the runs' folders
        raise
    history = source.history(record.id)
    for line in dict.fromkeys((*record.damage, *history.damage)):
        warn(f"{record.id}: damaged: {line}")
    rows = [{key: value for key, value in row.items() if key[:1] != "_"} for row in history_rows(history)]
    return from_rows(record.id, Path(record.path), rows, by_update=by_update)


def choose_metrics(options: CurveOptions, groups: Sequence[CurveGroup]) -> tuple[str, ...]:
    """Return the requested metrics or the default. Raises `InputError` for a metric of --log that is not drawn."""
    metrics = options.metrics or (_usual([run for group in groups for run in group.runs]),)
    for name in options.log:
        choose("metric of --log", name, metrics)
    return metrics


def curves_markdown(groups: Sequence[CurveGroup], metrics: Sequence[str], *, smooth: int, unit: float = MILLION) -> str:
    """Return a table per metric: for each group, the last step and the last values of its runs."""
    headings = ["group", "runs", "updates" if unit == 1.0 else "steps (M)", "mean", "min", "max"]
    parts = []
    for metric in metrics:
        curves = {group.label: group.curves(metric, smooth=smooth) for group in groups}
        parts.append(f"## {metric}\n\n{table(headings, [_cells(*group, unit) for group in curves.items()])}")
        apart = [label for label, runs in curves.items() if not len(mean(runs).steps)]
        parts += [f"{label}: its runs share no env steps, so their mean is not drawn." for label in apart]
    what = f", each the mean of {smooth} updates" if smooth > 1 else ""
    parts.append(f"mean, min and max are over the runs' last values{what}.")
    return "\n\n".join(parts) + "\n"


def curves_json(groups: Sequence[CurveGroup], metrics: Sequence[str], options: CurveOptions) -> str:
    """Return the points as JSON: for each metric the groups, and for each group the curves of its runs."""
    axis = "updates" if options.by_update else "env_steps"
    content = {
        metric: [
            {"group": group.label, "runs": [_points(group, k, curve, axis) for k, curve in enumerate(curves)]}
            for group, curves in ((group, group.curves(metric, smooth=options.smooth)) for group in groups)
        ]
        for metric in metrics
    }
    return json.dumps({"kind": "curves", "smooth": options.smooth, "metrics": content, "command": options.command})


def curves_picture(groups: Sequence[CurveGroup], metrics: Sequence[str], options: CurveOptions) -> bytes:
    """Return the picture in the format of the suffix of --out. Raises `InputError` if matplotlib is missing."""
    check_matplotlib()
    from sparring.eval.analysis.plots.panels import ENV_STEPS, MOST_GROUPS, UPDATES, CurveChart, draw

    if len(groups) > MOST_GROUPS:
        raise InputError(f"{len(groups)} groups: at most {MOST_GROUPS} have distinct colors; draw fewer")
    first = groups[0].runs[0]
    marks = first.marks() if not options.no_events else []
    chart = CurveChart(
        title=options.title,
        labels=[_label(group) for group in groups],
        panels=[_panel(groups, metric, options) for metric in metrics],
        axis=UPDATES if options.by_update else ENV_STEPS,
        marks=marks,
        note=_note(groups, options.smooth, first if marks else None),
    )
    assert options.out is not None
    return draw(chart, options.out.suffix.removeprefix("."))


def _points(group: CurveGroup, k: int, curve: Curve, axis: str) -> dict[str, Any]:
    return {"run": group.runs[k].name, axis: curve.steps.tolist(), "values": curve.values.tolist()}


def _usual(runs: Sequence[RunHistory]) -> str:
    shared = set.intersection(*(set(run.metrics) for run in runs))
    metric = next((name for name in USUAL if name in shared), None)
    if metric is None:
        raise InputError(f"the runs do not share any of {', '.join(USUAL)}; choose with --metrics")
    return metric


def _panel(groups: Sequence[CurveGroup], metric: str, options: CurveOptions) -> Panel:
    from sparring.eval.analysis.plots.panels import Bundle, Panel

    runs = [group.curves(metric, smooth=options.smooth) for group in groups]
    log = metric in options.log
    if log and all(np.all(curve.values <= 0.0) for curves in runs for curve in curves):
        raise InputError(f"--log {metric}: no run has a value above 0, which a logarithmic axis needs")
    return Panel(metric, [Bundle(curves, mean(curves)) for curves in runs], log)


def _label(group: CurveGroup) -> str:
    return f"{group.label} ({len(group.runs)} runs)" if len(group.runs) > 1 else group.label


def _note(groups: Sequence[CurveGroup], smooth: int, marked: RunHistory | None) -> str:
    """Return the caption: smoothing, line widths, vertical lines."""
    parts = [f"values: means of {smooth} updates"] if smooth > 1 else []
    if any(len(group.runs) > 1 for group in groups):
        parts.append("thin: one run, thick: the mean of its group, band: the mean's 95 % interval over runs")
    if smooth > 1 and any(len(group.runs) == 1 for group in groups):
        parts.append(f"band of a single run: one standard deviation of its {smooth} updates")
    if marked:
        parts.append(f"vertical lines: phases (dotted: stages) of {marked.name}")
    return "; ".join(parts)


def _cells(label: str, curves: Sequence[Curve], unit: float) -> list[str]:
    last = np.array([curve.values[-1] for curve in curves])
    steps = dict.fromkeys(f"{curve.steps[-1] / unit:.4g}" for curve in curves)
    ends = f"{min(steps, key=float)} to {max(steps, key=float)}" if len(steps) > 1 else next(iter(steps))
    return [label, str(len(curves)), ends, *(f"{value:.4g}" for value in (last.mean(), last.min(), last.max()))]


def _read_group(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse LABEL=RUN,RUN or only the runs. Raises `InputError` if either side of the = is empty."""
    before, equals, after = text.partition("=")
    label, names = (one_line(before), after) if equals else ("", before)
    runs = tuple(name.strip() for name in names.split(",") if name.strip())
    if not runs or (equals and not label):
        raise InputError(f"{text!r} names no group: write a run, or LABEL=RUN,RUN")
    return label, runs


def curves(options: CurveOptions, *, keep: bool = True) -> CommandReport:
    """Read runs and draw them. Without `keep`, only if --out names the picture. Raises `InputError` for bad input."""
    options = replace(options, out=options.out or (PICTURE if keep else None))
    make_folders([], files=[options.out])
    drawn = read_groups(options)
    metrics = choose_metrics(options, drawn)
    unit = 1.0 if options.by_update else MILLION
    text = curves_markdown(drawn, metrics, smooth=options.smooth, unit=unit)
    files = {options.out: curves_picture(drawn, metrics, options)} if options.out else {}
    return CommandReport(text, curves_json(drawn, metrics, options), files)


def read_curves(runs: Sequence[str | Path] | Mapping[str, Sequence[str | Path]], **options: Any) -> CommandReport:
    """Read learning curves of runs, as `python eval/curves.py GROUP GROUP ...` does.

    `runs` are names or folders, or a mapping from labels to groups, such as `{"on": ["a", "b"], "off": ["c"]}`.
    `options` are `metrics`, `log`, `smooth`, `by_update`, `no_events`, `title` and `out`. `data["metrics"][METRIC]` has
    for each group the runs with `env_steps` and `values`. A picture is drawn only with `out="curves.png"`.

    Raises `InputError` for bad input, in one line.
    """
    groups = runs if isinstance(runs, Mapping) else several_names("runs", runs)
    return written(curves(from_keywords(CurveOptions, {"groups": groups, **options}), keep=False))


if __name__ == "__main__":
    sys.exit(main())
