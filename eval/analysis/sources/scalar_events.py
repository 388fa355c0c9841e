"""Scalars of an event file, as arrays.

Nearly all records are what `SummaryWriter.add_scalar` writes, and records of one metric differ in wall time, step and
value only. Those three lie at fixed places: wall time after the first byte, then the step, a varint; the value at the
end. So one record of each such group is parsed by the protobuf classes of tensorboard and written again; if that gives
the same bytes, the others of the group are read by numpy. All other records are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparring.eval.analysis.sources.tfrecord import rows_at

STEP_AT = 9
"""Place of the step's tag, behind the wall time: tag byte 0x09 and 8 bytes."""
LONGEST_VARINT = 10
CHUNK = 1 << 22
"""Bytes of records decoded at once."""
TEXT_SUFFIX = "/text_summary"


@dataclass
class ScalarEvents:
    """Scalars of V values in the order of the file: number of the record, tag, step, wall time in seconds, value."""

    order: list[np.ndarray] = field(default_factory=list)
    tag: list[np.ndarray] = field(default_factory=list)
    step: list[np.ndarray] = field(default_factory=list)
    wall: list[np.ndarray] = field(default_factory=list)
    value: list[np.ndarray] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    """Tag to its number in `tag`."""
    files: list[tuple[int, str]] = field(default_factory=list)
    """First record and name of each file."""
    starts: list[tuple[int, int]] = field(default_factory=list)
    """Records at which a writer began, and the step from which it hides earlier records."""
    texts: list[dict[str, Any]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    def add(self, order: np.ndarray, tag: str, step: np.ndarray, wall: np.ndarray, value: np.ndarray) -> None:
        """Append values of one tag."""
        self.order.append(order)
        self.tag.append(np.full(len(order), self.names.setdefault(tag, len(self.names)), np.int32))
        self.step.append(step)
        self.wall.append(wall)
        self.value.append(value)


def decode(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, first: int, into: ScalarEvents) -> None:
    """Add the records at `starts` of a file's bytes to `into`; record i gets the number `first` + i."""
    left = np.ones(len(starts), bool)
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        if length < STEP_AT + LONGEST_VARINT + 8:
            continue
        step = max(CHUNK // int(length), 1)
        for begin in range(0, len(same), step):
            part = same[begin : begin + step]
            left[part] = ~_decode_alike(rows_at(data, starts[part], int(length)), part + first, into)
    for index in np.flatnonzero(left):
        at = int(starts[index])
        _decode_one(data[at : at + int(lengths[index])].tobytes(), int(index) + first, into)


def _decode_alike(rows: np.ndarray, order: np.ndarray, into: ScalarEvents) -> np.ndarray:
    """Add the rows, uint8 [R, L], that can be read as arrays; return which, bool [R]."""
    done = np.zeros(len(rows), bool)
    size = _varint_size(rows)
    for count in np.unique(size):
        members = np.flatnonzero(size == count)
        middle_at = STEP_AT + 1 + int(count) if count else STEP_AT
        for group in _groups(rows[members, middle_at:-4]):
            these = members[group]
            found = rows[these]
            wall = np.ascontiguousarray(found[:, 1:9]).view("<f8")[:, 0]
            step = _varint(found[:, STEP_AT + 1 : middle_at])
            value = np.ascontiguousarray(found[:, -4:]).view("<f4")[:, 0]
            tag = _tag_of(found[0].tobytes())
            if tag is not None and bool((found[:, 0] == found[0, 0]).all()):
                into.add(order[these], tag, step, wall, value.astype(np.float64))
                done[these] = True
    return done


def _varint_size(rows: np.ndarray) -> np.ndarray:
    """Return the bytes of each row's step, 0 where the step is left out because it is 0; int64 [R]."""
    more = rows[:, STEP_AT + 1 : STEP_AT + 1 + LONGEST_VARINT] >= 0x80
    size = np.argmin(more, axis=1) + 1
    return np.where(rows[:, STEP_AT] == 0x10, size, 0)


def _varint(parts: np.ndarray) -> np.ndarray:
    """Return the numbers of varints of equal size, uint8 [R, size], as int64 [R]."""
    number = np.zeros(len(parts), np.uint64)
    for place in range(parts.shape[1]):
        number |= (parts[:, place] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * place)
    return number.view(np.int64)


def _groups(middles: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices of equal rows of uint8 [R, M]; rows that share a hash but differ come one by one."""
    width = -middles.shape[1] % 8
    words = np.ascontiguousarray(np.pad(middles, ((0, 0), (0, width)))).view("<u8")
    weights = np.random.default_rng(0).integers(1, 2**63, words.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = (words * weights).sum(axis=1, dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(hashes[order])) + 1):
        same = (words[group] == words[group[0]]).all(axis=1)
        yield group[same]
        yield from (index[None] for index in group[~same])


def _tag_of(record: bytes) -> str | None:
    """Return the tag of a record that holds wall time, step and one scalar, in this order, and nothing else."""
    event = _parse(record)
    if event is None or event.WhichOneof("what") != "summary" or len(event.summary.value) != 1:
        return None
    value = event.summary.value[0]
    if value.WhichOneof("value") != "simple_value":
        return None
    plain = type(event)(wall_time=event.wall_time, step=event.step)
    plain.summary.value.add(tag=value.tag, simple_value=value.simple_value)
    return str(value.tag) if plain.SerializeToString(deterministic=True) == record else None


def _parse(record: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    try:
        return Event.FromString(record)
    except DecodeError:
        return None


def _decode_one(record: bytes, number: int, into: ScalarEvents) -> None:
    """Add whatever a record holds: scalars, old or as tensors, texts, or the start of a writer."""
    event = _parse(record)
    if event is None:
        into.damage.append(f"record {number} is no event; it is left out")
        return
    if event.HasField("session_log") and event.session_log.status == event.session_log.START:
        into.starts.append((number, event.step))
    for value in event.summary.value if event.HasField("summary") else ():
        found = _scalar(value)
        if found is not None:
            cell = np.array([number]), value.tag, np.array([event.step]), np.array([event.wall_time]), np.array([found])
            into.add(*cell)
        elif value.HasField("tensor") and value.tensor.string_val:
            text = b"\n".join(value.tensor.string_val).decode(errors="replace")
            into.texts.append(
                {"env_steps": int(event.step), "kind": value.tag.removesuffix(TEXT_SUFFIX), "event": text}
            )


def _scalar(value: Any) -> float | None:
    """Return the number of a summary's value, None if it is no single number."""
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    if not value.HasField("tensor") or value.tensor.string_val or value.tensor.tensor_shape.dim:
        return None
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return float(make_ndarray(value.tensor))
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return None
