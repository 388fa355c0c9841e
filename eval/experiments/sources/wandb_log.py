"""Framing of a W&B transaction log (`run-ID.wandb`), and the protobuf messages in it.

After a header of 7 bytes (":W&B", 0xBEE1, version) the file is a LevelDB log: blocks of 32 KiB with chunks of CRC-32
(4 bytes), length (2), type (1) and data; a record is one full chunk, or a first, middle and last ones. The checksum
covers type and data. A damaged chunk costs the rest of its block. Format: LevelDB doc/log_format.md; the file's own
checksum is the CRC-32 of zlib.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from sparring.configs.core.errors import InputError

MAGIC = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
BLOCK, HEADER = 1 << 15, struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
CUT_OFF = "the last record is cut off; it is left out"


class WandBMissingError(InputError):
    """The package wandb is not installed; its files cannot be read."""


def wandb_module(name: str) -> Any:
    """Import a module of the package wandb. Raises `WandBMissingError` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise WandBMissingError(f'{name} is needed to read runs of W&B: pip install -e ".[wandb]"') from error


def records(data: bytes, damage: list[str]) -> Iterator[Any]:
    """Yield the `Record` messages of a file's bytes; `damage` gets a line for each stretch that cannot be read."""
    message = wandb_module("wandb.proto.wandb_internal_pb2").Record
    decode_error = wandb_module("google.protobuf.message").DecodeError
    for at, payload in _payloads(data, damage):
        try:
            yield message.FromString(payload)
        except decode_error:
            damage.append(f"byte {at}: is no record of W&B; it is left out")


def _payloads(data: bytes, damage: list[str]) -> Iterator[tuple[int, bytes]]:
    """Yield place and bytes of each whole record."""
    if data[: len(MAGIC)] != MAGIC:
        damage.append(CUT_OFF if MAGIC.startswith(data) else "byte 0: is no W&B file, or of another version")
        return
    at = len(MAGIC)
    parts: list[bytes] = []
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER.size:
            at += left  # the writer fills up such a rest with zeros
            continue
        if at + HEADER.size > len(data):
            damage.append(f"byte {at}: {CUT_OFF}")
            return
        checksum, length, kind = HEADER.unpack_from(data, at)
        body, start = data[at + HEADER.size : at + HEADER.size + length], at
        if length <= left - HEADER.size and len(body) < length:
            damage.append(f"byte {at}: {CUT_OFF}")
            return
        at += HEADER.size + length
        if length > left - HEADER.size or zlib.crc32(body, zlib.crc32(bytes([kind]))) != checksum:
            damage.append(f"byte {start}: a checksum is wrong; the rest of its block is not read")
            at, parts = start + left, []
            continue
        if kind in (FULL, FIRST):
            parts = []
        elif not parts:
            continue  # the rest of a record whose beginning was damaged
        parts.append(body)
        if kind in (FULL, LAST):
            yield start, b"".join(parts)
            parts = []
    if parts:
        damage.append(f"byte {at}: {CUT_OFF}")
