"""The league file league.json: several processes may change it, each change atomically.

A writer holds league.lock while it reads the current league, changes it and replaces the file (files.py), so that no
change is lost and readers need no lock. The operating system releases the lock when its owner dies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.locks import FileLock, LockBusyError
from sparring.configs.core.regular_file import read_regular_text
from sparring.curriculum.league import league as rules
from sparring.curriculum.league.league import League
from sparring.curriculum.league.serialization import read_league, write_league
from sparring.curriculum.ratings.game_results import GameResult

FILE, LOCK, DAMAGED = "league.json", "league.lock", ".damaged"
PATIENCE = 60.0
"""Seconds to wait for the lock; a change takes about 0.01 s."""


class LeagueError(InputError):
    """A league that cannot be used; the message is one line naming the file, what is wrong and what to do."""


def weights_path(folder: Path, path: str) -> Path:
    """Return the weights of an agent with this `path` in the league in `folder`.

    Of an absolute path only the file's name counts, since the folder may have been moved or copied since.
    """
    return folder / (Path(path).name if Path(path).is_absolute() else path)


class LeagueFile:
    """The league in `folder`, which must exist."""

    def __init__(self, folder: Path, *, patience: float = PATIENCE) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.patience = patience

    def begin(self, league: League) -> League:
        """Return the league on disk, or write and return `league` if there is none."""
        with self._locked():
            if self.path.exists():
                return self.read()
            return self._write(league)

    def read(self) -> League:
        """Return the league; raises `LeagueError` if it is missing, damaged, or of another version."""
        try:
            return read_league(json.loads(read_regular_text(self.path)))
        except FileNotFoundError as error:
            raise LeagueError(f"{self.path}: is missing; restore it, or give a run that has a league") from error
        except OSError as error:
            raise LeagueError(f"{self.path}: cannot be read ({error.strerror})") from error
        except InputError as error:
            raise LeagueError(f"{self.path}: {error}; restore it, or remove it to begin a new league") from error
        except (ValueError, RecursionError) as error:
            raise LeagueError(
                f"{self.path}: no JSON ({error}); restore it, or remove it to begin a new league"
            ) from error

    def change(self, how: Callable[[League], League]) -> League:
        """Replace the league on disk by `how` of it, under the lock, and return the new one.

        Raises `OSError` if it cannot be written, without a change of the file.
        """
        with self._locked():
            return self._write(how(self.read()))

    def record(self, games: Sequence[GameResult]) -> League:
        """Record a batch of games; raises as `change` and `league.record` do."""
        return self.change(lambda league: rules.record(league, games))

    def restore(self, league: League) -> None:
        """Replace the league on disk by `league`; results recorded since are lost."""
        with self._locked():
            self._write(league)

    def put_aside_damaged(self) -> str:
        """Rename a league file that cannot be used; return the problem and the new name, or an empty string.

        Raises `LeagueError` for a file that the disk does not give, since it may be whole.
        """
        with self._locked():
            try:
                self.read()
            except LeagueError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    return ""
                if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, InputError):
                    raise
                aside = self.path.with_name(self.path.name + DAMAGED)
                self.path.replace(aside)
                return f"{self.path}: cannot be used ({error.__cause__}); it is kept as {aside.name}"
        return ""

    def _write(self, league: League) -> League:
        write_atomically(self.path, json.dumps(write_league(league), indent=1) + "\n")
        return league

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            lock = FileLock(self.folder / LOCK, patience=self.patience)
        except LockBusyError as error:
            raise LeagueError(
                f"{self.path}: {error.owner} has held its lock for {self.patience:g} s; stop that process"
            ) from error
        except OSError as error:
            raise LeagueError(f"{self.path}: cannot be written ({error.strerror})") from error
        with lock:
            yield
