"""Shared parts of the evaluation commands: exit codes, device setup, the progress bar, writing files and pages.

torch is imported late, so errors on the command line are reported immediately.
"""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Timer, current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

from sparring.agents.run.folder import code_origin
from sparring.agents.run.signals import Stopped
from sparring.configs.core.errors import InputError, as_called, one_line, printable, printable_lines, require_package
from sparring.configs.core.files import read_regular, write_atomically
from sparring.configs.core.status import LOADING, UNFINISHED, end_now, quiet_on_closed_pipe, say
from sparring.eval.options import EvaluateOptions, PlayerOptions

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
TERMINATED = 143
END_SECONDS = 8.0
"""Longest time from a signal to the exit of a command; finished results have been written by then."""
NUMBERED = r"%s-(\d{4,})\.json"
"""Names of earlier results, appended to the name of the latest."""


@dataclass(frozen=True)
class ReportText:
    """A table as text and as data."""

    markdown: str
    """The table, as in eval.md; empty if no game was finished."""
    json: str
    """The text of eval.json or of the command's JSON file, byte for byte."""

    @property
    def data(self) -> dict[str, Any]:
        """The content of the JSON file: players, options, and a record for each row of the table."""
        content: dict[str, Any] = json.loads(self.json)
        return content

    def __str__(self) -> str:
        return self.markdown


@dataclass(frozen=True)
class CommandReport(ReportText):
    """Result of `exploit.py`, `payoff.py`, `seeds.py` or `curves.py`: its table, and the files that belong to it."""

    files: Mapping[Path, str | bytes] = field(default_factory=dict)
    """Content by path, including the JSON and markdown; empty if nothing is to be written."""
    quiet: bool = False


@dataclass(frozen=True)
class Evaluation(ReportText):
    """Result of an evaluation in any game: its table as text and as data, and the files that belong to it."""

    stem: tuple[Path, str] | None = None
    """Folder and name, without suffix, under which the command line writes both."""
    outputs: Mapping[Path, Callable[[Path], None]] = field(default_factory=dict)
    """Requested replays and pictures, each with its writer."""
    failures: tuple[str, ...] = ()
    """One line per failed requirement."""
    cut: BaseException | None = None
    """What ended the games early; the table then covers the finished games."""
    cut_note: str = ""
    quiet: bool = False


@dataclass(frozen=True)
class GameEvaluation:
    """How a game is evaluated: its options, the function that plays them, and the replay options by suffix."""

    options: type[EvaluateOptions]
    evaluate: Callable[[Any], Evaluation]
    replays: Mapping[str, str]
    shortest: Mapping[str, int]
    """Options of the shortest evaluation, used when only a replay is requested."""
    policy_loader: str = ""
    """Loader "module:name", called with a file, a device and a module, if the game's record does not name one."""


@dataclass(frozen=True)
class GamePayoff:
    """How `eval/payoff.py` makes a game's matrix: its options, and a function that plays them."""

    options: type[PlayerOptions]
    payoff: Callable[..., CommandReport]


def publish_evaluation(evaluation: Evaluation) -> int:
    """Print and write an evaluation and its outputs, and return the exit code: 1 if a requirement failed.

    If the games were cut short, writes the finished ones and raises the cause. Raises `InputError` if nothing was
    played.
    """
    if not (evaluation.markdown or evaluation.outputs or evaluation.cut):
        raise InputError("no games played and no replay requested: set --games to at least 2")
    if evaluation.markdown:
        folder, name = evaluation.stem or (None, "")
        publish_results(folder, name, evaluation.markdown, evaluation.json, quiet=evaluation.quiet)
    for path, writer in evaluation.outputs.items():
        write_asked(path, writer, quiet=evaluation.quiet)
    for line in evaluation.failures:
        say(f"eval/run.py: {line}")
    if evaluation.cut is not None:
        if evaluation.cut_note:
            say(f"eval/run.py: {evaluation.cut_note}")
        raise evaluation.cut
    return FAILED if evaluation.failures else 0


def run_command(name: str, command: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    """Return the exit code of `command(arguments)`: 2 with one line on stderr for bad input, 130 or 143 for a signal.

    `arguments` default to those of the process, which then ends at once after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else arguments
    UNFINISHED.clear()  # left by an earlier command in this process
    try:
        with ending_on_signals():
            return quiet_on_closed_pipe(command, words)
    except InputError as error:
        say(f"{name}: {error}")
        _say_what_is_kept(name, words)
        return BAD_INPUT
    except KeyboardInterrupt as error:
        _say_what_is_kept(name, words)
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        if arguments is None:
            end_now(code)
        return code
    except Stopped as stop:  # a run that the command trains
        if arguments is None:
            end_now(int(stop.code or 0))
        raise


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM."""


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within this context SIGTERM ends a command as Ctrl-C does. Either ends it within `END_SECONDS`.

    Handlers that the command sets itself, such as during training, replace these. Does nothing outside the main thread.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        last = Timer(END_SECONDS, os._exit, [128 + number])
        last.daemon = True
        last.start()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    if current_thread() is not main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_what_is_kept(name: str, words: Sequence[str]) -> None:
    """Print where the results of an interrupted command are kept, and the command that resumes it."""
    for path in sorted(UNFINISHED):
        say(f"finished results are kept in {path}; to resume: python {name} {shlex.join(words)}")


def prepare_torch() -> None:
    """Prepare the process for torch, before it is imported. Raises `InputError` if it is not installed."""
    require_package("torch", "train")
    # Spinning threads make matches ten times slower on a loaded machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def announce_loading(*, quiet: bool) -> None:
    """Prepare the process for torch and announce that loading takes a while."""
    prepare_torch()
    say(LOADING, enabled=not quiet)


def place_of(out: Path | None, beside: tuple[Path, str] | None, name: str) -> tuple[Path, str] | None:
    """Return folder and name of results: in --out if given; `name` is for a player without its own folder."""
    return (out, beside[1] if beside else name) if out else beside


def use_machine(device: str, threads: int, *, quiet: bool) -> tuple[str, int]:
    """Load torch and return the device and the number of threads. Call it after all checks that do not need torch."""
    announce_loading(quiet=quiet)
    from sparring.configs.core.device import choose_device, set_threads

    return str(choose_device(device)), set_threads(threads)


def make_folders(folders: Iterable[Path | None], *, files: Iterable[Path | None] = ()) -> None:
    """Create `folders` and the parents of `files` before playing, so a wrong path does not waste the games.

    None entries are skipped. Raises `InputError` if a folder cannot be created or a file's path is a folder.
    """
    outputs = [path for path in files if path is not None]
    for folder in [*(path.parent for path in outputs), *(path for path in folders if path is not None)]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be created ({error.strerror}); choose another path") from error
    for path in outputs:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; pass a file name")


def kept_cells(stem: tuple[Path, str] | None) -> Path | None:
    """Return the file of the cells played so far, beside the final results; None if no results are written."""
    return stem[0] / f"{stem[1]}.cells.jsonl" if stem else None


def cell_key(conditions: Mapping[str, Any], files: Iterable[Path]) -> str:
    """Return a key that changes with the conditions of a cell, this code, and the content of its players' files.

    For a folder, all files count.
    """
    contents = [path for place in files for path in (sorted(place.rglob("*")) if place.is_dir() else [place])]
    digests = [sha256(file.read_bytes()).hexdigest() for file in contents if file.is_file()]
    stated = {**conditions, "files": digests, "code": _code()}
    return sha256(json.dumps(stated, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _code() -> list[str]:
    """Return the version and the commit of this code."""
    return [version("sparring"), code_origin().get("commit", "")]


def publish_report(report: CommandReport) -> int:
    """Print and write a report, and return the exit code."""
    publish(report.markdown, report.files, quiet=report.quiet)
    return 0


def publish(text: str, files: Mapping[Path, str | bytes], *, quiet: bool = False) -> None:
    """Print `text`, write the `files` of one folder, and print their names; with `quiet`, only write."""
    if not quiet:
        print(printable_lines(as_called(text)))
    write_files(files)
    if files and not quiet:
        first, *rest = files
        print(one_line(f"Wrote {', '.join([str(first), *(path.name for path in rest)])}"))


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write content by path, each file atomically. Raises `InputError` if one cannot be written."""
    for path, data in files.items():
        write(path, partial(write_atomically, data=data))


def publish_results(folder: Path | None, name: str, text: str, data: str, *, quiet: bool = False) -> None:
    """Print the table `text`. Write it and its JSON `data` into `folder` unless that is None.

    Earlier results are kept under the next free number: eval.json becomes eval-0001.json.
    """
    if folder:
        _keep_earlier(folder, name, data)
    publish(text, {folder / f"{name}.json": data, folder / f"{name}.md": text} if folder else {}, quiet=quiet)


def _keep_earlier(folder: Path, name: str, data: str) -> None:
    """Copy the results in `folder` to the next number, unless they equal `data` or are already numbered."""
    earlier = _contents(folder, name)
    if not earlier or _without_command(earlier[".json"]) == _without_command(data):
        return
    pattern = re.compile(NUMBERED % re.escape(name))
    numbered = {int(match[1]) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))}
    if any(_contents(folder, f"{name}-{number:04d}").get(".json") == earlier[".json"] for number in numbered):
        return
    backup = f"{name}-{max(numbered, default=0) + 1:04d}"
    write_files({folder / f"{backup}{suffix}": content for suffix, content in earlier.items()})
    say(f"{folder / name}.json: the earlier results are now in {backup}.json")


def _without_command(data: str | bytes) -> Any:
    """Return results without the command line, which may differ only in --quiet. Text that is not JSON is unchanged."""
    try:
        results = json.loads(data)
    except ValueError:
        return data
    return {key: value for key, value in results.items() if key != "command"} if isinstance(results, dict) else results


def _contents(folder: Path, name: str) -> dict[str, bytes]:
    """Return the results of this name by suffix, the JSON file and then the table, up to the first missing one."""
    contents: dict[str, bytes] = {}
    for suffix in (".json", ".md"):
        try:
            contents[suffix] = read_regular(folder / f"{name}{suffix}", follow=True)
        except OSError:
            break
    return contents


def write_asked(path: Path | None, writer: Callable[[Path], None], *, quiet: bool) -> None:
    """Write an optional output, such as a replay, and print its path; do nothing if `path` is None."""
    if path is not None:
        write(path, writer)
        if not quiet:
            print(f"Wrote {path}")


def write(path: Path, writer: Callable[[Path], None]) -> None:
    """Call `writer(path)`; convert an `OSError` to an `InputError` with a hint."""
    try:
        writer(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another path, as with --out") from error


LOOK = Path(__file__).parent / "browser" / "page.css"
"""The style sheet that all pages share."""


def fill_page(template: Path, *, title: str, data: Any, **parts: str) -> str:
    """Return the text of `template` with every {{name}} replaced, in one pass.

    Names are `title` and `data` (JSON), both escaped, `look`, the style of all pages, and the names of `parts`.
    """
    plain = json.dumps(data, separators=(",", ":"))
    # In a script element only "<" needs escaping; escaping & and > as well is safer.
    inert = plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    values = {"title": html.escape(printable(title)), "data": inert, "look": LOOK.read_text("utf-8")} | parts
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], template.read_text(encoding="utf-8"))


def join_files(folder: Path, *names: str) -> str:
    """Return the texts of files of `folder`, such as the scripts of a page, one after another."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def several_names(what: str, names: Any) -> Any:
    """Return `names`; raise `InputError` for a single text, which would be read as one name."""
    if isinstance(names, str | Path):
        raise InputError(f"{what}: {str(names)!r} is one name; pass a list, [{str(names)!r}]")
    return names


def written(report: CommandReport) -> CommandReport:
    """Write the files of a report and return it."""
    write_files(report.files)
    return report
