"""Random changes of stored content, of its bytes, and of the members of a zip; equal generators give equal changes.

A change of content is named by its kind; `HARMFUL` are those that no reader may accept.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sparring.configs.core.tensor_file import pack

HARMFUL = {"delete", "rename", "retype", "dtype", "shape", "not finite", "negative", "alias", "repeat"}
BOMB = 600_000_000
"""Bytes of a member that has a few megabytes when deflated; more than a case may take."""
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """One change of content: its kind, its place, and the changed content."""

    kind: str
    path: Path
    content: Any
    words: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(map(str, self.path))} {self.words}".strip()


def change(content: Any, rng: random.Random, *, tensors: bool) -> Change:
    """Change one place of `content`; with `tensors` it may become one that holds tensors where it held none."""
    changed = clone(content)
    path = _place(changed, rng)
    parent = at(changed, path[:-1])
    value = parent[path[-1]]
    kinds = [_deleted, _renamed, _replaced, _replaced]
    kinds += [_tensor] * 4 if isinstance(value, torch.Tensor) else []
    kinds += [_number] * 4 if type(value) in (int, float) else []
    kinds += [_aliased] if tensors and isinstance(value, torch.Tensor) else []
    kinds += [_listed] * 2 if isinstance(value, list) and value else []
    kind, words = rng.choice(kinds)(parent, path[-1], value, rng, changed if tensors else None)
    return Change(kind, path, changed, words)


def clone(value: Any) -> Any:
    """Copy nested dicts and lists with their tensors."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clone(item) for item in value]
    return value.clone() if isinstance(value, torch.Tensor) else copy.copy(value)


def at(content: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        content = content[key]
    return content


def leaves(value: Any, path: Path = ()) -> dict[Path, Any]:
    """Return every leaf by its path; empty dicts and lists are leaves."""
    if isinstance(value, dict | list | tuple) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for name, item in items for key, leaf in leaves(item, (*path, name)).items()}
    return {path: value}


def same(one: Any, other: Any) -> bool:
    """Return whether two leaves are equal bit for bit, of one type."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and _bits(one) == _bits(other)
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and not isinstance(one, torch.Tensor) and bool(one == other)


def damage(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Flip, cut, insert or repeat bytes."""
    kind = rng.choice(("flip", "flip", "cut", "insert", "remove", "append", "empty"))
    place = rng.randrange(len(data))
    if kind == "flip":
        return f"flip {place}", data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]
    if kind == "cut":
        return f"cut at {place}", data[:place]
    if kind == "insert":
        return f"insert at {place}", data[:place] + rng.randbytes(rng.randrange(1, 9)) + data[place:]
    if kind == "remove":
        return f"remove at {place}", data[:place] + data[place + rng.randrange(1, 9) :]
    return kind, b"" if kind == "empty" else data + rng.randbytes(rng.randrange(1, 100))


def rezip(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Deflate, drop, rename, repeat, swap or add members; the rest stays stored as it was."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    kind = rng.choice(("deflate all", "deflate one", "drop", "rename", "repeat", "swap", "bomb", "grow"))
    number, other = rng.randrange(len(members)), rng.randrange(len(members))
    name, content = members[number]
    packed = {number} if kind == "deflate one" else set(range(len(members))) if kind == "deflate all" else set()
    if kind == "drop":
        del members[number]
    elif kind == "rename":
        members[number] = (name + "x", content)
    elif kind == "repeat":
        members.append((name, content[::-1]))
    elif kind == "swap":
        members[number], members[other] = (name, members[other][1]), (members[other][0], content)
    elif kind == "bomb":
        members[number] = (name, b"")
    elif kind == "grow":
        members[number] = (name, content + bytes(1000))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for index, (name, content) in enumerate(members):
            method = zipfile.ZIP_DEFLATED if index in packed else zipfile.ZIP_STORED
            if kind == "bomb" and index == number:
                _write_bomb(archive, name)
            else:
                archive.writestr(name, content, method)
    return f"{kind} {name}", out.getvalue()


def _write_bomb(archive: zipfile.ZipFile, name: str) -> None:
    """Append a member of `BOMB` zero bytes; deflating them for every case would take most of the time."""
    info = zipfile.ZipInfo(name)
    info.compress_type, info.file_size, info.header_offset = zipfile.ZIP_DEFLATED, BOMB, archive.start_dir
    packed, info.CRC = _deflated_bomb()
    info.compress_size = len(packed)
    assert archive.fp
    archive.fp.write(info.FileHeader() + packed)
    archive.start_dir = archive.fp.tell()
    archive.filelist.append(info)


@cache
def _deflated_bomb() -> tuple[bytes, int]:
    """Return the deflated zero bytes and the CRC of the whole."""
    packer, crc, zeros = zlib.compressobj(1, wbits=-zlib.MAX_WBITS), 0, bytes(BOMB // 600)
    parts = []
    for _ in range(600):
        parts.append(packer.compress(zeros))
        crc = zlib.crc32(zeros, crc)
    return b"".join([*parts, packer.flush()]), crc


def write(content: Any) -> bytes:
    """Pack as a tensor file; content that `pack` refuses or copies is saved as torch does it, aliases included."""
    try:
        return pack(content) if not _shares(content) else _saved(content)
    except (TypeError, AttributeError):
        return _saved(content)


def to_json(content: Any) -> bytes:
    """Write as JSON, NaN and infinity included."""
    return json.dumps(content).encode()


def _saved(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _shares(content: Any) -> bool:
    places = [leaf.data_ptr() for leaf in leaves(content).values() if isinstance(leaf, torch.Tensor) and leaf.numel()]
    return len(set(places)) < len(places)


def _bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _place(content: Any, rng: random.Random) -> Path:
    """Choose a place by descending; so a section of one key is met as often as one with a thousand."""
    path: Path = ()
    while isinstance(content, dict | list) and content and (not path or rng.random() < 0.9):
        key = rng.choice(list(content)) if isinstance(content, dict) else rng.randrange(len(content))
        path, content = (*path, key), content[key]
    return path


def _deleted(parent: Any, key: Any, value: Any, rng: random.Random, whole: Any) -> tuple[str, str]:
    del parent[key]
    return ("shorter" if isinstance(parent, list) else "delete"), ""


def _renamed(parent: Any, key: Any, value: Any, rng: random.Random, whole: Any) -> tuple[str, str]:
    if isinstance(parent, list):
        return _deleted(parent, key, value, rng, whole)
    del parent[key]
    parent[f"{key}x"] = value
    return "rename", ""


def _replaced(parent: Any, key: Any, value: Any, rng: random.Random, whole: Any) -> tuple[str, str]:
    """Replace a value by one of another type."""
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    values: list[Any] = [None, "text", "", "x" * 5000, "a\nb", 7, 2.5, True, [], {}, [1, 2], {"a": 1}, deep]
    values += [torch.zeros(3), torch.zeros(())] if whole is not None else []
    new = rng.choice([one for one in values if _kind(one) is not _kind(value)])
    parent[key] = new
    return "retype", f"to {str(new)[:30]!r}"


def _kind(value: Any) -> Any:
    return float if type(value) is int else type(value)  # a whole number may stand for a float


def _tensor(parent: Any, key: Any, value: torch.Tensor, rng: random.Random, whole: Any) -> tuple[str, str]:
    makers: list[tuple[str, Callable[[], torch.Tensor]]] = [
        ("dtype", lambda: value.to(rng.choice([t for t in _DTYPES if t != value.dtype]))),
        ("shape", lambda: value.unsqueeze(0)),
        ("shape", lambda: torch.cat([value.flatten(), value.flatten(), value.flatten().new_zeros(1)])),
        ("shape", lambda: value.new_zeros((0, 3))),
    ]
    if value.dim() > 1 and value.shape[0] != value.shape[1]:
        makers.append(("shape", lambda: value.transpose(0, 1).contiguous()))
    if value.is_floating_point() and value.numel():
        makers += [
            ("not finite", lambda: _one_is(value, math.nan, rng)),
            ("not finite", lambda: _one_is(value, math.inf, rng)),
        ]
        makers.append(("value", lambda: torch.full_like(value, 3e38)))
    elif value.numel():
        info = torch.iinfo(value.dtype) if value.dtype != torch.bool else None
        makers += (
            [("value", lambda: torch.full_like(value, info.max)), ("value", lambda: torch.full_like(value, info.min))]
            if info
            else []
        )
        makers.append(("value", lambda: _one_is(value, 1 + rng.randrange(100), rng)))
    kind, make = rng.choice(makers)
    parent[key] = make()
    return kind, f"{value.dtype} {tuple(value.shape)} to {parent[key].dtype} {tuple(parent[key].shape)}"


_DTYPES = (torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64)


def _one_is(value: torch.Tensor, new: float, rng: random.Random) -> torch.Tensor:
    changed = value.clone().flatten()
    changed[rng.randrange(len(changed))] = new
    return changed.view(value.shape)


def _number(parent: Any, key: Any, value: float, rng: random.Random, whole: Any) -> tuple[str, str]:
    if type(value) is float:
        new = rng.choice((math.nan, math.inf, -math.inf, 1e308, -1e308, -value - 1.0))
    else:
        new = rng.choice((-value - 1, -1, -(10**30), 10**30, 10**15, 2**31, 2**63, 2**200, value + 1))
    parent[key] = new
    if type(new) is float and not math.isfinite(new):
        return "not finite", str(new)
    return ("negative" if new < 0 <= value and type(new) is int else "value"), f"{value} to {new}"


def _aliased(parent: Any, key: Any, value: torch.Tensor, rng: random.Random, whole: Any) -> tuple[str, str]:
    """Let two tensors of one shape share their numbers, or one have numbers that are not stored."""
    others = [leaf for leaf in leaves(whole).values() if isinstance(leaf, torch.Tensor) and leaf is not value]
    others = [leaf for leaf in others if leaf.shape == value.shape and leaf.dtype == value.dtype and leaf.numel()]
    if others and rng.random() < 0.5:
        parent[key] = rng.choice(others)
        return "alias", ""
    parent[key] = torch.zeros((), dtype=value.dtype).expand(10**6, 10**6)
    return "shape", "one number repeated 10^12 times"


def _listed(parent: Any, key: Any, value: list[Any], rng: random.Random, whole: Any) -> tuple[str, str]:
    if rng.random() < 0.5:
        parent[key] = value[:-1]
        return "shorter", ""
    parent[key] = value + value[-1:] * rng.choice((1, 1000))
    return "longer", ""
