"""Text from untrusted files is escaped in terminals and pages: escape codes, HTML, and bidi controls."""

import json
import sqlite3
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from sparring import __main__ as sparring
from sparring.agents.opponents import players
from sparring.envs.chess.evaluation.results import page as chess_page
from sparring.envs.chess.evaluation.results import read_pgn, to_pgn
from sparring.envs.diplomacy.board.board import POWERS
from sparring.eval import curves, diplomacy_replay, play, runs
from sparring.eval.analysis.sources.trackio_files import LAYOUT
from sparring.eval.analysis.sources.wandb_offline import FULL, HEADER, MAGIC
from sparring.eval.zoo import cards

TEXTS = {
    "colour": "a\x1b[31mred\x1b[0m",
    "link": "a\x1b]8;;http://h\x1b\\here\x1b]8;;\x1b\\",
    "title": "a\x1b]0;owned\x07\x9b2J\x9d0;b\x9c",
    "return": "done\rfaked",
    "direction": "a\u202egnp\u2066b\u200f\u061c",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "page": "</td><script>owned()</script><img src=x onerror=owned()>",
    "attribute": "\"'><script>owned()</script>",
    "template": "{{data}}<!--<script>owned()",
}
ALL = "".join(TEXTS.values())
ROWS = 12
FORMS = ("table", "csv", "json", "markdown")
"""All are printed of a run folder; of what others write, which is printed by the same code, one by turns."""
METRICS = [{"loss": 0.5, **dict.fromkeys(TEXTS.values(), float(row))} for row in range(ROWS)]
POLICY = Path(__file__).parents[2] / "checkpoints" / "released" / "dogfight_quickstart.pt"


def run_folder(root, name="run"):
    folder = root / name
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps({"seed": 1, "name": ALL, **{text: text for text in TEXTS.values()}}))
    lines = [{"env_steps": 64 * step, **row} for step, row in enumerate(METRICS, 1)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    events = [{"env_steps": 64, "event": text, "kind": text} for text in TEXTS.values()]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (folder / "eval.json").write_text(json.dumps({"records": [{"opponent": ALL, "win_rate": 0.5}], "command": ALL}))
    return name


def tensorboard(root):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(root / "run")) as writer:
        for step, row in enumerate(METRICS, 1):
            for tag, value in row.items():
                writer.add_scalar(tag, value, step)
        writer.add_text(ALL, ALL, 3)
    return "run"


def trackio(root):
    with sqlite3.connect(root / "p.db") as file:
        file.executescript(LAYOUT)
        insert = "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('i', '', ?, ?, ?)"
        file.executemany(insert, [(ALL, step, json.dumps(row)) for step, row in enumerate(METRICS, 1)])
        insert = "INSERT INTO configs (run_id, run_name, config, created_at) VALUES ('i', ?, ?, '')"
        file.execute(insert, (ALL, json.dumps({ALL: ALL, "seed": 1})))
    return ALL


def wandb_offline(root):
    message = pytest.importorskip("wandb.proto.wandb_internal_pb2").Record
    records = [message() for _ in range(ROWS + 2)]
    run, artifact = records[0].run, records[-1].artifact
    run.display_name = run.run_group = run.project = artifact.name = artifact.type = ALL
    run.tags.append(ALL)
    run.config.update.add(key=ALL, value_json=json.dumps(ALL))
    for step, (record, row) in enumerate(zip(records[1:], METRICS, strict=False)):
        record.history.step.num = step
        for key, value in (row | {"event": ALL}).items():
            record.history.item.add(key=key, value_json=json.dumps(value))
    folder = root / "wandb" / "offline-run-1"
    folder.mkdir(parents=True)
    parts = [MAGIC]
    for data in (record.SerializeToString() for record in records):
        parts.append(HEADER.pack(zlib.crc32(bytes([FULL]) + data), len(data), FULL) + data)
    (folder / "run-i.wandb").write_bytes(b"".join(parts))
    return ALL


@pytest.fixture
def printed(capsys):
    """Run a command and return its output, whether it fails or not."""

    def run(main, *words):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", "400")
            main([str(word) for word in words])
        streams = capsys.readouterr()
        assert streams.out + streams.err
        return streams.out + streams.err

    return run


def assert_inert(output):
    """Check that a text contains no terminal control."""
    assert [char for char in output if not (char.isprintable() or char == "\n")] == [], output


def assert_page(page):
    """Check that a text adds no element or attribute to a page."""
    assert not [piece for piece in ("<script>owned", "<img src=x", "<!--<script") if piece in page]
    assert not set("\x1b\x07\x9b\u202e\u2066") & set(page)


@pytest.mark.parametrize(
    "write",
    [run_folder, wandb_offline, *(pytest.param(write, marks=pytest.mark.slow) for write in (tensorboard, trackio))],
)
def test_stored_run_names_are_escaped(tmp_path, printed, write):
    name, where, out = write(tmp_path), ["--dir", tmp_path], tmp_path / "out"
    page, note, picture = (out / f"a.{ending}" for ending in ("html", "md", "svg"))
    commands = [["list"], ["health"], ["search", "--config", f"{ALL}={ALL}"], ["compare", name, "missing"]]
    commands += [[kind, name] for kind in ("get-artifacts", "get-metrics", "league", "get-run")]
    commands += [["get-metrics", name, "-m", f"{ALL}x"], ["analyze", name, "--html", page, "--markdown", note]]
    for number, words in enumerate(commands):
        for form in FORMS if write is run_folder else FORMS[number % len(FORMS) :][:1]:
            assert_inert(printed(runs.main, *words, *where, "--output-format", form))
    drawn = ["compare", name, run_folder(tmp_path, "other"), "--plot", out / "b.svg"]
    drawn += [word for text in TEXTS.values() for word in ("-m", text)]
    for words in (drawn, ["watch", name], ["analyze-sweep", name], ["export", name, "-o", out / "a.csv"]):
        assert_inert(printed(runs.main, *words, *where))
    assert_inert(
        printed(curves.main, f"label={name}", *where, "--by-update", "--out", picture, "--metrics", *TEXTS.values())
    )
    assert_inert((out / "a.csv").read_text())
    for path in (page, note, picture, out / "b.svg"):
        assert_page(path.read_text())
    for path in (picture, out / "b.svg"):
        ElementTree.parse(path)


def test_saved_diplomacy_player_names_are_escaped(tmp_path, printed):
    game, page, log = (tmp_path / name for name in ("game.json", "game.html", "game.txt"))
    players = dict(zip(POWERS, TEXTS.values(), strict=False))
    state = {"units": {"ENGLAND": ["A FIN"]}, "centres": {"RUSSIA": ["STP"]}}
    content = {"format": "sparring-diplomacy", "version": 1, "map": "standard", "players": players}
    game.write_text(json.dumps(content | {"phases": [{"name": "S1905M", "state": state}]}))
    assert_inert(printed(diplomacy_replay.main, "--game", game, "--out", page, "--log", log, "--save", tmp_path / "b"))
    assert_page(page.read_text())
    assert_inert(log.read_text())
    for text in TEXTS.values():
        for change in (
            {"players": {text: "x"}},
            {"map": text},
            {"phases": [{"name": text, "state": state}]},
            {"phases": [{"name": "S1905M", "state": {"units": {"ENGLAND": [text]}, "centres": {}}}]},
        ):
            game.write_text(json.dumps(content | change))
            assert_inert(printed(diplomacy_replay.main, "--game", game, "--out", page))
            assert_inert(printed(play.main, "--env", "diplomacy", "--resume", game, "--no-browser"))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_pgn_headers_are_escaped(tmp_path, printed, text):
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    path = tmp_path / "game.pgn"
    for header in ("White", "Result", "Variant", "FEN", "Termination", "Event", text):
        headers = f'[{header} "{quoted}"]\n[Black "{quoted}"]\n'
        path.write_text(f"{headers}\n1. e4 {{ answer: {text} }} e5 {text} *\n")
        assert_inert(printed(play.main, "--env", "chess", "--resume", path, "--no-browser"))
        file = read_pgn(path.read_text().replace(f" {text} *", " 1-0"))
        assert_inert(to_pgn(file.games))
        assert_page(chess_page(file.games, title=text))


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """Create a runs folder with a run, and a zoo with a policy."""
    for module in (players, cards.files):
        monkeypatch.setattr(module, "CHECKPOINTS", tmp_path / "checkpoints")
    content = torch.load(POLICY, weights_only=True)
    content["contract"] |= {"id": ALL, "rules": ALL}
    content["training"] |= {"config": {"run": ALL, ALL: ALL}}
    for folder, name in (("mine", "final"), ("zoo", "odd")):
        (tmp_path / "checkpoints" / folder).mkdir(parents=True)
        torch.save(content, tmp_path / "checkpoints" / folder / f"{name}.pt")
    return tmp_path / "checkpoints"


def test_hostile_card_text_stays_text(zoo, printed):
    keys = ("trained by", "machine", "file", "licence", "win %", "held out", "best response", "strongest attack")
    for text in TEXTS.values():
        rows = "".join(f"| {key} | {text} `{text}` |\n" for key in keys)
        (zoo / "zoo" / "odd.md").write_text(f"# {text}\n\n| | |\n| --- | --- |\n{rows}")
        assert_inert(printed(sparring.main, "policies"))
    records = [{"opponent": text, "win_rate": 0.5} for text in TEXTS.values()]
    held_out = {text: {"mean": 0.5, "worst": 0.5, "worst_opponent": text} for text in TEXTS.values()}
    steps = cards.read_policy(zoo / "mine" / "final.pt").training["env_steps"]
    about = {"command": ALL, "games": ALL, "training": {"env_steps": steps}, "records": records, "held_out": held_out}
    (zoo / "mine" / "eval.json").write_text(json.dumps(about))
    (zoo / "mine" / "origin.json").write_text(json.dumps({"commit": TEXTS["direction"]}))
    assert_inert(printed(sparring.main, "policies", "add", "mine"))
    card = (zoo / "zoo" / "mine.md").read_text()
    assert_page(card)
    assert_inert(card)
    assert_inert(printed(sparring.main, "policies"))
