"""Only regular files are opened; a write leaves the old file or the new one, never a partial one."""

import os
import socket
from pathlib import Path

import pytest

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import (
    IrregularFileError,
    discard,
    make_folder,
    open_regular,
    publish_folder,
    read_regular,
    read_regular_text,
    remove_leftovers,
    write_atomically,
)
from sparring.configs.core.locks import FileLock


def bound_socket(path):
    os.chdir(path.parent)  # the address of a socket is at most 107 bytes long
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(path.name)


KINDS = {
    "a link": lambda path: path.symlink_to(path.with_name("precious")),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": bound_socket,
}


@pytest.fixture(params=KINDS)
def wrong(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").write_text("keep")
    KINDS[request.param](tmp_path / "it")
    yield tmp_path / "it"
    assert (tmp_path / "precious").read_text() == "keep"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_TRUNC])
def test_non_regular_file_is_rejected_in_one_line(wrong, flags):
    with pytest.raises(IrregularFileError, match="must be a regular file") as caught:
        open_regular(wrong, flags)
    assert isinstance(caught.value, InputError)
    assert str(caught.value).startswith(f"{wrong}: is a")


def test_lock_rejects_non_regular_file_without_writing(wrong):
    with pytest.raises(IrregularFileError, match="must be a regular file"):
        FileLock(wrong)


def test_device_file_is_rejected():
    with pytest.raises(IrregularFileError, match="/dev/zero: is a device, and must be a regular file"):
        read_regular(Path("/dev/zero"))


def test_user_link_is_read_unless_it_points_to_device(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert read_regular(tmp_path / "link", follow=True) == b"content"
    with pytest.raises(IrregularFileError, match="is a device"):
        read_regular(tmp_path / "zero", follow=True)


def test_hard_link_is_read_but_not_written(tmp_path):
    (tmp_path / "precious").write_bytes(b"keep")
    os.link(tmp_path / "precious", tmp_path / "lock")
    assert read_regular(tmp_path / "lock") == b"keep"
    with pytest.raises(IrregularFileError, match="lock: has a second name"):
        FileLock(tmp_path / "lock")
    assert (tmp_path / "precious").read_bytes() == b"keep"


def test_other_errors_are_unchanged(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "gone")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        read_regular(tmp_path / "file" / "inside")


def test_linked_folder_is_not_cleaned_or_removed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".precious.1.tmp").write_text("keep")
    (tmp_path / "pool").symlink_to("elsewhere")
    for act in (remove_leftovers, discard, make_folder):
        with pytest.raises(IrregularFileError, match="pool: is a link, and must be a folder"):
            act(tmp_path / "pool")
    assert os.listdir(elsewhere) == [".precious.1.tmp"]


def test_linked_leftover_is_removed_without_its_target(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / ".a.1.tmp").symlink_to("precious")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["precious"]


def test_sparse_file_is_rejected_by_size(tmp_path):
    """It uses no disk space, but reading it would fill memory."""
    with (tmp_path / "config.yaml").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(IrregularFileError, match=r"config\.yaml: has 8796093022208 bytes, and at most 16777216 are"):
        read_regular_text(tmp_path / "config.yaml")
    with pytest.raises(OSError, match="has 8796093022208 bytes, which do not fit into memory"):
        read_regular(tmp_path / "config.yaml")


def test_text_and_bytes_replace_previous_content(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "räder")
    assert path.read_bytes() == "räder".encode()
    write_atomically(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert os.listdir(tmp_path) == ["a.json"]


def test_crash_before_last_step_keeps_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomically(path, "old")

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_written_file_is_readable_by_others(tmp_path):
    write_atomically(tmp_path / "a", b"")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_folder_appears_complete_and_replaces_old_one(tmp_path):
    publish_folder(tmp_path / "state", {"a": b"1", "b": b"2"})
    publish_folder(tmp_path / "state", {"a": b"3"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == {"a": b"3"}
    assert os.listdir(tmp_path) == ["state"]


def test_unfinished_folder_does_not_appear(tmp_path, monkeypatch):
    publish_folder(tmp_path / "state", {"a": b"1"})
    monkeypatch.setattr("sparring.configs.core.files.Path.rename", lambda *_: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        publish_folder(tmp_path / "other", {"a": b"2"})
    assert os.listdir(tmp_path) == ["state"]
