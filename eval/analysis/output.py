"""Output and exit codes of `eval/runs.py`: JSON with a schema version, CSV, or a table for the terminal.

JSON on stdout is one object; its keys stay within a `schema_version`. NaN is written as null. Text from runs' files is
untrusted: it is escaped by `one_line` for a terminal, by `csv_text`, `markdown_text` or `html_text` for files.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError, one_line, printable
from sparring.eval.analysis.record import RunNetworkError, RunNotFoundError, RunRecord, UnknownMetricError
from sparring.eval.command import BAD_INPUT, make_folders, write_files

NOT_FOUND, DAMAGED, NETWORK = 3, 4, 5


def code_of(error: InputError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, RunNotFoundError | UnknownMetricError):
        return NOT_FOUND
    return NETWORK if isinstance(error, RunNetworkError) else BAD_INPUT


SCHEMA_VERSION = 1
FORMULA, NUMBER = "=+-@\t\r", re.compile(r"[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
PIPE_WIDTH = 200
"""Width of a table if the output is not a terminal."""


class OutputFormat(StrEnum):
    """Output formats."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


@dataclass(frozen=True)
class Answer:
    """Result of a command: an object for JSON, a function that prints other formats, and messages for stderr."""

    data: Mapping[str, Any]
    show: Callable[[OutputFormat], None]
    """Prints the answer in a form other than JSON."""
    warnings: Iterable[str] = ()
    remark: str = ""
    """A line on stderr that is not a warning."""
    damage: Collection[str] = ()
    """Unreadable parts, for stderr; the exit code is then 4."""
    code: int = 0
    """Exit code that takes precedence over the code of damage."""
    files: Mapping[Path, str | bytes] = field(default_factory=dict)
    """Requested files, by path."""
    form: OutputFormat = OutputFormat.TABLE
    """The requested format."""

    def publish(self) -> int:
        """Write the files, print the answer and the messages for stderr; return the exit code."""
        self.write()
        if self.form is OutputFormat.JSON:
            print(to_json(self.data))
        else:
            self.show(self.form)
        return self.say()

    def write(self) -> None:
        """Write the requested files. Raises `InputError` if that fails."""
        make_folders([], files=self.files)
        write_files(self.files)

    def say(self) -> int:
        """Print the messages for stderr; return the exit code."""
        for line in self.warnings:
            warn(line)
        if self.remark:
            print(one_line(self.remark), file=sys.stderr)
        code = exit_code(self.damage)
        return self.code or code


def to_json(content: Mapping[str, Any], *, indent: int | None = 1) -> str:
    """Return an object with its schema version as JSON."""
    return json.dumps(versioned(content), indent=indent, allow_nan=False)


def versioned(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its schema version as plain data."""
    return {"schema_version": SCHEMA_VERSION, **plain(content)}


def plain(value: Any) -> Any:
    """Return data as JSON allows it: arrays as lists, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[Any]], output_format: OutputFormat) -> None:
    """Print rows as CSV, as Markdown, or as a table for the terminal."""
    if output_format is OutputFormat.CSV:
        print(to_csv(headings, rows), end="")
    elif output_format is OutputFormat.MARKDOWN:
        print(markdown_table(headings, [[shown(cell) for cell in row] for row in rows]))
    else:
        print_table(headings, rows)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown, its cells escaped."""
    head, *body = (f"| {' | '.join(map(markdown_text, row))} |" for row in [headings, *rows])
    return "\n".join([head, f"| {' | '.join(['---'] * len(headings))} |", *body])


def to_csv(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return CSV text with full precision; None and NaN are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([["" if plain(cell) is None else csv_text(cell) for cell in row] for row in [headings, *rows]])
    return text.getvalue()


def csv_text(cell: Any) -> Any:
    """Return a CSV cell: text on one line, prefixed with ' if a spreadsheet would read it as a formula."""
    if not isinstance(cell, str):
        return cell if isinstance(cell, int | float) else csv_text(str(cell))
    text = printable(cell)
    return f"'{text}" if len(cell) > 1 and cell[0] in FORMULA and not NUMBER.fullmatch(cell) else text


def markdown_text(text: str) -> str:
    """Escape Markdown and HTML syntax."""
    joined = printable(" ".join(text.split()))
    escaped = re.sub(r"[\\|`*_\[\]~]", r"\\\g<0>", joined.replace("&", "&amp;").replace("<", "&lt;"))
    return re.sub(r"^([#>]|[-+](?= )|\d+(?=[.)] ))", r"\\\1", escaped)


def html_text(text: str) -> str:
    """Escape HTML syntax."""
    return escape(printable(text))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print a table, numbers to five digits."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(one_line(title)) if title else None, title_justify="left")
    numbers = [_are_numbers([row[k] for row in rows]) for k in range(len(headings))]
    for heading, number in zip(headings, numbers, strict=True):
        table.add_column(Text(one_line(heading)), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    console().print(table)


def shown(cell: Any) -> str:
    """Return a cell as text."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    return f"{cell:.5g}" if isinstance(cell, float) else one_line(str(cell))


def console() -> Any:
    """Return a console as wide as the terminal, or of `PIPE_WIDTH` columns where the output is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False)


def _are_numbers(cells: Sequence[Any]) -> bool:
    values = [cell for cell in cells if cell is not None]
    return bool(values) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in values)


def record_json(run: RunRecord) -> dict[str, Any]:
    """Return a record as plain data; `state` is W&B's word for `status`."""
    states = {"completed": "finished", "killed": "crashed", "empty": "pending"}
    return {"run_id": run.id, "state": states.get(run.status, run.status), **asdict(run)}


def when(seconds: float) -> str:
    """Return unix seconds as local time, "-" for 0, NaN and values out of range."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"
    except (ValueError, OverflowError, OSError):
        return "-"


def warn(text: str) -> None:
    """Print a warning of one line on stderr."""
    print(f"warning: {one_line(text)}", file=sys.stderr)


def exit_code(damage: Collection[str], notes: Collection[str] = ()) -> int:
    """Print notes and damage on stderr; return 4 if there is damage, else 0."""
    for line in notes:
        warn(line)
    for line in damage:
        print(f"damaged: {one_line(line)}", file=sys.stderr)
    return DAMAGED if damage else 0
