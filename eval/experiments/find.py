"""Look-up of a run by name or path among several sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.eval.experiments.output import warn
from sparring.eval.experiments.record import RunNotFoundError, RunRecord, RunSource, not_found
from sparring.eval.experiments.sources.folder_files import is_run_folder
from sparring.eval.experiments.sources.run_folders import RunFolders


def find_run(name_or_path: str, sources: Sequence[RunSource]) -> tuple[RunSource, RunRecord]:
    """Return the first source that has the run, and its record with the values of the whole history.

    A path to a run folder is read whatever the sources are. Raises `RunNotFoundError` with the nearest names, and
    `AmbiguousRunError` for a name of several runs; one that several sources have is said on stderr.
    """
    if not name_or_path:
        raise InputError("no run is named: give a run's name, its id in W&B, or a path")
    path = Path(name_or_path)
    if is_run_folder(path):
        folders = RunFolders(path.resolve().parent)
        return folders, folders.record(path.resolve().name)
    known: list[str] = []
    for number, source in enumerate(sources):
        try:
            record = source.record(name_or_path)
        except RunNotFoundError as error:
            known += error.known
            continue
        if others := [other.name for other in sources[number + 1 :] if name_or_path in other.names()]:
            warn(
                f"{name_or_path!r} is in {source.name} and in {' and '.join(others)}; {source.name} is read, --source "
                "chooses another"
            )
        return source, record
    raise not_found(name_or_path, known, " and ".join(source.name for source in sources) or "no source")
