"""TFRecord framing: where the records of an event file lie, and whether their checksums hold.

A record is length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C of the data (4), little-endian.
Source: tensorflow/core/lib/io/record_writer.h. A bad length makes everything behind it unreachable; bad data costs
that record only. A record is a short head and blocks of 256 bytes, and those of all records are reduced at once, so
that a record of megabytes costs no more than as many bytes in small ones. The state behind n bytes b is
XOR_j T[n-1-j][b_j] from a state of 0, where T[k][b] is the effect of byte b followed by k zero bytes. Zero bytes before
them have no effect, and a state before them adds (XOR) what it would be behind n zero bytes.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

POLYNOMIAL = 0x82F63B78
BLOCK, PADDING = 256, 8
"""Bytes of a block; heads are filled up to a multiple of `PADDING`, so that few lengths are left."""
CHUNK = 1 << 14
"""Blocks per step, so that their bytes stay in the cache."""
LONGEST = 1 << 26
"""Bytes of one record that are read at most."""
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
    if (lengths > LONGEST).any():
        damage.append(f"{(lengths > LONGEST).sum()} records have more than {LONGEST} bytes; they are left out")
        starts, lengths = starts[lengths <= LONGEST], lengths[lengths <= LONGEST]
    whole = checksums(data, starts, lengths) == _stored(data, starts + lengths)
    if not whole.all():
        where = int(starts[np.argmin(whole)])
        damage.append(f"{(~whole).sum()} records have a wrong checksum, the first at byte {where}; they are left out")
    return starts[whole], lengths[whole], damage


def checksums(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the masked CRC-32C of each stretch of `data`, uint32 [R]."""
    head, blocks = lengths % BLOCK, lengths // BLOCK
    state = _initial()[head] ^ _effects(data, starts, head)
    owner, first = np.repeat(np.arange(len(starts)), blocks), np.cumsum(blocks) - blocks
    at = (starts + head)[owner] + (np.arange(len(owner)) - first[owner]) * BLOCK
    effects = _effects(data, at, np.full(len(owner), BLOCK))
    members = np.arange(len(starts))
    for number in range(int(blocks.max(initial=0))):
        members = members[blocks[members] > number]
        state[members] = _behind_block(state[members]) ^ effects[first[members] + number]
    found = ~state
    return ((found >> np.uint32(15)) | (found << np.uint32(17))) + np.uint32(0xA282EAD8)


def rows_at(data: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    """Return the `length` bytes from each start, uint8 [R, length]."""
    if not length:
        return np.zeros((len(starts), 0), np.uint8)
    return sliding_window_view(data, length)[starts]


def _walk(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Follow the lengths; return starts, lengths and the end of the last whole record."""
    raw, size, read = data.data, len(data), struct.Struct("<Q").unpack_from
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


def _effects(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the state from 0 behind each stretch of at most `BLOCK` bytes, uint32 [R]."""
    tables, state = _tables(), np.zeros(len(starts), np.uint32)
    filled = -(-sizes // PADDING) * PADDING
    for width in np.unique(filled[filled > 0]):
        same = np.flatnonzero(filled == width)
        for begin in range(0, len(same), CHUNK):
            part = same[begin : begin + CHUNK]
            place = (starts[part] + sizes[part] - width)[:, None] + np.arange(width)
            rows = data[np.maximum(place, 0)]
            rows[place < starts[part][:, None]] = 0
            effect = np.zeros(len(part), np.uint32)
            for j, column in enumerate(np.ascontiguousarray(rows.T)):
                effect ^= tables[width - 1 - j][column]
            state[part] = effect
    return state


def _behind_block(state: np.ndarray) -> np.ndarray:
    """Return the states behind a block of zero bytes, uint32 [R]."""
    moved = np.zeros_like(state)
    for j in range(4):
        moved ^= _tables()[BLOCK - 1 - j][(state >> np.uint32(8 * j)) & np.uint32(0xFF)]
    return moved


@cache
def _initial() -> np.ndarray:
    """Return the initial state, of ones, behind 0 to `BLOCK` - 1 zero bytes, uint32 [BLOCK]."""
    states = [np.uint32(0xFFFFFFFF)]
    for _ in range(BLOCK - 1):
        states.append((states[-1] >> np.uint32(8)) ^ _tables()[0][states[-1] & np.uint32(0xFF)])
    return np.array(states, np.uint32)


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
