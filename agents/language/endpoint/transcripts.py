"""Transcripts of a server's decisions, one per line of a JSON Lines file: prompt, full response, parsed answer.

Every command overwrites the file. A command that resumes after an interruption writes the earlier decisions again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sparring.agents.language.backend import Decision
from sparring.agents.language.endpoint.answer import ServerAnswer
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import append_to
from sparring.envs.text import Prompt


class Transcripts:
    """The file `path`; raises `InputError` if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.unlink(missing_ok=True)
            self._file = append_to(path)
        except OSError as error:
            raise InputError(f"--transcripts {path}: cannot be written ({error.strerror}); choose another") from error

    def add(self, request: Prompt, decision: Decision, answers: Sequence[ServerAnswer]) -> None:
        """Write one decision. Raises `InputError` if the disk is full."""
        line = {
            "game": request.number,
            "seat": request.seat,
            "player": request.menu.name,
            "seed": request.seed,
            "prompt": request.text,
            "answers": [_plain(answer) for answer in answers],
            "played": decision.text,
            "end": decision.finish_reason,
            "why": decision.why_inexact,
        }
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise InputError(f"--transcripts {self._path}: cannot be written ({error.strerror})") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _plain(answer: ServerAnswer) -> dict[str, object]:
    """Return what a server wrote: its text, the reasoning that it sent apart, how it ended, its tokens."""
    return {"text": answer.written, "reasoning": answer.apart, "finish": answer.finish, "usage": vars(answer.usage)}
