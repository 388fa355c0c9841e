"""The snapshot pool: files on disk, eviction, rejected content, and reopening."""

import json
from pathlib import Path

import pytest
import torch

import sparring.curriculum.pool
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.core.files import IrregularFileError
from sparring.configs.core.tensor_file import pack, sha256
from sparring.curriculum.pool import Pool, PoolError, read_rows

SHAPE = {"obs_dim": 59, "hidden": 4, "blocks": 0}


def weights(value):
    return {"actor.weight": torch.full((4, 59), float(value)), "log_std": torch.full((2,), -1.0)}


def filled(folder, snapshots, capacity=30):
    pool = Pool(folder, capacity, shape=SHAPE)
    for number in range(1, snapshots + 1):
        pool.add(number * 50, weights(number))
    return pool


def names(pool):
    return [snapshot.name for snapshot in pool.snapshots]


def test_snapshot_file_is_named_by_update_and_round_trips(tmp_path):
    pool = Pool(tmp_path, 3, shape=SHAPE)
    assert pool.add(150, weights(7)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", "snapshot_000150.pt"]
    loaded = pool.load("snapshot_000150")
    assert torch.equal(loaded["actor.weight"], weights(7)["actor.weight"])
    assert pool["snapshot_000150"].update == 150


def test_later_training_does_not_change_snapshot(tmp_path):
    pool, learner = Pool(tmp_path, 3, shape=SHAPE), weights(1)
    pool.add(50, learner)
    learner["actor.weight"].zero_()
    assert pool.load("snapshot_000050")["actor.weight"].sum() == 4 * 59


def test_oldest_snapshot_is_evicted_first(tmp_path):
    pool = filled(tmp_path, 3, capacity=2)
    assert names(pool) == ["snapshot_000100", "snapshot_000150"]
    assert pool.add(200, weights(4)) == ["snapshot_000100"]


def test_unneeded_files_are_deleted(tmp_path):
    pool = filled(tmp_path, 4, capacity=1)
    pool.delete_unused(["snapshot_000100"])
    assert sorted(path.stem for path in tmp_path.glob("*.pt")) == ["snapshot_000100", "snapshot_000200"]


def test_folder_replaced_by_link_is_neither_cleaned_nor_written(tmp_path):
    pool = filled(tmp_path / "pool", 1, capacity=1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "snapshot_000001.pt").write_text("keep")
    (tmp_path / "pool").rename(tmp_path / "aside")
    (tmp_path / "pool").symlink_to(elsewhere)
    with pytest.raises(IrregularFileError, match="is a link"):
        pool.delete_unused()
    with pytest.raises(IrregularFileError, match="is a link"):
        pool.add(900, weights(9))
    assert [path.name for path in elsewhere.iterdir()] == ["snapshot_000001.pt"]


def test_pool_restores_earlier_state(tmp_path):
    pool = filled(tmp_path, 2, capacity=2)
    earlier = pool.rows()
    pool.add(150, weights(3))
    pool.restore(read_rows(json.loads(json.dumps(earlier))))
    assert names(pool) == ["snapshot_000050", "snapshot_000100"]
    assert Pool(tmp_path, 2, shape=SHAPE).rows() == earlier
    assert torch.equal(pool.load("snapshot_000050")["actor.weight"], weights(1)["actor.weight"])


def test_pool_survives_reopening(tmp_path):
    pool = filled(tmp_path, 2)
    again = Pool(tmp_path, 30, shape=SHAPE)
    assert again.snapshots == pool.snapshots
    assert torch.equal(again.load("snapshot_000100")["actor.weight"], weights(2)["actor.weight"])


@pytest.mark.parametrize(("key", "value"), [("obs_dim", 46), ("hidden", 8), ("blocks", 2)])
def test_snapshot_of_other_shape_or_obs_dim_is_rejected_by_name(tmp_path, key, value):
    filled(tmp_path, 1)
    other = Pool(tmp_path, 30, shape=SHAPE | {key: value})
    with pytest.raises(PoolError, match=rf"snapshot_000050\.pt: {key}={SHAPE[key]}, this run has {value}"):
        other.load("snapshot_000050")


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def take_the_next_update(path):
    """Write a valid file of the same network."""
    path.write_bytes(path.with_name("snapshot_000100.pt").read_bytes())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip_a_bit, "is damaged"),
        (take_the_next_update, r"is damaged \(its SHA-256"),
        (Path.unlink, r"is listed in index\.json but missing"),
    ],
)
def test_replaced_snapshot_is_rejected_by_name(tmp_path, damage, message):
    pool = filled(tmp_path, 2)
    damage(pool.path("snapshot_000050"))
    with pytest.raises(PoolError, match=rf"snapshot_000050\.pt: {message}"):
        pool.load("snapshot_000050")


def test_unreadable_index_is_named(tmp_path):
    (tmp_path / "index.json").write_text("[{")
    with pytest.raises(PoolError, match=r"index\.json: is not a pool index"):
        Pool(tmp_path, 3, shape=SHAPE)


def test_equal_histories_write_equal_bytes(tmp_path):
    for name in ("a", "b"):
        filled(tmp_path / name, 2)
    for file in ("index.json", "snapshot_000050.pt"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_bad_options_and_names_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"self_play\.pool_size=0 is below 1"):
        Pool(tmp_path, 0, shape=SHAPE)
    pool = filled(tmp_path, 1)
    with pytest.raises(ValueError, match="update=50 is not after"):
        pool.add(50, weights(1))
    with pytest.raises(UnknownNameError, match="did you mean 'snapshot_000050'"):
        pool.load("snapshot_000051")


def test_index_is_human_readable(tmp_path):
    filled(tmp_path, 1)
    row = json.loads((tmp_path / "index.json").read_text())[0]
    assert row.keys() == {"name", "update", "sha256"}


def test_old_index_with_ratings_and_results_is_read(tmp_path):
    """The index is from before the league stored ratings."""
    pool = filled(tmp_path, 1)
    rows = [row | {"rating": 1010.5, "wins": 1, "draws": 2, "losses": 3} for row in pool.rows()]
    (tmp_path / "index.json").write_text(json.dumps(rows))
    assert Pool(tmp_path, 3, shape=SHAPE).rows() == pool.rows()


def test_full_disk_between_snapshot_and_index_keeps_pool(tmp_path, monkeypatch):
    """Otherwise an unrated snapshot could be drawn, and an evicted one would be missing."""
    pool = filled(tmp_path, 2, capacity=2)
    before, write = pool.rows(), sparring.curriculum.pool.write_atomically

    def full(path, data):
        if path.name == "index.json":
            raise OSError("no room")
        write(path, data)

    with monkeypatch.context() as disk:
        disk.setattr(sparring.curriculum.pool, "write_atomically", full)
        with pytest.raises(OSError, match="no room"):
            pool.add(500, weights(3))
    assert pool.rows() == before
    assert pool.add(500, weights(3)) == ["snapshot_000050"]


@pytest.mark.parametrize("content", [{}, {"weights": [1]}, {"weights": {"w": 1}}])
def test_snapshot_without_weights_is_named(tmp_path, content):
    pool = filled(tmp_path, 1)
    data = pack({"shape": SHAPE} | content)
    pool.path("snapshot_000050").write_bytes(data)
    pool.restore(read_rows([row | {"sha256": sha256(data)} for row in pool.rows()]))
    with pytest.raises(PoolError, match=r"snapshot_000050\.pt: weights"):
        pool.load("snapshot_000050")
