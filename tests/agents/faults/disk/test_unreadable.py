"""Unreadable files may still be valid: they are not renamed, replaced or treated as damaged."""

import errno
import os

import pytest

from sparring.agents.run import states
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.states import StateError, StateFolder
from sparring.configs.core import manifest
from sparring.configs.core.manifest import ManifestError, repair_manifest, write_listed
from sparring.curriculum import pool
from sparring.curriculum.league import file
from sparring.curriculum.league.file import LeagueError, LeagueFile
from sparring.curriculum.pool import Pool, PoolError
from tests.curriculum.league.small_league import small_league


def unreadable(*_, **__):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", [states.STATE, states.MANIFEST])
def test_unreadable_state_is_rejected_and_kept(tmp_path, monkeypatch, name):
    folder = StateFolder(tmp_path, 1, alert=pytest.fail)
    folder.publish(3, {"n": 3}, {"update": 3})
    before, read = names(tmp_path), states.read_regular
    with monkeypatch.context() as patch:
        patch.setattr(states, "read_regular", lambda path, **_: unreadable() if path.name == name else read(path))
        with pytest.raises(
            StateError, match=rf"{name}: cannot be read \(Input/output error\); make it readable, or remove"
        ):
            folder.latest()
    assert names(tmp_path) == before
    assert folder.latest().content == {"n": 3}


def test_unreadable_state_prevents_snapshot_cleanup(tmp_path, monkeypatch):
    """The cleanup would delete snapshots that this state needs."""
    folder = StateFolder(tmp_path, 2, alert=pytest.fail)
    folder.publish(3, {}, {"update": 3, "pool": ["snapshot_000001"]})
    monkeypatch.setattr(states, "read_regular", unreadable)
    with pytest.raises(StateError, match="cannot be read"):
        folder.summaries()


def test_unreadable_policy_manifest_is_not_rebuilt(tmp_path, monkeypatch):
    write_listed(tmp_path / "final.pt", b"policy")
    before = (tmp_path / manifest.MANIFEST).read_bytes()
    monkeypatch.setattr(manifest, "read_json", unreadable)
    with pytest.raises(ManifestError, match=r"cannot be read \(Input/output error\)"):
        repair_manifest(tmp_path, {})
    assert names(tmp_path) == ["final.pt", "manifest.json"]
    assert (tmp_path / manifest.MANIFEST).read_bytes() == before


def test_unreadable_index_and_league_are_not_set_aside(tmp_path, monkeypatch):
    Pool(tmp_path, 1, shape={}).restore([pool.Snapshot("snapshot_000001", 1, "0" * 64)])
    league = LeagueFile(tmp_path)
    league.restore(small_league())
    before = names(tmp_path)
    monkeypatch.setattr(pool, "read_json", unreadable)
    monkeypatch.setattr(file, "read_json", unreadable)
    with pytest.raises(PoolError, match="cannot be read"):
        Pool.put_aside_damaged(tmp_path)
    with pytest.raises(LeagueError, match="cannot be read"):
        league.put_aside_damaged()
    assert names(tmp_path) == before


def test_leftover_folder_of_killed_start_is_removed(tmp_path):
    (tmp_path / ".mine.0123.tmp").mkdir()
    (tmp_path / ".other.0123.tmp").mkdir()
    RunFolder.create(tmp_path, "mine").clean()
    assert names(tmp_path) == [".other.0123.tmp", "mine", "mine/lock"]
