"""The part shared by all readers, and file digests."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from hashlib import sha256
from pathlib import Path
from typing import Any

from sparring.configs.core.tensor_file import unpack

UNUSED = object()
"""Result of a reader that does not say what it took over."""


class Reader(ABC):
    """One kind of file: its valid content, and `put` and `read` for a changed one.

    `read` returns the content that is in use afterwards, or `UNUSED`. `harmless` names changes, by the beginning of
    their text, that a reader may take; `tensors` is true for tensor files.
    """

    tensors = False
    harmless: tuple[str, ...] = ()

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = self.path()
        self.data = self.file.read_bytes()
        self.original = self.parse(self.data)

    @abstractmethod
    def path(self) -> Path:
        """Return the file."""

    def parse(self, data: bytes) -> Any:
        """Return the content of a valid file."""
        return unpack(data) if self.tensors else json.loads(data)

    def dump(self, content: Any) -> Any:
        """Return changed content with the digests inside it made right."""
        return content

    def put(self, data: bytes) -> None:
        """Write the file and the hashes of it elsewhere."""
        self.file.write_bytes(data)

    @abstractmethod
    def read(self) -> Any:
        """Read the file as the program does."""

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Release what reading needs."""


def digest(data: bytes) -> str:
    """Return the SHA-256 as files hold it."""
    return sha256(data).hexdigest()
