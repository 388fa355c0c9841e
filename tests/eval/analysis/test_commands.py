"""The command line: documented calls, JSON, exit codes."""

import csv
import io
import json
import re
import shlex

import pytest

from sparring.eval import runs as command
from tests.configs import messages
from tests.eval.analysis.conftest import ROWS, write_run

SEED_CALLS = """
get-run --run-id R --project diplomacy-grpo --include-history --include-artifacts --output-format json
get-metrics --run-id R --project diplomacy-grpo -m train/loss -m benchmark/kl -m rollout/reward --output-format json
get-metrics --run-id R --project diplomacy-grpo -m rollout/reward -m train/loss --x-axis _timestamp --output-format json
get-cache-stats --run-id R --project diplomacy-grpo --output-format table
get-artifacts --run-id R --project diplomacy-grpo --output-format json
search --project diplomacy-grpo --config "run=quickstart" --config "seed=3" --output-format json
search --project diplomacy-grpo --tag quickstart --output-format json
compare --run-ids R steel-hawk --project diplomacy-grpo --metrics train/loss rollout/reward --output-format json
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("commands")
    write_run(root, "dark-ghost")
    write_run(root, "steel-hawk")
    return root


def call(capsys, root, *arguments):
    code = command.main([*arguments, "--dir", str(root)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("line", SEED_CALLS.strip().splitlines())
def test_documented_calls_work_as_written(capsys, root, line):
    code, out, _ = call(
        capsys, root, *(word.replace("R", "dark-ghost") if word == "R" else word for word in shlex.split(line))
    )
    assert code == 0
    if "json" in line:
        found = json.loads(out)
        assert found["schema_version"] == 1
        assert "dark-ghost" in out


def test_run_is_shown_with_history(capsys, root):
    _, out, _ = call(capsys, root, "get-run", "--run-id", "dark-ghost", "--include-history", "--json")
    found = json.loads(out)
    assert (found["status"], found["state"], found["config"]["seed"]) == ("completed", "finished", 3)
    assert len(found["history"]) == ROWS
    assert found["history"][7] == found["history"][7] | {"_step": 8, "env_steps": 1024, "eval/win_rate": 0.2}


def test_metrics_are_written_as_csv(capsys, root):
    _, out, _ = call(
        capsys, root, *shlex.split("get-metrics -r dark-ghost -m eval/win_rate --x-axis env_steps --output-format csv")
    )
    rows = list(csv.reader(io.StringIO(out)))
    assert rows[0] == ["env_steps", "eval/win_rate"]
    assert rows[1:] == [[str(update * 128), str(update / ROWS)] for update in range(8, ROWS + 1, 8)]


def test_metric_statistics_by_hand(capsys, root):
    _, out, _ = call(capsys, root, *shlex.split("get-metrics -r dark-ghost -m eval/win_rate --limit 2 --json"))
    found = json.loads(out)["metrics"]["eval/win_rate"]
    assert found["x"] == [32, 40]
    assert found["statistics"] == pytest.approx(
        {"count": 5, "first": 0.2, "last": 1.0, "min": 0.2, "max": 1.0, "mean": 0.6, "std": 0.1**0.5, "slope": 1 / ROWS}
    )


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_runs"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, root, tmp_path, monkeypatch, check_row):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    check_row(command.main, row, "--dir", str(root))


@pytest.mark.parametrize("line", ["get-run", "get-metrics", "get-artifacts", "get-cache-stats", "health", "watch"])
def test_run_is_named_with_or_without_option(capsys, root, line):
    assert call(capsys, root, line, "dark-ghost", "--json") == call(capsys, root, line, "-r", "dark-ghost", "--json")


def test_health_of_several_runs_names_missing_one(capsys, root):
    code, out, error = call(capsys, root, "health", "dark-ghost", "none", "steel-hawk", "--json")
    assert [run["run_id"] for run in json.loads(out)["runs"]] == ["dark-ghost", "steel-hawk"]
    assert (code, "no run 'none'" in error) == (3, True)


def test_damaged_run_prints_rows_and_exits_with_4(capsys, tmp_path):
    folder = write_run(tmp_path, "hurt")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('no json\n{"env_steps"')
    code, out, error = call(capsys, tmp_path, "get-metrics", "-r", "hurt", "-m", "train/loss", "--json")
    assert code == 4
    assert len(json.loads(out)["metrics"]["train/loss"]["y"]) == ROWS
    assert re.findall("^damaged: .*metrics.jsonl", error, re.MULTILINE)
    code, out, _ = call(capsys, tmp_path, "health", "-r", "hurt", "--json")
    assert (code, json.loads(out)["runs"][0]["health"]) == (4, "bad")


def test_run_is_exported_as_json_and_csv(capsys, root, tmp_path):
    for name in ("a.json", "a.csv"):
        assert call(capsys, root, "export", "-r", "dark-ghost", "--output", str(tmp_path / name))[0] == 0
    found = json.loads((tmp_path / "a.json").read_text())
    assert {"config", "summary", "history", "events", "artifacts", "schema_version"} <= found.keys()
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert float(rows[7]["eval/win_rate"]) == 0.2
    assert rows[0]["eval/win_rate"] == ""


def test_watch_ends_with_run(capsys, root):
    code, out, _ = call(capsys, root, "watch", "-r", "dark-ghost", "-m", "train/loss", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, len(rows), rows[0]["status"]) == (0, ROWS, "completed")


def test_watch_names_metrics_missing_in_run(capsys, root):
    line = "watch --run-id dark-ghost -m train/los -m train/loss --output-format csv"
    code, out, error = call(capsys, root, *shlex.split(line))
    assert (code, len(out.splitlines())) == (0, 1 + ROWS)
    assert error.count("did you mean 'train/loss'?") == 1
    code, _, error = call(capsys, root, *shlex.split("watch --run-id dark-ghost -m train/los"))
    assert (code, "no value of metric 'train/los'" in error) == (3, True)


def test_search_names_options_and_tags_no_run_has(capsys, root):
    line = "search --config gama=0.99 --config seed=4 --tag quickstrt --json"
    code, out, error = call(capsys, root, *shlex.split(line))
    assert (code, json.loads(out)["runs"]) == (0, [])
    assert error.splitlines() == [
        "warning: --config: no run has the option 'gama'; did you mean 'gamma'?",
        "warning: --tag: no run has the tag 'quickstrt'; did you mean 'quickstart'?",
    ]


@pytest.mark.parametrize(
    ("learning", "still", "rule"),
    [
        ({"train/clip_fraction": 0.1, "train/kl_max": 0.01}, {"train/kl_max": 0.0}, "policy_does_not_move"),
        ({"kl/max": 0.02}, {"kl/max": 0.0}, "policy_equals_reference"),
    ],
)
def test_health_names_run_that_does_not_learn(capsys, tmp_path, learning, still, rule):
    for name, metrics in {"learning": learning, "still": learning | still}.items():
        rows = [{"env_steps": 128 * update, **metrics} for update in range(1, 41)]
        folder = write_run(tmp_path, name, rows=0, rolled_back=False)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, _ = call(capsys, tmp_path, "health", "learning", "still", "--json")
    by_name = {run["run_id"]: run for run in json.loads(out)["runs"]}
    assert by_name["learning"]["health"] == "ok"
    assert by_name["still"]["health"] == "warning"
    assert [reason.partition(":")[0] for reason in by_name["still"]["reasons"]] == [rule]


def test_cache_figures_are_summarized(capsys, tmp_path):
    from sparring.agents.run.logger import open_logger
    from sparring.configs.core.session import LoggerConfig

    folder = tmp_path / "words"
    folder.mkdir()
    logger = open_logger(LoggerConfig(), folder, "words", {})
    for step, rate in ((1, 0.25), (2, 0.75)):
        logger.log(
            step,
            {
                "cache/hit_rate": rate,
                "cache/total_queries": 100,
                "cache/total_hits": 100 * rate,
                "cache/prompt_tokens": 200,
            },
        )
    logger.close()
    _, out, _ = call(capsys, tmp_path, "get-cache-stats", "-r", "words", "--json")
    found = json.loads(out)
    assert (found["enabled"], found["hit_rate_mean"], found["hit_rate_overall"]) == (True, 0.5, 0.5)
    assert (found["total_hits"], found["tokens_saved"]) == (100.0, 200.0)
