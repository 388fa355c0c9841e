"""The self-play pool: frozen copies of the learner as opponents, stored as files that outlive the run.

Each snapshot is one file of weights named by its update, `snapshot_000150.pt`, written atomically; `index.json` beside
them lists the members of the pool. The league (`league.py`) keeps ratings and results. When the pool is full, the
oldest snapshot is evicted, or the weakest by rating. The newest always stays: it is the best test of whether the
learner still improves. The file of an evicted snapshot stays until `delete_unused`, because a run that resumes from an
earlier state may need it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from typing_extensions import TypedDict

from sparring.configs.core.archive import TensorFileError
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import check_folder, make_folder, read_json, read_regular, write_atomically
from sparring.configs.core.tensor_file import Tensors, pack, sha256, unpack
from sparring.configs.core.typed import Count, Digest, Text, naming, read, require, shown

INDEX = "index.json"
SNAPSHOT, EXPLOITER = "snapshot", "exploiter"
"""Kinds of members, the first words of their names."""
FIX = "restore it from a copy, or remove it to train on without it"


class PoolError(InputError):
    """A snapshot that cannot be used; the message is one line naming the file, what is wrong and what to do."""


class SnapshotRow(TypedDict):
    """A row of the index; further keys of older versions are ignored."""

    name: Text
    update: Count
    sha256: Digest


class SnapshotFile(TypedDict):
    """Content of a snapshot's file."""

    shape: dict[str, Any]
    weights: Tensors


@dataclass
class Snapshot:
    """One frozen policy, the update it was taken at, and the digest of its file."""

    name: str
    update: int
    sha256: str

    @property
    def exploiter(self) -> bool:
        """Whether it was trained against the learner, not taken from it."""
        return self.name.startswith(EXPLOITER)


def read_rows(rows: Any) -> list[Snapshot]:
    """Return the snapshots in the rows of an index; raises `ContentError` for rows that no pool wrote."""
    checked = read(list[SnapshotRow], rows)
    for number, row in enumerate(checked):
        name, update = row["name"], row["update"]
        names = [f"{kind}_{update:06d}" for kind in (SNAPSHOT, EXPLOITER)]
        require(name in names, f"{number}.name={name!r}: must be {names[0]}, after its update")
        before = [row["update"] for row in checked[:number] if row["name"].startswith(name.partition("_")[0])]
        require(not before or update > before[-1], f"{number}.update={update}: must be later than in the one before")
    return [Snapshot(**row) for row in checked]


class Pool:
    """At most `capacity` snapshots of one network `shape` (plain data, with its obs_dim) in `folder`.

    Opening a folder that already holds an index continues it. Raises `ValueError` for a capacity below 1 and
    `PoolError` for an index that cannot be read.
    """

    def __init__(self, folder: Path, capacity: int, *, shape: Mapping[str, Any]) -> None:
        if capacity < 1:
            raise ValueError(f"self_play.pool_size={capacity} is below 1; give the number of snapshots to keep")
        self.folder = folder
        self.capacity = capacity
        self._shape = json.loads(json.dumps(dict(shape)))
        self._snapshots: list[Snapshot] = []
        make_folder(folder)
        if (folder / INDEX).exists():
            self._snapshots = _read_index(folder / INDEX)

    @property
    def exploiters(self) -> list[str]:
        """Names of the exploiters, which are never evicted, oldest first."""
        return [snapshot.name for snapshot in self._snapshots if snapshot.exploiter]

    @property
    def newest(self) -> str:
        """Name of the newest snapshot of the learner; empty without one."""
        return next((snapshot.name for snapshot in reversed(self._snapshots) if not snapshot.exploiter), "")

    @property
    def shape(self) -> dict[str, Any]:
        """The shape of the networks."""
        return dict(self._shape)

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots in the pool, oldest first."""
        return list(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)

    def __getitem__(self, name: str) -> Snapshot:
        """Return the record of one snapshot; raises `UnknownNameError` with the pool's names."""
        names = [snapshot.name for snapshot in self._snapshots]
        return self._snapshots[names.index(choose("snapshot", name, names))]

    def add(self, update: int, weights: Mapping[str, torch.Tensor], kind: str = SNAPSHOT) -> list[str]:
        """Freeze `weights` as the newest of its kind, `snapshot_<update>`; return the names of evicted snapshots.

        Raises `ValueError` unless `update` is later than the newest of its kind, and `OSError` if the file cannot be
        written. The pool is then unchanged.
        """
        earlier = [snapshot.update for snapshot in self._snapshots if snapshot.name.startswith(kind)]
        if earlier and update <= earlier[-1]:
            raise ValueError(f"update={update} is not after the newest {kind}'s, {earlier[-1]}")
        data = pack({"shape": self._shape, "weights": weights})
        snapshot = Snapshot(f"{kind}_{update:06d}", update, sha256(data))
        before = self.snapshots
        try:
            check_folder(self.folder)
            write_atomically(self.path(snapshot.name), data)
            self._snapshots.append(snapshot)
            return self._evict()
        except OSError:
            self._snapshots = before
            raise

    def load(self, name: str, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        """Read the weights of one snapshot onto `device`.

        Raises `PoolError` if the file is missing or damaged, or was made by a network of another shape or obs_dim.
        """
        snapshot, path = self[name], self.path(name)
        try:
            data = read_regular(path)
            if sha256(data) != snapshot.sha256:
                raise PoolError(f"{path}: is damaged (its SHA-256 is not the one in {INDEX}); {FIX}")
            content = unpack(data, device)
        except FileNotFoundError as error:
            raise PoolError(f"{path}: is listed in {INDEX} but missing; restore it or remove the pool") from error
        except OSError as error:
            raise PoolError(f"{path}: cannot be read ({error.strerror})") from error
        except TensorFileError as error:
            raise PoolError(f"{path}: {error}") from error
        with naming(path, PoolError, "restore it or remove the pool"):
            snapshot_file = read(SnapshotFile, content)
        self._check_shape(path, snapshot_file["shape"])
        return snapshot_file["weights"]

    def rows(self) -> list[dict[str, Any]]:
        """Return the index as plain data, for `restore`."""
        return [asdict(snapshot) for snapshot in self._snapshots]

    def lost(
        self,
        snapshots: Sequence[Snapshot],
        stored: Mapping[str, Mapping[str, torch.Tensor]],
        alert: Callable[[str], None],
    ) -> set[str]:
        """Verify the files of `snapshots` and return the names of those missing, with a line to `alert` for each.

        A missing or damaged file whose exact weights are in `stored`, by name, is written again. Raises `PoolError`
        for any other damaged file, and for one that the disk cannot read.
        """
        gone = set()
        for snapshot in snapshots:
            path, wrong, weights = self.path(snapshot.name), "is damaged", stored.get(snapshot.name)
            try:
                if sha256(read_regular(path)) == snapshot.sha256:
                    continue
            except FileNotFoundError:
                wrong = "is missing"
            except OSError as error:
                raise PoolError(f"{path}: cannot be read ({error.strerror})") from error
            data = pack({"shape": self._shape, "weights": weights}) if weights else b""
            if sha256(data) == snapshot.sha256:
                write_atomically(path, data)
                alert(f"{path}: {wrong}; it is written again from the training state")
            elif path.exists():
                raise PoolError(f"{path}: {wrong} (its SHA-256 is not the one in the training state); {FIX}")
            else:
                gone.add(snapshot.name)
                alert(f"{path}: {wrong}; {snapshot.name} leaves the pool, and training goes on without it")
        return gone

    def restore(self, snapshots: Sequence[Snapshot]) -> None:
        """Make `snapshots` the pool's; if the index cannot be written now, the next snapshot writes it.

        A pool that has never had one leaves no file.
        """
        self._snapshots = list(snapshots)
        if not snapshots and not (self.folder / INDEX).exists():
            return
        with suppress(OSError):
            self._write_index()

    def delete_unused(self, needed: Iterable[str] = ()) -> None:
        """Delete the files of snapshots that are neither in the pool nor `needed`; raises for a link in place of it."""
        check_folder(self.folder)
        needed_paths = {self.path(name) for name in [*needed, *(snapshot.name for snapshot in self._snapshots)]}
        files = [path for kind in (SNAPSHOT, EXPLOITER) for path in self.folder.glob(f"{kind}_*.pt")]
        for path in set(files) - needed_paths:
            path.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of the snapshot called `name`."""
        return self.folder / f"{name}.pt"

    def _evict(self) -> list[str]:
        """Remove the oldest snapshots beyond the capacity; the files stay until `delete_unused`."""
        snapshots = [snapshot for snapshot in self._snapshots if not snapshot.exploiter]
        leaving = snapshots[: max(len(snapshots) - self.capacity, 0)]
        self._snapshots = [snapshot for snapshot in self._snapshots if snapshot not in leaving]
        self._write_index()
        return [snapshot.name for snapshot in leaving]

    def _check_shape(self, path: Path, shape: Mapping[str, Any]) -> None:
        """Raise `PoolError` with the first key that differs: obs_dim, or a size of the network."""
        for key in sorted(set(shape) | set(self._shape)):
            stored, expected = shape.get(key), self._shape.get(key)
            if type(stored) is not type(expected) or stored != expected:
                raise PoolError(f"{path}: {key}={shown(stored)}, this run has {expected}; use a pool of the same shape")

    @staticmethod
    def put_aside_damaged(folder: Path) -> str:
        """Rename an index that cannot be used to `.damaged`; return the problem and the new name, or "".

        Raises `PoolError` for one that the disk does not give, since it may be whole.
        """
        index = folder / INDEX
        if not index.exists():
            return ""
        try:
            _read_index(index)
            return ""
        except PoolError as error:
            if isinstance(error.__cause__, OSError):
                raise
            aside = index.with_name(INDEX + ".damaged")
            index.replace(aside)
            return f"{index}: is not a pool index; it is kept as {aside.name} and written again from the training state"

    def _write_index(self) -> None:
        write_atomically(self.folder / INDEX, json.dumps(self.rows(), indent=1) + "\n")


def _read_index(path: Path) -> list[Snapshot]:
    try:
        return read_rows(read_json(path))
    except (ValueError, RecursionError) as error:
        raise PoolError(
            f"{path}: is not a pool index ({error}); remove it, a resumed run rewrites it from its state"
        ) from error
    except OSError as error:
        raise PoolError(f"{path}: cannot be read ({error.strerror})") from error
