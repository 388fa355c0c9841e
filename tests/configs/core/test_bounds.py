"""Oversized or deeply nested files are rejected in one line before parsing."""

import json
from itertools import pairwise

import pytest
import yaml

from sparring.agents.language.backend import ModelError
from sparring.agents.language.models.load import check_sizes
from sparring.agents.opponents.onnx_file import OnnxError
from sparring.agents.policies.inert_pickle import MOST_BYTES
from sparring.configs.core.archive import MOST_OBJECTS, MOST_OPCODES
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.files import DEEPEST, MOST_ONNX, MOST_TEXT, MOST_YAML, ROOT, IrregularFileError, read_json
from sparring.configs.core.manifest import ManifestError, read_listed
from sparring.configs.serialization import read_options, read_yaml
from sparring.curriculum.league.file import LeagueError, LeagueFile
from sparring.curriculum.pool import Pool, PoolError
from sparring.envs.diplomacy.records.saved_game import LARGEST
from sparring.envs.dogfight.training.opponents.load import DUELS


@pytest.fixture
def parsed(monkeypatch):
    """Record every text passed to the JSON parsers."""
    seen, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text, **options: seen.append(text) or loads(text, **options))
    return seen


def nested(levels, opening="[", closing="]"):
    return opening * levels + closing * levels


@pytest.mark.parametrize(
    "text",
    [
        nested(DEEPEST + 1),
        nested(1_000_000),
        "[" * 1_000_000,
        nested(DEEPEST + 1, '{"a":', "}").replace(":}", ":1}", 1),
        "[" + ",".join(["[]"] * 500) + "," + nested(DEEPEST) + "]",
        '["\\"]", ' + nested(DEEPEST) + "]",
    ],
)
def test_deep_json_is_rejected_before_parsing(tmp_path, parsed, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=f"^is nested deeper than {DEEPEST} levels$"):
        read_json(tmp_path / "x.json")
    assert parsed == []


@pytest.mark.parametrize(
    "value", [["[" * 500], {"{[" * 300: "\\"}, ['"' + "[" * 200 + '\\"'], [[]] * 1000, [1, {"a": [None, True]}]]
)
def test_brackets_in_strings_and_siblings_do_not_count(tmp_path, value):
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "x.json") == value
    (tmp_path / "x.json").write_text(nested(DEEPEST))
    assert read_json(tmp_path / "x.json")


def test_unterminated_string_takes_linear_time(tmp_path):
    """A naive search would start at each of a million escaped quotes."""
    (tmp_path / "x.json").write_text("[" * 101 + '"' + '\\"' * 1_000_000)
    with pytest.raises(ValueError, match="nested"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[]" * 101 + '"' + '\\"' * 1_000_000)
    with pytest.raises(json.JSONDecodeError):
        read_json(tmp_path / "x.json")


READERS = {
    "manifest.json": (lambda folder: read_listed(folder / "x.pt"), ManifestError),
    "league.json": (lambda folder: LeagueFile(folder).read(), LeagueError),
    "index.json": (lambda folder: Pool(folder, 3, shape={}), PoolError),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", ["large", "deep"])
def test_every_json_reader_has_bounds(tmp_path, parsed, name, content):
    read, error = READERS[name]
    (tmp_path / "x.pt").write_bytes(b"x")
    (tmp_path / name).write_text("[" * 100_000 if content == "deep" else " " * (MOST_TEXT + 1))
    with pytest.raises(error, match=f"nested deeper than {DEEPEST}|the limit is {MOST_TEXT}|cannot be read") as caught:
        read(tmp_path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all(len(text) < 10 for text in parsed)


LAUGHS = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefg"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested(DEEPEST + 1), f"nested deeper than {DEEPEST} levels"),
        (nested(400_000), f"nested deeper than {DEEPEST} levels"),
        ("".join(f"{' ' * n}a:\n" for n in range(DEEPEST + 1)), f"nested deeper than {DEEPEST} levels"),
        ("- " * 5000 + "x", f"nested deeper than {DEEPEST} levels"),
        (LAUGHS, "aliases are not read here"),
        ("a: &a\n  b: *a\n", "aliases are not read here"),
        ("base: &b {x: 1}\nc:\n  <<: *b\n", "aliases are not read here"),
        ("x: " + "y" * MOST_YAML, f"the limit is {MOST_YAML}"),
    ],
)
def test_yaml_beyond_bounds_is_rejected(text, message):
    for read in (read_yaml, read_options):
        with pytest.raises(ConfigError, match=message):
            read(text)


def test_yaml_within_bounds_is_read():
    many = [[n, {"a": [n]}] for n in range(2 * DEEPEST)]
    assert read_yaml(yaml.safe_dump(many)) == many
    assert read_yaml(nested(DEEPEST - 1))


@pytest.mark.parametrize(
    ("header", "reason"),
    [(1 << 60, "header too large"), (100_000_001, "header too large"), (100, "invalid header length")],
)
def test_safetensors_header_larger_than_file_is_rejected(tmp_path, header, reason):
    """The package's own limit for headers is 100 MB."""
    file = tmp_path / "model.safetensors"
    file.write_bytes(header.to_bytes(8, "little") + b"{}")
    if header == 100_000_001:
        with file.open("r+b") as stream:
            stream.truncate(1 << 30)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=rf"cannot be loaded \(model\.safetensors: .*{reason}"):
        check_sizes(tmp_path)


def test_large_onnx_model_is_rejected_by_size(tmp_path):
    with (tmp_path / "x.onnx").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OnnxError, match=r"x\.onnx: cannot be read \(has 1099511627776 bytes; the limit is 268435456"):
        DUELS.read_onnx(tmp_path / "x.onnx")


def test_large_file_is_rejected_by_size(tmp_path):
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(MOST_TEXT + 1)
    with pytest.raises(IrregularFileError, match=f"has {MOST_TEXT + 1} bytes; the limit is {MOST_TEXT}"):
        read_json(tmp_path / "x.json")


def test_page_states_bounds():
    page = (ROOT / "docs" / "opponents.md").read_text(encoding="utf-8").split("## Bounds of a stranger's file")[1]
    rows = dict(row.strip("| ").split(" | ") for row in page.split("##")[0].splitlines() if row.startswith("| "))
    for kind, figures in {
        "`.pt`": (f"{MOST_OPCODES:,} steps", f"{MOST_OBJECTS:,} objects"),
        "Pickled values": (f"{MOST_BYTES >> 20} MiB",),
        "JSON": (f"{MOST_TEXT >> 20} MiB", f"{DEEPEST} levels"),
        "A saved game": (f"{LARGEST >> 20} MiB",),
        "YAML": (f"{MOST_YAML >> 20} MiB", f"{DEEPEST} levels"),
        "`.safetensors`": ("100 MB",),
        "ONNX": (f"{MOST_ONNX >> 20} MiB",),
    }.items():
        (row,) = (text for name, text in rows.items() if name.startswith(kind))
        assert all(figure in row for figure in figures), kind
