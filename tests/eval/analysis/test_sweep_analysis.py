"""Sweep analysis on synthetic run folders: columns by hand, ranking, criteria, and the command."""

import csv
import io
import json

import pytest
import yaml

from sparring.eval import runs
from sparring.eval.analysis.record import RunNotFoundError
from sparring.eval.analysis.sweep_analysis import analyze_sweep, find_sweep
from tests.eval.analysis.wandb_server import stop_service

FILE = {
    "hypothesis": "Both together are stable.",
    "run": "diplomacy_exp1_quick",
    "runs": {"A": {"description": "one"}, "B": {"description": "two"}, "C": {"description": "three"}},
    "primary": {"measure": "last(elo/base_model)", "goal": "lower"},
    "secondary": ["max(benchmark/grad_norm)"],
    "expected": ["B", "A", "C"],
    "criteria": ["every run: count(kl/mean) >= 2", "every run: max(kl/max) < 1",
     "some run: change(elo/base_model) < -50", "between runs: final(game/win_bonus_rate) > 0.06"],
}  # fmt: skip


def row(base, best, kl, win):
    return {
        "env_steps": 1, "elo/base_model": base, "elo/checkpoint_000001": best, "elo/checkpoint_000005": best - 30,
        "elo/challenger": 2000.0, "kl/mean": kl, "kl/max": 10 * kl, "game/win_bonus_rate": win,
        "placement/top3_rate": 0.5, "league/reference_drop": 5 * (1000 - base), "benchmark/grad_norm": 3.0,
    }  # fmt: skip


ROWS = {
    "A-seed0": [row(1000, 1010, 0.01, 0.1), row(980, 1030, 0.03, 0.1)],
    "A-seed1": [row(1000, 1010, 0.01, 0.1), row(960, 1030, 0.03, 0.3)],
    "B-seed0": [row(1000, 1010, 0.01, 0.1), row(900, 1050, 0.05, 0.1)],
    "B-seed1": [row(1000, 1010, 0.01, 0.1), row(920, 1050, 0.07, 0.1)],
    "C-seed0": [row(1000, 1010, 0.02, 0.1), row(1020, 990, 0.02, 0.1)],
    "C-seed1": [row(1000, 1010, 0.02, 0.1), row(1030, 990, 0.02, 0.1)],
}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "mine-sweep"
    folder.mkdir()
    (folder / "sweep.yaml").write_text(yaml.safe_dump(FILE))
    (folder / "multirun.yaml").write_text("{}")  # Hydra's
    for label, rows in ROWS.items():
        name = f"mine-{label}"
        (folder / f"{name}.yaml").write_text("{}")
        (folder / f"{name}.json").write_text(json.dumps({"outcome": "done"}))
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return tmp_path


def states(root):
    return [one.state for one in analyze_sweep(find_sweep("mine", root)).criteria]


def test_columns_match_original_analysis(root):
    a, b, _ = analyze_sweep(find_sweep("mine", root)).runs
    assert a.values["Elo gap"] == (50.0, 70.0)  # the best checkpoint, never the challenger
    assert a.mean("base_model Elo") == 970.0
    assert a.std("base_model Elo") == pytest.approx(14.1421356)
    assert a.mean("reference drop") == 150.0
    assert b.mean("KL mean") == pytest.approx((0.03 + 0.04) / 2)
    assert b.mean("KL max") == pytest.approx((0.5 + 0.7) / 2)
    assert a.mean("win rate") == pytest.approx((0.1 + 0.2) / 2)
    assert a.mean("top-3 rate") == 0.5
    assert a.mean("max(benchmark/grad_norm)") == 3.0


def test_compute_and_power_law_of_sweep(root, capsys, printed):
    """Reward is 3 times the square root of all games, a row takes 30 s, and an hour costs 12."""
    for label in ROWS:
        games = [16.0 * number for number in range(1, 9)]
        rows = [
            {"env_steps": 10 * number, "game/total_games": 16.0, "benchmark/reward_mean": 3 * sum_of**0.5}
            | {"benchmark/rollout_time_s": 20.0, "benchmark/training_time_s": 10.0, "elo/base_model": 1000.0}
            for number, sum_of in enumerate(games, 1)
        ]
        (root / f"mine-{label}" / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    command = ["analyze-sweep", "mine", "--dir", str(root), "--price", "12", "--currency", "EUR"]
    found = json.loads(printed(runs.main, [*command, "--json"]))
    for letter, seeds in (("A", 2), ("B", 2), ("C", 2), ("all", 6)):
        totals = found["compute"][letter]
        assert totals["games"] == 16 * 8 * seeds
        assert totals["seconds"] == 30 * 8 * seeds
        assert totals["cost (EUR at 12 an hour)"] == pytest.approx(12 * 240 * seeds / 3600)
        assert totals["games / s"] == pytest.approx(16 / 30)
    fits = {(fit["runs"], fit["compute"]): fit for fit in found["power_law"]["fits"]}
    assert found["power_law"]["reward"] == "benchmark/reward_mean"
    assert fits["all", "games"]["exponent"]["value"] == pytest.approx(0.5)
    assert fits["all", "games"]["coefficient"] == pytest.approx(3.0)
    assert fits["all", "games"]["exponent"]["interval"] == pytest.approx([0.5, 0.5])
    assert fits["all", "cost (EUR at 12 an hour)"]["exponent"]["value"] == pytest.approx(0.5)
    assert not any(letter == "A" for letter, _ in fits)  # two seeds are too few
    shown = printed(runs.main, command)
    assert "cost (EUR at 12 an hour)" in shown
    assert "benchmark/reward_mean = a compute^b" in shown
    assert runs.main([*command, "--reward", "benchmark/reward"]) == 3
    assert "did you mean 'benchmark/reward_mean'?" in capsys.readouterr().err


def test_ranking_is_shown_beside_expected_one(root):
    analysis = analyze_sweep(find_sweep("mine", root))
    assert (analysis.ranking, analysis.tau, analysis.unresolved) == (("B", "A", "C"), 1.0, ())
    content = {**FILE, "expected": ["C", "A", "B"]}
    (root / "mine-sweep" / "sweep.yaml").write_text(yaml.safe_dump(content))
    assert analyze_sweep(find_sweep("mine", root)).tau == -1.0


def test_neighbours_within_two_standard_errors_are_unresolved(root):
    rows = [row(1000, 1010, 0.01, 0.1), row(860, 1050, 0.05, 0.1)]
    (root / "mine-A-seed1" / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert analyze_sweep(find_sweep("mine", root)).unresolved == (
        ("B", "A"),
        ("A", "C"),
    )  # 910 ± 10, 920 ± 60, 1025 ± 5


def test_equal_runs_tie_and_elo_gap_ranks_first(root, printed):
    """The base model gains in all runs; B has the largest gap, and A and C have equal base ratings."""
    for letter, best in (("A", 1100), ("B", 1200), ("C", 1090)):
        for seed in (0, 1):
            rows = [row(1000, 1010, 0.01, 0.1), row(1090 if letter == "B" else 1085, best, 0.01, 0.1)]
            path = root / f"mine-{letter}-seed{seed}" / "metrics.jsonl"
            path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    analysis = analyze_sweep(find_sweep("mine", root))
    assert analysis.unresolved == (("A", "C"),)
    assert analysis.tau == pytest.approx(-2 / 6**0.5)  # B, A, C expected: two pairs against it, one tied
    shown = printed(runs.main, ["analyze-sweep", "mine", "--dir", str(root)])
    assert "which counts where the base gains too: B, A, C." in shown
    assert "lower is better: A = C, B; = is a tie." in shown
    assert "not as expected" in shown


def test_criteria_hold_or_fail(root):
    assert states(root) == ["held", "held", "held", "not held"]


@pytest.mark.parametrize(
    ("criterion", "state", "evidence"),
    [
        ("B minus A: last(elo/base_model) < 0", "held", "-60 (B minus A)"),  # 910 - 970
        ("A minus B: last(elo/base_model) < 0", "not held", "60 (A minus B)"),
        ("some of A C minus B: last(elo/base_model) > 100", "held", "60 (A minus B) to 115 (C minus B)"),
        ("B minus A: first(elo/base_model) < 0", "not held", "0 (B minus A)"),
        ("std over seeds: last(elo/base_model) < 14.2", "held", "7.071 (C) to 14.14 (A)"),  # 20 / sqrt(2)
        ("std over seeds: last(elo/base_model) < 14.1", "not held", "7.071 (C) to 14.14 (A)"),
        ("every run: std(kl/mean) < 0.04", "not held", "0.04243 (B-seed1)"),  # 0.06 / sqrt(2)
    ],
)
def test_criteria_of_named_runs_and_deviations(root, criterion, state, evidence):
    (root / "mine-sweep" / "sweep.yaml").write_text(yaml.safe_dump({**FILE, "criteria": [criterion]}))
    (one,) = analyze_sweep(find_sweep("mine", root)).criteria
    assert (one.state, one.evidence.replace("mine-", "")) == (state, evidence)


def test_single_seed_deviation_is_open(root):
    (root / "mine-A-seed1" / "metrics.jsonl").write_text("")
    content = {**FILE, "criteria": ["std over seeds: last(elo/base_model) < 100"]}
    (root / "mine-sweep" / "sweep.yaml").write_text(yaml.safe_dump(content))
    assert states(root) == ["open"]


def test_criterion_of_unfinished_runs_is_open_unless_failed(root):
    (root / "mine-sweep" / "mine-C-seed1.json").write_text(json.dumps({"outcome": "did not end"}))
    (root / "mine-C-seed1" / "metrics.jsonl").write_text(json.dumps(row(1000, 1010, 0.02, 0.1)) + "\n{cut")
    assert states(root) == ["open", "open", "open", "open"]
    (root / "mine-C-seed1" / "metrics.jsonl").write_text(json.dumps(row(1000, 1010, 0.2, 0.1)) + "\n")
    assert states(root)[1] == "not held"
    (root / "mine-sweep" / "mine-C-seed1.json").write_text(json.dumps({"outcome": "failed: no memory"}))
    assert states(root)[0] == "not held"


def test_run_without_rows_is_not_ranked(root):
    for seed in (0, 1):
        (root / f"mine-B-seed{seed}" / "metrics.jsonl").unlink()
    assert analyze_sweep(find_sweep("mine", root)).ranking == ("A", "C")


def test_command_prints_table_json_and_csv(root, capsys, printed):
    text = printed(runs.main, ["analyze-sweep", "mine", "--checkpoint-dir", str(root)])
    assert "Expected: B, A, C; as expected (Kendall's tau +1.00)." in text
    assert "- not held: `between runs: final(game/win_bonus_rate) > 0.06`" in text
    content = json.loads(printed(runs.main, ["analyze-sweep", "mine", "--json", "--checkpoint-dir", str(root)]))
    assert (content["schema_version"], content["ranking"]) == (1, ["B", "A", "C"])
    assert content["runs"][0]["mean"]["base_model Elo"] == 910.0
    assert runs.main(["analyze-sweep", "mine", "--output-format", "csv", "--checkpoint-dir", str(root)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [one["run"] for one in rows] == ["B", "A", "C"]


def test_unknown_names_and_sweeps_not_yet_run(root, capsys):
    with pytest.raises(RunNotFoundError, match=r"no sweep .mina. in .*did you mean .mine."):
        find_sweep("mina", root)
    with pytest.raises(RunNotFoundError, match=r"has not been run in .*python train\.py \+sweep=grpo_grouping"):
        find_sweep("grpo_grouping", root)
    assert runs.main(["analyze-sweep", "mina", "--checkpoint-dir", str(root)]) == 3
    assert runs.main(["analyze-sweep", "mine", "--output-format", "yaml", "--checkpoint-dir", str(root)]) == 2
    assert "did you mean" not in capsys.readouterr().out


@pytest.mark.parametrize("names", [["mine-A"], ["mine-A-seed1", "mine-A-seed0"]])
def test_runs_are_analysed_by_name_or_prefix(root, capsys, names, printed):
    for label in ROWS:
        (root / f"mine-{label}" / "config.yaml").write_text(yaml.safe_dump({"seed": int(label[-1])}))
    content = json.loads(printed(runs.main, ["analyze-sweep", *names, "--json", "--dir", str(root)]))
    assert [one["description"] for one in content["runs"]] == ["mine-A-seed1", "mine-A-seed0"]  # Elo 960 and 980
    assert [one["mean"]["Elo gap"] for one in content["runs"]] == [70.0, 50.0]
    assert runs.main(["analyze-sweep", "mine-A", "other", "--dir", str(root)]) == 3
    assert "no run 'other'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("mine-A-seed1/metrics.jsonl", b'{"env_steps": 1, "note": "caf\xe9"}', "metrics.jsonl:3: is not text in UTF-8"),
        (
            "mine-A-seed1/metrics.jsonl",
            b'{"kl/mean": %s}' % (b"9" * 400),
            "metrics.jsonl:3: has a number of 400 digits",
        ),
        ("mine-A-seed1/metrics.jsonl", b'{"kl/mean": %s}' % (b"9" * 9000), "metrics.jsonl:3: has a number of 9000 dig"),
        ("mine-sweep/sweep.yaml", b"primary: caf\xe9", "sweep.yaml: is not text in UTF-8"),
        ("mine-sweep/sweep.yaml", b"[: {", "sweep.yaml: not YAML of plain data"),
    ],
)
def test_damaged_file_is_named_in_one_line(root, error_line, file, text, message):
    with (root / file).open("ab") as stream:
        stream.write(text)
    assert message in error_line(runs.main, ["analyze-sweep", "mine", "--dir", str(root)])


def test_text_in_place_of_rating_is_ignored(root):
    with (root / "mine-A-seed1" / "metrics.jsonl").open("a") as stream:
        stream.write('{"elo/base_model": "high", "elo/checkpoint_1": 9}')
    a = analyze_sweep(find_sweep("mine", root)).runs[0]
    assert a.values["Elo gap"] == (50.0, 70.0)


@pytest.mark.parametrize("source", ["auto", "wandb-offline"])
def test_runs_are_analysed_by_wandb_group(root, capsys, source):
    """Only the W&B files contain the group, in folders of runs with better logs."""
    wandb = pytest.importorskip("wandb")
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True, disable_git=True)
    for label, group in (("A-seed0", "night"), ("B-seed0", "night"), ("C-seed0", "day")):
        name = f"mine-{label}"
        place = {"project": "p", "name": name, "group": group, "dir": str(root / name)}
        run = wandb.init(mode="offline", settings=settings, **place)
        for one in ROWS[label]:
            run.log(one)
        run.finish()
    assert not stop_service()
    assert runs.main(["analyze-sweep", "night", "--json", "--dir", str(root), "--source", source]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [one["description"] for one in content["runs"]] == ["mine-B-seed0", "mine-A-seed0"]  # Elo 900 and 980
    assert [one["mean"]["Elo gap"] for one in content["runs"]] == [150.0, 50.0]
    assert runs.main(["analyze-sweep", "nigth", "day", "--dir", str(root), "--source", "wandb-offline"]) == 3
    assert "no run 'nigth' in names, prefixes, tags and W&B groups of runs; did you mean" in capsys.readouterr().err
