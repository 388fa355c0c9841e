"""The league file league.json: each write replaces it atomically (`configs.core.files`), so readers need no lock.

Only the trainer that holds the lock of the run's folder writes it.
"""

from __future__ import annotations

import json
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.regular_file import read_regular_text
from sparring.curriculum.league.league import League
from sparring.curriculum.league.serialization import read_league, write_league

FILE, DAMAGED = "league.json", ".damaged"


class LeagueError(InputError):
    """A league that cannot be used; the message is one line naming the file, what is wrong and what to do."""


def weights_path(folder: Path, path: str) -> Path:
    """Return the weights of an agent with this `path` in the league in `folder`.

    Of an absolute path only the file's name counts, since the folder may have been moved or copied since.
    """
    return folder / (Path(path).name if Path(path).is_absolute() else path)


class LeagueFile:
    """The league in `folder`, which must exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE

    def begin(self, league: League) -> League:
        """Return the league on disk, or write and return `league` if there is none."""
        if self.path.exists():
            return self.read()
        self.restore(league)
        return league

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

    def restore(self, league: League) -> None:
        """Replace the league on disk by `league`; raises `OSError` if it cannot be written, the file is unchanged."""
        write_atomically(self.path, json.dumps(write_league(league), indent=1) + "\n")

    def put_aside_damaged(self) -> str:
        """Rename a league file that cannot be used; return the problem and the new name, or an empty string.

        Raises `LeagueError` for a file that the disk does not give, since it may be whole.
        """
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
