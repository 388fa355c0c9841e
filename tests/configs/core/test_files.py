"""Atomic writing: the old file or the new one, and nothing left over."""

import os

import pytest

from sparring.configs.core.files import publish_folder, write_atomically


def test_text_and_bytes_replace_what_was_there(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "räder")
    assert path.read_bytes() == "räder".encode()
    write_atomically(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_crash_before_the_last_step_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomically(path, "old")

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_the_file_is_readable_by_others(tmp_path):
    write_atomically(tmp_path / "a", b"")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_folder_appears_whole_and_replaces_the_old_one(tmp_path):
    publish_folder(tmp_path / "state", {"a": b"1", "b": b"2"})
    publish_folder(tmp_path / "state", {"a": b"3"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == {"a": b"3"}
    assert os.listdir(tmp_path) == ["state"]


def test_a_folder_that_cannot_be_finished_is_not_there(tmp_path, monkeypatch):
    publish_folder(tmp_path / "state", {"a": b"1"})
    monkeypatch.setattr("sparring.configs.core.files.Path.rename", lambda *_: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        publish_folder(tmp_path / "other", {"a": b"2"})
    assert os.listdir(tmp_path) == ["state"]
