"""Message tables: the exact answers of commands to invalid arguments, one row each in a text file.

A row is `$ ` and the words after the command, then a line with the exit code and the message. `{tmp}` is the folder of
the test. SPARRING_WRITE_MESSAGES=1 writes what the commands say now into the rows that a test run meets; a change of
wording is then read in the difference of the tables, and no other test repeats a message of theirs.
"""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

WRITE = "SPARRING_WRITE_MESSAGES"


class Row(NamedTuple):
    """Arguments that a command rejects, with exit code and message, and the place of the row."""

    words: tuple[str, ...]
    answer: str
    file: Path
    line: int

    def check(self, code, text):
        """Compare an answer with the row, or write it there; long lists of choices are truncated."""
        text = re.sub(r"(choose from [^,;]*)(,[^,;]*){5,}", r"\1, ...", text)
        if os.environ.get(WRITE) != "1":
            assert f"{code} {text}" == self.answer
            return
        lines = self.file.read_text(encoding="utf-8").split("\n")
        lines[self.line + 1] = f"{code} {text}"
        self.file.write_text("\n".join(lines), encoding="utf-8")


def rows(test_file, name="messages"):
    """Return the rows of the table `name` beside a file of tests, for `pytest.mark.parametrize`."""
    file = Path(test_file).with_name(f"{name}.txt")
    lines = file.read_text(encoding="utf-8").split("\n")
    return [
        Row(tuple(shlex.split(text[2:])), lines[number + 1], file, number)
        for number, text in enumerate(lines)
        if text.startswith("$ ") or text == "$"
    ]


def label(row):
    """Return the name of a row's test."""
    return shlex.join(row.words) if isinstance(row, Row) else None
