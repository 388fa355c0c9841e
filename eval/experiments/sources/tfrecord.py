"""TFRecord framing: where the records of an event file lie, and whether their checksums hold.

A record is length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C of the data (4), little-endian.
Source: tensorflow/core/lib/io/record_writer.h. A bad length makes everything behind it unreachable; bad data costs
that record only. The checksum runs over all records of one length at once: for block bytes b_0 .. b_{n-1} and state s
(its low byte first), crc = XOR_j T[n-1-j][b_j ^ s_j], where T[k][b] is the effect of byte b followed by k zero bytes.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

POLYNOMIAL = 0x82F63B78
BLOCK = 256
"""Bytes folded into the state at once."""
CHUNK = 1 << 14
"""Records per step, so that their bytes stay in the cache."""
HEADER, FOOTER = 12, 4


def find_records(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return starts and lengths of the data of all records that are whole, int64 [R] each, and the damage.

    `data` are the bytes of a file, uint8. Damage is a list of texts without the file's name.
    """
    starts, lengths, end = _walk(data)
    damage = []
    good = checksums(data, starts - HEADER, np.full(len(starts), 8)) == _stored(data, starts - 4)
    if not good.all():
        first = int(np.argmin(good))
        end = int(starts[first]) - HEADER
        starts, lengths = starts[:first], lengths[:first]
        damage.append(f"byte {end}: the checksum of a record's length is wrong; the rest of the file is not read")
    elif end < len(data):
        damage.append(f"byte {end}: the last record is cut off; it is left out")
    whole = checksums(data, starts, lengths) == _stored(data, starts + lengths)
    if not whole.all():
        where = int(starts[np.argmin(whole)])
        damage.append(f"{(~whole).sum()} records have a wrong checksum, the first at byte {where}; they are left out")
    return starts[whole], lengths[whole], damage


def checksums(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the masked CRC-32C of each stretch of `data`, uint32 [R]."""
    found = np.zeros(len(starts), np.uint32)
    for length in np.unique(lengths):
        members = np.flatnonzero(lengths == length)
        for begin in range(0, len(members), CHUNK):
            part = members[begin : begin + CHUNK]
            found[part] = _crc32c(rows_at(data, starts[part], int(length)))
    return ((found >> np.uint32(15)) | (found << np.uint32(17))) + np.uint32(0xA282EAD8)


def rows_at(data: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    """Return the `length` bytes from each start, uint8 [R, length]."""
    if not length:
        return np.zeros((len(starts), 0), np.uint8)
    return sliding_window_view(data, length)[starts]


def _walk(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Follow the lengths; return starts, lengths and the end of the last whole record."""
    raw, size, read = data.tobytes(), len(data), struct.Struct("<Q").unpack_from
    starts, lengths, at = [], [], 0
    while at + HEADER + FOOTER <= size:
        (length,) = read(raw, at)
        if length > size - at - HEADER - FOOTER:
            break
        starts.append(at + HEADER)
        lengths.append(length)
        at += HEADER + length + FOOTER
    return np.array(starts, np.int64), np.array(lengths, np.int64), at


def _stored(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    if not len(starts):
        return np.zeros(0, np.uint32)
    return rows_at(data, starts, 4).view("<u4")[:, 0]


def _crc32c(rows: np.ndarray) -> np.ndarray:
    """Return the CRC-32C of each row of bytes, uint32 [R]."""
    tables, width = _tables(), rows.shape[1]
    columns = np.ascontiguousarray(rows.T)
    state = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for begin in range(0, width, BLOCK):
        size = min(BLOCK, width - begin)
        folded = state >> np.uint32(8 * size) if size < 4 else np.zeros_like(state)
        for j in range(size):
            byte = columns[begin + j]
            if j < 4:
                byte = byte ^ (state >> np.uint32(8 * j)).astype(np.uint8)
            folded ^= tables[size - 1 - j][byte]
        state = folded
    return ~state


@cache
def _tables() -> np.ndarray:
    """Return T[k][b], uint32 [BLOCK, 256]."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & np.uint32(1), (first >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), first >> np.uint32(1))
    tables = [first]
    for _ in range(BLOCK - 1):
        tables.append((tables[-1] >> np.uint32(8)) ^ first[tables[-1] & np.uint32(0xFF)])
    return np.stack(tables)
