"""A league on disk, league.json: several processes may change it, and each change is whole or not at all.

Whoever changes it holds league.lock while it reads the league as the others left it, changes that and puts it in the
place of the old one (files.py), so nothing is lost and readers need no lock. The lock dies with its owner.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.locks import FileLock, LockBusyError
from sparring.curriculum.league import league as rules
from sparring.curriculum.league.league import League
from sparring.curriculum.league.serialization import read_league, write_league
from sparring.curriculum.ratings.game_results import GameResult

FILE, LOCK, DAMAGED = "league.json", "league.lock", ".damaged"
PATIENCE = 60.0
"""Seconds to wait for others; a change takes a hundredth of one."""


class LeagueError(InputError):
    """A league that cannot be used; the message is one line naming the file, what is wrong and what to do."""


class LeagueFile:
    """The league in `folder`, which must exist."""

    def __init__(self, folder: Path, *, patience: float = PATIENCE) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.patience = patience

    def begin(self, league: League) -> League:
        """Return the league that is there; where there is none, `league`, which is then there."""
        with self._alone():
            if self.path.exists():
                return self.read()
            return self._write(league)

    def read(self) -> League:
        """Return the league; raises `LeagueError` if it is missing, damaged, or no league of this version."""
        try:
            return read_league(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise LeagueError(f"{self.path}: is missing; restore it, or give a run that has a league") from error
        except OSError as error:
            raise LeagueError(f"{self.path}: cannot be read ({error.strerror})") from error
        except InputError as error:
            raise LeagueError(f"{self.path}: {error}; restore it, or remove it to begin a new league") from error
        except (ValueError, RecursionError) as error:
            raise LeagueError(f"{self.path}: no JSON ({error}); restore it, or remove it to begin anew") from error

    def change(self, how: Callable[[League], League]) -> League:
        """Put `how` of the league in its place, with what others have done meanwhile, and return it.

        Raises `OSError` where there is no room; then the league is as it was.
        """
        with self._alone():
            return self._write(how(self.read()))

    def record(self, games: Sequence[GameResult]) -> League:
        """Take in a batch of games; raises as `change` and `league.record` do."""
        return self.change(lambda league: rules.record(league, games))

    def restore(self, league: League) -> None:
        """Go back to `league`, whatever is there; what others have recorded since is gone."""
        with self._alone():
            self._write(league)

    def put_aside_damaged(self) -> str:
        """Rename a league that is there and cannot be used; returns what was wrong and its new name, or nothing."""
        with self._alone():
            try:
                self.read()
            except LeagueError as error:
                if not self.path.exists():
                    return ""
                aside = self.path.with_name(self.path.name + DAMAGED)
                self.path.replace(aside)
                return f"{self.path}: cannot be used ({error.__cause__}); it is kept as {aside.name}"
        return ""

    def _write(self, league: League) -> League:
        write_atomically(self.path, json.dumps(write_league(league), indent=1) + "\n")
        return league

    @contextmanager
    def _alone(self) -> Iterator[None]:
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
