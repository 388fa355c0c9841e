"""One folder per run, under a readable name: adjective-callsign-run.

Generated names use the operating system's entropy, not the run's seed, so two runs with one seed get two names. A
folder is created together with its lock file, by one rename. The lock prevents two trainers from writing into it: of
two that start under one name at once, the one that gets the lock trains. A run is resumed by opening its folder again.
`origin.json` has the commit of the code that started it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from sparring.configs.core.allowed import Form, complaint
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import (
    PACKAGE,
    IrregularFileError,
    read_json,
    read_regular_text,
    remove_leftovers,
    write_atomically,
)
from sparring.configs.core.locks import FileLock, LockBusyError
from sparring.configs.core.manifest import check_contents
from sparring.configs.schema import FOLDER, SNAPSHOT
from sparring.configs.serialization import read_yaml

LOCK = "lock"
FINAL = "final.pt"
"""File name of a run's final policy."""
ADJECTIVES = (
    "amber", "bold", "brave", "bright", "brisk", "calm", "clever", "cobalt", "cold", "copper",
    "crimson", "daring", "dark", "deft", "distant", "dusty", "eager", "fierce", "fleet", "golden",
    "hasty", "hidden", "humble", "iron", "ivory", "keen", "loud", "lucky", "mean", "patient",
    "proud", "quick", "quiet", "restless", "silent", "silver", "steady", "stormy", "sudden", "swift",
)  # fmt: skip
CALLSIGNS = (
    "anvil", "badger", "banshee", "bishop", "blaze", "cobra", "comet", "condor", "corsair", "cricket",
    "drifter", "falcon", "ghost", "goose", "hammer", "hawk", "hornet", "icarus", "jester", "joker",
    "kestrel", "knight", "lancer", "mako", "maverick", "merlin", "nomad", "osprey", "phoenix", "raptor",
    "raven", "reaper", "rook", "saber", "shrike", "sparrow", "talon", "thunder", "viper", "wasp",
)  # fmt: skip


class RunFolderError(InputError):
    """A run name that cannot be used; the message is one line with the name and what to do."""


class RunExistsError(RunFolderError):
    """A name under which there is a folder already."""


class RunLockedError(InputError):
    """A folder that another trainer holds or that cannot be written; the message is one line saying which."""


class RunLock:
    """Lock of a run folder for one trainer on one machine, held until `release` or the end of the process.

    Raises `RunLockedError` if another trainer holds it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._lock = FileLock(folder / LOCK)
        except IrregularFileError as error:
            raise RunLockedError(str(error)) from error
        except OSError as error:
            raise RunLockedError(f"{folder}: cannot be written ({error.strerror}); choose another name=") from error
        except LockBusyError as error:
            raise RunLockedError(
                f"{folder}: {error.owner} is training there; stop it first or choose another name="
            ) from error

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._lock.release()


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run's files."""

    path: Path

    @classmethod
    def open(cls, root: Path, name: str) -> RunFolder | None:
        """Return the existing folder of the run `name` under `root`, or None.

        It may lack its config.yaml, if a start ended between making the folder and writing that. Raises
        `RunFolderError` if that path exists but is not a run's folder, `IrregularFileError` for a link, a FIFO or a
        device in it.
        """
        if not name:
            return None
        _check("name", name, FOLDER)
        folder = cls(root / name)
        # One listing decides, because another start may make the folder and its config.yaml between two questions.
        names = _listed(folder.path)
        if names is None:
            return None
        if folder.path.is_dir():
            check_contents(folder.path)
        # A start that ended before config.yaml leaves the lock's file and no other.
        unfinished = LOCK in names and all(name == LOCK or name.endswith(".tmp") for name in names)
        if folder.config.name in names or unfinished:
            return folder
        if folder.state.name in names and folder.state.is_dir():
            raise RunFolderError(
                f"{folder.config}: is missing; restore it (every policy of the run contains a copy), or choose another "
                "name="
            )
        raise RunFolderError(f"name={name!r}: {folder.path} exists and is not a run's folder; choose another name")

    @classmethod
    def create(cls, root: Path, name: str = "", run: str | None = None) -> RunFolder:
        """Create a folder under `root`: `name` if given, else a generated name ending in `run`.

        Raises `RunExistsError` if `name` exists already, `RunFolderError` if it is not a plain folder name or if `root`
        is not writable.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"checkpoint_dir={root}: cannot be created ({error.strerror}); use another") from error
        if name:
            _check("name", name, FOLDER)
        path = root / (name or made_up_name(run))
        try:
            while not _make(path):
                if name:
                    raise RunExistsError(
                        f"name={name!r}: {path} exists; choose another or leave it empty for a new one"
                    )
                path = root / made_up_name(run)
        except OSError as error:
            raise RunFolderError(
                f"checkpoint_dir={root}: no folder can be created in it ({error.strerror}); free space or use another"
            ) from error
        return cls(path)

    @property
    def name(self) -> str:
        """The run's name, which is the folder's name."""
        return self.path.name

    @property
    def config(self) -> Path:
        """The file of the resolved configuration."""
        return self.path / "config.yaml"

    @property
    def lock(self) -> Path:
        """The lock's file, which names the process that trains here."""
        return self.path / LOCK

    @property
    def pool(self) -> Path:
        """The folder of frozen snapshots."""
        return self.path / "pool"

    @property
    def state(self) -> Path:
        """The folder of training states, from which the run can be continued."""
        return self.path / "state"

    @property
    def best(self) -> Path:
        """The policy with the best evaluation of this run."""
        return self.path / "best.pt"

    @property
    def final(self) -> Path:
        """The checkpoint of the last update."""
        return self.path / FINAL

    def step(self, env_steps: int) -> Path:
        """Return the path of the checkpoint after `env_steps` environment steps."""
        return self.path / f"step_{env_steps}.pt"

    def named(self, name: str) -> Path:
        """Return the path of an event's checkpoint such as pre_brawler; raise `RunFolderError` for an invalid name."""
        _check("snapshot", name, SNAPSHOT)
        return self.path / f"{name}.pt"

    def read_config(self) -> dict[str, Any]:
        """Read the run's stored configuration as plain data; raise `RunFolderError` if it cannot be read."""
        try:
            plain = read_yaml(read_regular_text(self.config))
        except IrregularFileError as error:
            raise RunFolderError(str(error)) from error
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{self.config}: cannot be read; restore it or choose another name=") from error
        if not isinstance(plain, dict):
            raise RunFolderError(f"{self.config}: is not a configuration; restore it or choose another name=")
        return plain

    def clean(self) -> None:
        """Remove partially written files of killed processes, including a start that was creating this folder."""
        remove_leftovers(self.path.parent, self.name)
        remove_leftovers(self.path)
        remove_leftovers(self.pool)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the stored configuration, independent of its layout; training states store it."""
        return sha256(json.dumps(self.read_config(), sort_keys=True, default=str).encode()).hexdigest()

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the complete configuration, plain data in the schema's order, as YAML; raises `RunFolderError`."""
        try:
            write_atomically(self.config, yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))
        except OSError as error:
            raise RunFolderError(
                f"{self.config}: cannot be written ({error.strerror}); free some space or set another checkpoint_dir="
            ) from error

    def remove_unused(self) -> None:
        """Remove a folder created by a start that failed, if it holds nothing but a lock."""
        with suppress(OSError):
            (self.path / LOCK).unlink(missing_ok=True)
            self.path.rmdir()


def made_up_name(run: str | None) -> str:
    """Draw adjective-callsign-run, without the last part if `run` is None."""
    return "-".join([secrets.choice(ADJECTIVES), secrets.choice(CALLSIGNS)] + ([run] if run else []))


def _listed(path: Path) -> list[str] | None:
    """Return the names in a folder, none for anything else than a folder, or None if nothing is there."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        # A broken link; not `lexists`, which is also true for a folder created by another start since the listing.
        return [] if path.is_symlink() else None
    except NotADirectoryError:
        return []


def _make(path: Path) -> bool:
    """Make a run's folder with the lock's file in it, in one step; return False if the path exists."""
    if os.path.lexists(path):
        return False
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.mkdir()
        (temporary / LOCK).touch()
        temporary.rename(path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        # Another start has made it meanwhile, and may have removed `temporary` as a leftover.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ENOENT) or not path.exists():
            raise
        return False
    return True


def _check(key: str, name: str, form: Form) -> None:
    wrong = complaint(name, form)
    if wrong:
        raise RunFolderError(f"{key}={name!r}: {wrong}")


ORIGIN = "origin.json"
SECONDS = 10


def write_origin(folder: Path) -> None:
    """Write the commit, and whether files differed from it; nothing where the code is in no git repository."""
    if origin := _present():
        write_atomically(folder / ORIGIN, json.dumps(origin) + "\n")


def code_origin() -> dict[str, str]:
    """Return the present code's commit, in the form in which `read_origin` returns a run's."""
    return _shown(_present())


def _present() -> dict[str, Any]:
    """Return the commit and whether files differ from it; empty where the code is in no git repository."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return {}
    return {"commit": commit, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}


def read_origin(folder: Path) -> dict[str, str]:
    """Return the commit as text, with a `+` where files differed from it; empty if it is not known."""
    path = folder / ORIGIN
    try:
        return _shown(read_json(path) if path.is_file() else {})
    except (OSError, ValueError):
        return {}


def _shown(origin: Any) -> dict[str, str]:
    commit = origin.get("commit") if isinstance(origin, dict) else None
    if not isinstance(commit, str) or not commit.isalnum():
        return {}
    return {"commit": commit[:9] + ("+" if origin.get("changed") else "")}


def _git(*words: str) -> str:
    """Return the output of git in the package's own folder; empty if it fails or belongs to another repository."""
    if not (PACKAGE / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
