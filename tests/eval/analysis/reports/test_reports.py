"""`analyze` and `compare` on recorded runs: content, files, exit codes, and untrusted text."""

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from sparring.eval import runs
from sparring.eval.analysis.reports import comparison
from sparring.eval.analysis.reports.power_law import ComputeChoice, compute_of, difference_of_means, mean_of
from sparring.eval.analysis.reports.rendering import draw_svg, print_report
from sparring.eval.analysis.reports.report import LinePlot, PlotLine, RunReport
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.stats.aggregate import Estimate
from tests.configs import messages
from tests.eval.analysis.wandb_server import stop_service


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href", "srcset", "data")]


def test_analyze_prints_and_writes(run_folder, tmp_path, printed):
    folder, page, text = run_folder("sick_learning_rate"), tmp_path / "out" / "a.html", tmp_path / "out" / "a.md"
    options = ["--html", str(page), "--markdown", str(text), "--price", "2"]
    shown = printed(runs.main, ["analyze", str(folder), *options])
    for part in ("kl_high", "next:", "Training", "Curriculum", "Power law", "League"):
        assert part in shown
    assert "**critical: kl\\_high** (instability)" in text.read_text()
    found = Tags()
    found.feed(page.read_text())
    assert "svg" in found.tags
    assert found.links == []
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert "http" not in re.sub(r"http-equiv", "", page.read_text())


def test_healthy_grpo_run_has_workflow_steps(run_folder, capsys):
    folder = run_folder("healthy_grpo")
    assert runs.main(["analyze", str(folder), "--json", "--parameters", "1800000", "--price", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema_version"], report["findings"]) == (1, [])
    titles = [section["title"] for section in report["sections"]]
    assert report["sections"][0]["text"][0].startswith("Elo gap ")
    wanted = ["State and configuration", "Training", "Performance", "Extraction of orders", "Rollouts", "Prefix cache"]
    assert titles == [*wanted, "Power law", "League", "Evaluation", "Rules not looked at"]
    laws = report["sections"][titles.index("Power law")]["tables"][0]["rows"]
    assert [row[0] for row in laws] == [
        *("env steps", "games", "prompt tokens", "simulated years", "seconds"),
        *("cost (USD at 3 an hour)", "FLOPs (estimate)"),
    ]
    text = " ".join(report["sections"][titles.index("Performance")]["text"])
    assert "Throughput per second" in text
    assert "Cost: " in text


def test_run_text_is_never_markup(run_folder, tmp_path, capsys):
    """A configuration or metric may be untrusted."""

    def edit(number, row):
        row["eval/<script>alert(1)</script>[red]/win_rate"] = 0.5

    folder, page = run_folder("sick_guard", edit=edit, trainer="<img src=x>"), tmp_path / "a.html"
    assert runs.main(["analyze", str(folder), "--html", str(page)]) == 0
    found = Tags()
    found.feed(page.read_text())
    assert not {"script", "img"} & set(found.tags)
    assert "[red]" in capsys.readouterr().out


def test_damaged_run_is_reported_with_own_exit_code(run_folder, capsys):
    folder = run_folder("sick_no_learning")
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    lines[20] = "{broken\n"
    (folder / "metrics.jsonl").write_text("".join(lines))
    assert runs.main(["analyze", str(folder)]) == 4
    assert "damaged: " in capsys.readouterr().out


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_runs"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, run_folder, check_row):
    root = run_folder("sick_guard").parent
    run_folder("sick_cartpole")
    check_row(runs.main, row, "--dir", str(root))


@pytest.fixture
def seeds(run_folder):
    """Write two configurations with three seeds: B's reward is 0.5 above A's, and seeds differ by 1."""

    def write():
        names = []
        for letter, gain in (("a", 0.0), ("b", 0.5)):
            for seed in range(3):

                def edit(number, row, gain=gain, seed=seed):
                    row["benchmark/reward_mean"] = 2.0 + gain + seed

                name = f"{letter}{seed}"
                folder = run_folder("healthy_grpo", to=name, edit=edit, seed=seed, grpo={"learning_rate": 1e-4 + gain})
                names.append(name)
        return folder.parent, names

    return write


def test_seeds_are_grouped_and_paired(seeds, printed, tmp_path):
    root, names = seeds()
    command = ["compare", *names, "--dir", str(root), "-m", "benchmark/reward_mean", "--html", str(tmp_path / "c.html")]
    sections = {part["title"]: part for part in json.loads(printed(runs.main, [*command, "--json"]))["sections"]}
    assert sections["Differences of configuration"]["tables"][0]["rows"] == [["grpo.learning_rate", "0.0001", "0.5001"]]
    (row,) = sections["b0 and 2 more seeds minus a0 and 2 more seeds"]["tables"][0]["rows"]
    gap = {"value": 0.5, "interval": [0.5, 0.5]}
    assert row == ["benchmark/reward_mean", gap, "too few seeds", "3 pairs of seeds"]
    assert "<svg" in (tmp_path / "c.html").read_text()


def test_options_accept_several_values(seeds, printed):
    """For example `compare --run-ids A B C --metrics X Y --output-format csv`."""
    root, names = seeds()
    metrics = ["--metrics", "benchmark/loss", "benchmark/reward_mean"]
    command = ["compare", "--run-ids", *names[:3], "--dir", str(root), *metrics, "--output-format", "csv"]
    shown = printed(runs.main, command)
    assert shown.startswith("section,row,column,value,low,high\nRuns,a0,group,A,,\nRuns,a0,seed,0,,\n")
    half = 4.302652729696142 / 3**0.5  # Student's t, two degrees of freedom, of 2, 3 and 4
    (values,) = (row[3:] for row in csv.reader(shown.splitlines()) if row[1:3] == [metrics[2], "a0 and 2 more seeds"])
    assert [float(value) for value in values] == pytest.approx([3.0, 3.0 - half, 3.0 + half])


def test_scripts_get_full_precision_numbers(run_folder, capsys):
    """JSON and CSV reports have the full precision of metrics.jsonl, not four digits."""
    folder = run_folder("sick_learning_rate")
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert runs.main(["analyze", str(folder), "--json"]) == 0
    sections = {part["title"]: part["tables"] for part in json.loads(capsys.readouterr().out)["sections"]}
    assert ["env steps", last["env_steps"]] in sections["State and configuration"][0]["rows"]
    values = [json.loads(line)["train/entropy"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (row,) = (row for row in sections["Training"][0]["rows"] if row[0] == "train/entropy")
    assert row[3:] == [min(values), max(values), [1 + values.index(min(values)), 1 + values.index(max(values))]]
    assert runs.main(["analyze", str(folder), "--output-format", "csv"]) == 0
    assert f"Training,train/entropy,lowest,{min(values)!r},," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("base", "other", "gap", "basis"),
    [
        ([(None, 10), (None, 12), (None, 11), (None, 0)], [(None, 5), (None, 5.5), (None, 6), (None, 30)], 3.375,
         "4 and 4 runs"),
        ([(1, 10), (1, 0), (2, 10), (2, 0)], [(1, 5), (2, 5)], 0.0, "2 pairs of seeds, means of 6 runs"),
        ([(1, 1), (2, 2), (3, 9)], [(1, 2), (2, 4)], 1.5, "2 pairs of seeds; 1 run without a partner or a value"),
        ([(1, 1), (1, 3)], [(2, 4), (3, 6)], 3.0, "2 and 2 runs"),
    ],
    ids=["unknown seeds", "repeated seeds", "a seed without a partner", "no shared seed"],
)  # fmt: skip
def test_all_runs_of_group_count(run_folder, base, other, gap, basis):
    """Expected values are differences of means by hand."""
    names = []
    for rate, group in ((0.1, base), (0.2, other)):
        for seed, value in group:

            def edit(number, row, value=value):
                row["benchmark/reward_mean"] = value

            names.append(f"run{len(names)}")
            folder = run_folder("healthy_grpo", to=names[-1], edit=edit, seed=seed, grpo={"learning_rate": rate})
    compared = comparison.load_compared(names, [RunFolders(folder.parent)], comparison.ComparisonOptions())
    found = comparison.difference(
        *comparison.grouped(compared), "benchmark/reward_mean", comparison.common_limit(compared)
    )
    assert (found.estimate.value, found.basis) == (pytest.approx(gap), basis)


def test_runs_without_env_steps_are_compared_by_update_with_note(tmp_path, printed, error_line):
    from torch.utils.tensorboard import SummaryWriter

    wandb = pytest.importorskip("wandb")
    with SummaryWriter(str(tmp_path / "steps")) as writer:
        for step in range(1, 9):
            writer.add_scalar("loss", 1.0, step)
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True, disable_git=True)
    run = wandb.init(mode="offline", project="p", dir=str(tmp_path), id="plain", name="plain", settings=settings)
    for step in range(9):
        run.log({"loss": 2.0}, step=step)
    run.finish()
    assert not stop_service()
    command = ["compare", "steps", "plain", "--dir", str(tmp_path), "-m", "loss"]
    report = json.loads(printed(runs.main, [*command, "--json"]))
    assert report["notes"] == ["no env steps are recorded in plain: the runs are compared at equal updates"]
    assert report["title"] == "Comparison of 2 runs at 8 updates"
    assert "plain: no env steps are recorded; use --equal" in error_line(runs.main, [*command, "--equal", "steps"])


@pytest.mark.parametrize(("count", "verdict"), [(2, "too few seeds"), (5, "too few seeds"), (6, "not 0")])
def test_verdict_needs_six_seeds(run_folder, count, verdict):
    """Pairs all have one sign by chance once in 2 ** (count - 1) times; only six are rarer than one in twenty."""
    names = []
    for rate in (0.1, 0.2):
        for seed in range(count):

            def edit(number, row, gain=rate + seed):
                row["benchmark/reward_mean"] = gain

            names.append(f"r{rate}s{seed}")
            folder = run_folder("healthy_grpo", to=names[-1], edit=edit, seed=seed, grpo={"learning_rate": rate})
    compared = comparison.load_compared(names, [RunFolders(folder.parent)], comparison.ComparisonOptions())
    found = comparison.difference(
        *comparison.grouped(compared), "benchmark/reward_mean", comparison.common_limit(compared)
    )
    assert found.estimate.value == pytest.approx(0.1)
    assert found.verdict == verdict


def test_piped_table_is_not_wrapped(seeds, capsys):
    """A name stays on one line for grep, as in other tables."""
    root, names = seeds()
    assert runs.main(["compare", *names, "--dir", str(root)]) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines() if line.startswith("a0 ")]
    assert ["a0", "A", "0", "killed"] in rows


def test_runs_are_compared_up_to_end_of_shorter(run_folder):
    """Values after the end of the shorter run are not used."""
    root = run_folder("healthy_grpo").parent
    run_folder("healthy_grpo", to="short", rows=15)
    options = comparison.ComparisonOptions(equal="updates")
    long, short = comparison.load_compared(["healthy_grpo", "short"], [RunFolders(root)], options)
    assert long.value("benchmark/reward_mean", 15.0) == short.value("benchmark/reward_mean", 15.0)
    assert long.value("benchmark/reward_mean", 15.0) != long.value("benchmark/reward_mean", 30.0)
    (group,) = comparison.grouped([long, short])
    assert len(group.runs) == 2


def test_single_runs_are_compared_by_windows(run_folder):
    root = run_folder("healthy_grpo").parent
    run_folder("healthy_grpo", to="other", trainer="clone")
    compared = comparison.load_compared(["healthy_grpo", "other"], [RunFolders(root)], comparison.ComparisonOptions())
    base, other = comparison.grouped(compared)
    found = comparison.difference(base, other, "benchmark/reward_mean", comparison.common_limit(compared))
    assert found.estimate.value == 0.0
    assert "windows" in found.basis


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [("rollout/win_rate", (0.0, 0.9), 0.45), ("rollout/win_rate", (0.0, 0.9, 0.9), (0.0, 1.0)), ("x", (0.9,), 0.9)],
)
def test_rates_stay_in_0_to_1_and_two_seeds_have_no_interval(read_run, metric, values, expected):
    record, history = read_run("healthy_cartpole")
    x = np.arange(1.0, 11.0)
    rows = [replace(history, columns={metric: np.full(10, value)}) for value in values]
    group = comparison.SeedGroup(
        "g",
        tuple(
            comparison.ComparedRun(record, one, compute_of(record, one, ComputeChoice()), x, "steps") for one in rows
        ),
    )
    cell = comparison._group_value(group, metric, 10.0)
    assert (cell.interval if isinstance(cell, Estimate) else cell) == expected


def test_bootstrap_intervals_match_student_t():
    """For 60 normal values both give the mean and about 1.96 standard errors."""
    values = np.random.default_rng(3).normal(1.0, 2.0, 60)
    low, high = mean_of(values).interval
    error = values.std(ddof=1) / np.sqrt(60)
    assert (low, high) == pytest.approx((values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.12)
    gap = difference_of_means(values + 1.0, values)
    assert gap.value == pytest.approx(1.0)
    assert gap.interval[0] < 1.0 < gap.interval[1]


def test_plot_is_well_formed_and_inside_frame():
    line = PlotLine("<&>", (1.0, 10.0, 1000.0), (0.5, 2.0, -1.0))
    for log in (False, True):
        text = draw_svg(LinePlot("<title>", "x", (line,), log=log, marks=(5.0,)))
        root = ElementTree.fromstring(text)
        points = next(part for part in root if part.tag == "polyline").get("points").split()
        assert len(points) == (2 if log else 3)  # -1 has no logarithm
        assert all(0 <= float(value) <= 520 for point in points for value in point.split(","))


def test_every_plot_line_has_contrast_on_dark_page():
    """WCAG requires a contrast of 3 to 1 for graphics; black becomes the text colour."""

    def luminance(color):
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lines = tuple(PlotLine(str(group), (1.0, 2.0), (1.0, 2.0), group) for group in range(7))
    drawn = re.findall(r'polyline [^>]*stroke="([^"]+)"', draw_svg(LinePlot("", "", lines)))
    assert drawn[6] == "currentColor"
    assert min((luminance(color) + 0.05) / (luminance("#0a0e16") + 0.05) for color in drawn[:6]) > 3.0


def test_damage_is_red_and_note_is_not():
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=100)
    print_report(RunReport("r", (), findings=(), damage=("metrics.jsonl",), notes=("read from W&B",)), console)
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if "\x1b[31m" in line] == ["\x1b[31mdamaged: metrics.jsonl\x1b[0m"]
    assert "note: read from W&B" in lines
