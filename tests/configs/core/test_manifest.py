"""The policy manifest: size and SHA-256 of each file, verified on read."""

import hashlib
import json

import pytest

from sparring.configs.core.manifest import MANIFEST, ManifestError, listed, read_listed, repair_manifest, write_listed


def test_entry_has_size_and_hash(tmp_path):
    write_listed(tmp_path / "final.pt", b"weights")
    write_listed(tmp_path / "best.pt", b"")
    entries = json.loads((tmp_path / MANIFEST).read_text())
    assert entries["final.pt"] == {"sha256": hashlib.sha256(b"weights").hexdigest(), "bytes": 7}
    assert list(entries) == ["best.pt", "final.pt"]
    assert read_listed(tmp_path / "final.pt") == b"weights"


@pytest.mark.parametrize("data", [b"weightz", b"weight", b"", b"weights and more"])
def test_changed_content_is_rejected(tmp_path, data):
    write_listed(tmp_path / "final.pt", b"weights")
    (tmp_path / "final.pt").write_bytes(data)
    with pytest.raises(ManifestError, match=r"final\.pt: is damaged or was replaced: its size or SHA-256 is not the"):
        read_listed(tmp_path / "final.pt")


def test_entry_without_size_is_preserved(tmp_path):
    old = {"old.pt": {"sha256": hashlib.sha256(b"old").hexdigest()}}
    (tmp_path / MANIFEST).write_text(json.dumps(old))
    (tmp_path / "old.pt").write_bytes(b"old")
    write_listed(tmp_path / "final.pt", b"weights")
    assert read_listed(tmp_path / "old.pt") == b"old"
    assert json.loads((tmp_path / MANIFEST).read_text())["old.pt"] == old["old.pt"]


def test_unlisted_file_is_read(tmp_path):
    (tmp_path / "final.pt").write_bytes(b"weights")
    assert read_listed(tmp_path / "final.pt") == b"weights"


@pytest.mark.parametrize("text", ["[]", "{", '{"final.pt": 1}', '{"final.pt": {}}', "\udcff"])
def test_damaged_manifest_is_named_and_nothing_is_written(tmp_path, text):
    (tmp_path / MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ManifestError, match=r"manifest\.json: is not a manifest \(.*\); remove it"):
        write_listed(tmp_path / "final.pt", b"weights")
    assert not (tmp_path / "final.pt").exists()


@pytest.mark.parametrize(("key", "value"), [("sha256", "0" * 64), ("bytes", 8)])
def test_changed_entry_is_corrected_if_file_is_unchanged(tmp_path, key, value):
    for name in ("final.pt", "best.pt"):
        write_listed(tmp_path / name, b"weights")
    known = listed(tmp_path, unless={})
    assert repair_manifest(tmp_path, known) == ""
    entries = json.loads((tmp_path / MANIFEST).read_text())
    for entry in entries.values():
        entry[key] = value
    (tmp_path / MANIFEST).write_text(json.dumps(entries))
    (tmp_path / "best.pt").write_bytes(b"another")
    assert repair_manifest(tmp_path, known).endswith(
        "was changed; corrected for final.pt, as the training state knows the files"
    )
    assert read_listed(tmp_path / "final.pt") == b"weights"
    with pytest.raises(ManifestError, match="is damaged or was replaced"):
        read_listed(tmp_path / "best.pt")
