"""The MCP server of recorded runs, queried by the package's client; answer bounds without the package."""

import asyncio
import json
import sys
from importlib.metadata import version

import pytest

from sparring.configs.core.errors import InputError
from sparring.eval.analysis.mcp_server import LEAST_ENTRIES, bounded_json, build_server, mcp_module
from sparring.eval.analysis.options import SourceOptions
from sparring.eval.runs import ask, main
from tests.eval.analysis.conftest import write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    write_run(root, "dark-ghost")
    write_run(root, "steel-hawk", rows=12)
    return root


def converse(root, *calls, most_bytes=100_000):
    """Return (is_error, text) of each call (tool, arguments) to a server of `root`, and its tools."""
    mcp = pytest.importorskip("mcp")

    async def talk():
        async with mcp.Client(build_server(SourceOptions(root=root), most_bytes=most_bytes)) as client:
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
            tools = (await client.list_tools()).tools
        return [(answer.is_error, answer.content[0].text) for answer in answers], tools

    return asyncio.run(talk())


def test_server_states_its_version(root):
    mcp = pytest.importorskip("mcp")

    async def greet():
        async with mcp.Client(build_server(SourceOptions(root=root))) as client:
            return client.server_info

    info = asyncio.run(greet())
    assert (info.name, info.version) == ("sparring-runs", version("sparring"))


def files_of(root):
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


def test_client_gets_command_line_results(root):
    before = files_of(root)
    calls = [
        ("list_runs", {"expression": "config.seed = 3", "limit": 1}),
        ("get_run", {"run": "dark-ghost"}),
        ("get_metrics", {"run": "dark-ghost", "metrics": ["train/loss"], "points": 5}),
        ("analyze", {"run": "dark-ghost"}),
        ("compare", {"runs": ["dark-ghost", "steel-hawk"], "metrics": ["train/loss"]}),
    ]
    answers, tools = converse(root, *calls)
    assert [error for error, _ in answers] == [False] * 5
    runs, run, metrics, report, comparison = (json.loads(text) for _, text in answers)
    assert (runs["count"], runs["total"]) == (1, 2)
    assert runs["warnings"] == ["1 of 2 runs; --limit 2 shows all"]
    direct = ask("get-metrics", ["dark-ghost"], {"metrics": ["train/loss"], "dir": root})["metrics"]["train/loss"]
    series = metrics["metrics"]["train/loss"]
    assert series["x"] == [direct["x"][i] for i in (0, 10, 20, 29, 39)]
    assert series["y"] == [direct["y"][i] for i in (0, 10, 20, 29, 39)]
    assert (series["values"], series["statistics"]) == (40, direct["statistics"])
    assert run["config"]["seed"] == 3
    assert report == ask("analyze", ["dark-ghost"], {"dir": root})
    assert comparison["title"].startswith("Comparison")
    assert {tool.name for tool in tools} == {name for name, _ in calls}
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert files_of(root) == before


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("get_run", {"run": "dark-gost"}, "did you mean dark-ghost"),
        ("get_metrics", {"run": "dark-ghost", "metrics": ["train/los"]}, "train/los"),
        ("get_metrics", {"run": "dark-ghost", "metrics": []}, "name at least one"),
        ("get_metrics", {"run": "dark-ghost", "metrics": ["train/loss"], "points": 10**9}, "between 2 and 500"),
        ("list_runs", {"limit": 0}, "limit=0: must be between 1 and 500"),
        ("list_runs", {"expression": "status ="}, "column"),
    ],
)
def test_bad_input_gives_one_line_error(root, tool, arguments, said):
    [(error, text)], _ = converse(root, (tool, arguments))
    assert error
    assert said in text
    assert "\n" not in text


def test_run_outside_served_folder_is_rejected(root, tmp_path):
    outside = write_run(tmp_path, "private", rows=3), tmp_path / "logs"
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events.out.tfevents.1.host").touch()
    answers, _ = converse(
        root,
        *(("get_run", {"run": str(one)}) for one in (*outside, root / "dark-ghost")),
    )
    assert [error for error, _ in answers] == [True, True, False]
    assert all("lies outside" in text for _, text in answers[:2])


def test_answer_stays_within_byte_limit(root):
    [(error, text)], _ = converse(root, ("analyze", {"run": "dark-ghost"}), most_bytes=3000)
    assert len(text.encode()) <= 3000
    assert error or json.loads(text)["shortened"]


def test_answer_is_truncated_to_bounds():
    content = {
        "rows": list(range(10_000)),
        "nested": {"names": {str(i): "é" * 100 for i in range(300)}},
        "text": "x" * 9000,
    }
    answer = bounded_json(content, most_bytes=20_000)
    short = json.loads(answer)
    assert len(answer.encode()) <= 20_000
    assert short["rows"] == list(range(len(short["rows"])))
    assert any(line.startswith("nested.names: ") for line in short["shortened"])
    assert "text: 2000 of 9000 characters" in short["shortened"]
    assert bounded_json({"rows": [1, 2]}) == '{"schema_version": 1, "rows": [1, 2]}'
    with pytest.raises(InputError, match="more than 2000: ask for fewer"):
        bounded_json({str(i): ["y" * 1000] * LEAST_ENTRIES for i in range(9)}, most_bytes=2000)


def test_error_names_missing_package(monkeypatch, error_line, tmp_path):
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(InputError, match=r"`sparring install mcp`"):
        mcp_module("mcp.server.mcpserver")
    assert "mcp 2 or later" in error_line(main, ["mcp", "--dir", str(tmp_path)])
