"""Untrusted run folders: damage is named per run, the rest is read, and no text is interpreted."""

import json
import os
import struct

import pytest
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from sparring.configs.core.errors import one_line
from sparring.eval import runs
from sparring.eval.analysis.output import csv_text, html_text, markdown_text
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles

ROWS = 12


def write(root, name="odd", *, config="seed: 1\n", rows=None, raw=None, **extra):
    folder = root / name
    folder.mkdir()
    (folder / "config.yaml").write_text(config)
    lines = [json.dumps({"env_steps": 64 * i, "loss": 0.5, **(rows or {})}) for i in range(1, ROWS + 1)]
    (folder / "metrics.jsonl").write_bytes(raw if raw is not None else ("\n".join(lines) + "\n").encode())
    for file, text in extra.items():
        (folder / file.replace("_", ".")).write_text(text)
    return folder


def row_of(**values):
    return (json.dumps({"env_steps": 64} | values) + "\n").encode()


@pytest.mark.parametrize(
    ("strange", "kept", "damage"),
    [
        ({"rows": {"big": 10**400}}, ROWS, f"{ROWS} numbers are too large for float64"),
        ({"raw": b'{"env_steps": 64, "loss": ' + b"9" * 5000 + b"}\n" + row_of(loss=1)}, 1,
         "1 lines are not JSON objects"),
        ({"raw": row_of(loss=1).replace(b"}", b', "loss": 2}')}, 1, "1 objects repeat a key, first in line 1"),
        ({"raw": row_of(loss=1).replace(b"64", b'"64"') + row_of(loss=1)}, 1,
         "1 rows have no whole number of env_steps"),
        ({"raw": row_of(loss=1).replace(b"64", b"-64") + row_of(loss=1)}, 1,
         "1 rows have no whole number of env_steps"),
        ({"raw": row_of(loss=1) + b"[" * 100_000 + b"\n"}, 1, "1 lines are not JSON objects"),
        ({"raw": row_of(loss=1)[:-3]}, 0, "the last line is cut off"),
        ({"raw": b"\xef\xbb\xbf" + row_of(loss=1).replace(b"\n", b"\r\n")}, 1, ""),
        ({"raw": row_of(event=5) + row_of(loss=1)}, 1, ""),
        ({"raw": b""}, 0, ""),
        ({"config": "[" * 1500}, ROWS, "config.yaml: cannot be read"),
        ({"config": "a: " + "[" * 150 + "]" * 150}, ROWS, "is nested deeper than 100 levels"),
        ({"config": "seed: 0x" + "f" * 9000}, ROWS, "config.yaml: holds a whole number of hundreds of digits"),
        ({"config": "a: &a [x]\nb: *a\n"}, ROWS, "aliases are not read here"),
        ({"config": "a: " + "x" * 2_000_000}, ROWS, "config.yaml: cannot be read"),
        ({"config": "\ufeffseed: 1\n"}, ROWS, ""),
        ({"eval_json": "[" * 500 + "]" * 500}, ROWS, "eval.json: cannot be read (is nested deeper than 100 levels)"),
    ],
    ids=str,
)  # fmt: skip
def test_damage_is_named_and_rest_is_read(tmp_path, capsys, strange, kept, damage):
    write(tmp_path, **strange)
    history = RunFolders(tmp_path).history("odd")
    assert len(history.step) == kept
    assert runs.main(["get-run", "odd", "--include-history", "--dir", str(tmp_path), "--json"]) == (4 if damage else 0)
    assert damage in " ".join(json.loads(capsys.readouterr().out)["damage"])


@pytest.mark.parametrize("command", ["get-cache-stats", "health", "list", "watch"])
def test_every_command_names_damage(tmp_path, capsys, command):
    write(tmp_path, raw=row_of(loss=1)[:-3], config="a: &a [x]\nb: *a\n")
    assert runs.main([command, *([] if command == "list" else ["odd"]), "--dir", str(tmp_path), "--json"]) == 4
    said = capsys.readouterr().err
    assert "the last line is cut off" in said
    assert "aliases are not read here" in said


def test_folder_or_link_in_place_of_log_is_named(tmp_path):
    for name in ("folder", "link"):
        (write(tmp_path, name) / "metrics.jsonl").unlink()
    (tmp_path / "folder" / "metrics.jsonl").mkdir()
    os.symlink("/dev/zero", tmp_path / "link" / "metrics.jsonl")
    damage = {run.id: run.damage[0] for run in RunFolders(tmp_path).runs()}
    assert "is a folder, and must be a regular file" in damage["folder"]
    assert "is a link, and must be a regular file" in damage["link"]


@pytest.mark.parametrize("command", ["list", "health"])
def test_faulty_run_does_not_stop_listing(tmp_path, capsys, monkeypatch, command):
    """Even a bug in the reader counts as damage of one run."""
    write(tmp_path, "good")
    write(tmp_path, "odd")
    listed = RunFolders._listed

    def fails(self, folder):
        if folder.name == "odd":
            raise KeyError("unforeseen")
        return listed(self, folder)

    monkeypatch.setattr(RunFolders, "_listed", fails)
    assert runs.main([command, "--dir", str(tmp_path), "--json"]) == 4
    said = capsys.readouterr()
    assert {run["run_id"] for run in json.loads(said.out)["runs"]} == {"good", "odd"}
    assert "odd: cannot be read (KeyError: 'unforeseen')" in said.err


def test_records_of_any_length_are_read_quickly(tmp_path, monkeypatch):
    """A record of three megabytes, and a thousand lengths; checksums come from tensorboard's Python code."""
    from tensorboard.compat.proto.event_pb2 import Event

    texts = [b"x" * 3_000_000, *(b"y" * size for size in range(600))]
    payloads = [Event(step=1, file_version=text.decode()).SerializeToString() for text in texts]
    scalar = Event(step=7)
    scalar.summary.value.add(tag="loss", simple_value=2.5)
    with open(tmp_path / "events.out.tfevents.1", "wb") as file:
        for payload in [*payloads, scalar.SerializeToString()]:
            head = struct.pack("<Q", len(payload))
            file.write(head + struct.pack("<I", masked_crc32c(head)) + payload)
            file.write(struct.pack("<I", masked_crc32c(payload)))
    history = TensorBoardFiles(tmp_path).history(tmp_path.name)
    assert (history.env_steps.tolist(), history.columns["loss"].tolist(), history.damage) == ([7], [2.5], ())


@pytest.mark.parametrize(
    ("clean", "text", "shown"),
    [
        (csv_text, "=1+1", "'=1+1"),
        (csv_text, "@SUM(1)", "'@SUM(1)"),
        (csv_text, "+cmd", "'+cmd"),
        (csv_text, "-2+3", "'-2+3"),
        (csv_text, "\t=1", r"'\t=1"),
        (csv_text, "-1.5e-3", "-1.5e-3"),
        (csv_text, "-", "-"),
        (csv_text, -1.5, -1.5),
        (markdown_text, "# a", r"\# a"),
        (markdown_text, "a|b [c](d) `e`", r"a\|b \[c\](d) \`e\`"),
        (markdown_text, "-1.5", "-1.5"),
        (markdown_text, "&lt;<b>", "&amp;lt;&lt;b>"),
        (html_text, "<b>\u202e\x1b", r"&lt;b&gt;\u202e\x1b"),
        (one_line, "a\nb\u202e\x9b", r"a b\u202e\x9b"),
    ],
)
def test_text_is_sanitized_on_output(clean, text, shown):
    assert clean(text) == shown
