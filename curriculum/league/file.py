"""The league file league.json and its content.

Each write replaces the file atomically (`configs.core.files`), so readers need no lock. Only the trainer that holds the
lock of the run's folder writes it. Its value is a `StoredLeague`; the digest is of agents and
results as compact JSON with sorted keys. It detects damage, not forgery, so names and paths of files are checked.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from re import fullmatch
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, StringConstraints
from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError, moved
from sparring.configs.core.files import read_json, write_atomically
from sparring.configs.core.typed import Count, Digest, NotNegative, Number, read
from sparring.curriculum.league.league import CHALLENGER, KINDS, PLAYER, Agent, League, PairRecord
from sparring.curriculum.ratings import Belief, Elo, pair

FILE, DAMAGED = "league.json", ".damaged"
GRPO = "sparring.agents.language.grpo"
__getattr__ = moved(__name__, {"inherit": f"{GRPO}.inheritance", "weights_path": f"{GRPO}.matchmaking"})


class LeagueError(InputError):
    """A league that cannot be used; the message is one line naming the file, what is wrong and what to do."""


class LeagueFile:
    """The league in `folder`, which must exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE

    def read(self) -> League:
        """Return the league; raises `LeagueError` if it is missing, damaged, or of another version."""
        try:
            return read_league(read_json(self.path))
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


FORMAT, VERSION = "sparring-league", 1
AGENT_KEYS = ("name", "kind", "path", "step", "elo", "start_elo", "mu", "sigma", "games")
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
"""A part of an agent's name; an inherited one is RUN/NAME, and names its file."""
PLAYER_NAME = r"[^\s\x00-\x1f]{1,200}"
"""Name of a `PLAYER`, which names no file of the run."""


class StoredAgent(TypedDict):
    """An `Agent`."""

    name: Annotated[str, StringConstraints(pattern=rf"^{PLAYER_NAME}$")]
    kind: Annotated[str, StringConstraints(pattern=rf"^({'|'.join(KINDS)})$")]
    path: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{0,4000}$")]
    step: Count
    elo: Number
    start_elo: Number
    mu: Number
    sigma: NotNegative
    games: Count


class StoredPair(TypedDict):
    """Two players in the order of their names, and the `PairRecord` of the first: wins, draws and losses."""

    players: tuple[str, str]
    total: tuple[Count, Count, Count]
    recent: tuple[NotNegative, NotNegative, NotNegative]


class StoredLeague(TypedDict):
    """Content of the file."""

    format: Literal["sparring-league"]
    version: Annotated[int, Strict(), Field(ge=VERSION, le=VERSION)]
    sha256: Digest
    agents: list[StoredAgent]
    results: list[StoredPair]


def write_league(league: League) -> dict[str, Any]:
    """Return the league as plain data for `json.dumps`."""
    agents = [_write_agent(agent) for agent in league.agents.values()]
    results = [{"players": list(key), **asdict(record)} for key, record in sorted(league.records.items())]
    # JSON has no tuples: digest the value as it will be read back.
    content = json.loads(json.dumps({"agents": agents, "results": results}, allow_nan=False))
    return {"format": FORMAT, "version": VERSION, "sha256": _digest(content), **content}


def read_league(data: Any) -> League:
    """Return the league in a JSON value; raises `InputError` with the path of the wrong field."""
    stored = read(StoredLeague, data)
    if stored["sha256"] != _digest({"agents": data["agents"], "results": data["results"]}):
        raise InputError("sha256: does not match the content, which is damaged")
    for number, agent in enumerate(stored["agents"]):
        if agent["kind"] != PLAYER and not fullmatch(rf"{NAME}(/{NAME})?", agent["name"]):
            raise InputError(f"agents.{number}.name={agent['name']!r}: must match {NAME}(/{NAME})?")
    agents = {entry["name"]: _read_agent(entry) for entry in stored["agents"]}
    if CHALLENGER not in agents:
        raise InputError(f"agents: must hold one {CHALLENGER}, called so")
    records = {}
    for entry in stored["results"]:
        first, second = entry["players"]
        if first >= second or not {first, second} <= agents.keys():
            raise InputError(f"results: players {first!r} and {second!r} must be two agents, ordered by name")
        records[pair(first, second)] = PairRecord(entry["total"], entry["recent"])
    return League(agents, records)


def _read_agent(entry: StoredAgent) -> Agent:
    name, kind, path, step, elo, start_elo, mu, sigma, games = (entry[key] for key in AGENT_KEYS)  # type: ignore[literal-required]
    return Agent(name, kind, path, step, Elo(elo), Elo(start_elo), Belief(mu, sigma), games)


def _digest(content: Any) -> str:
    try:
        return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):  # a state can hold more than JSON does
        return ""


def _write_agent(agent: Agent) -> dict[str, Any]:
    plain = asdict(agent)
    return {**{key: plain[key] for key in AGENT_KEYS if key in plain}, **plain["belief"]}
