"""A league that starts from another run's league.

A run that inherits a league takes over its checkpoints with their ratings and records. Their weights are copied into
`adapters/` of the new run, which then works wherever you move it. The other run's challenger is left out, since its
weights are not in a file; its last checkpoint represents it. Bots and the base model are the same players in both
leagues and continue with their ratings. So do the players that `league.players` of this run names, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparring.configs.core.files import make_folder
from sparring.configs.core.manifest import ManifestError, read_listed, write_listed
from sparring.curriculum.league.file import LeagueError, LeagueFile
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, PLAYER, Agent, League, turned
from sparring.curriculum.ratings import pair

FOLDER = "adapters"
"""Folder of the inherited checkpoints' weights in a run's folder."""


def inherit(league: League, folder: Path, source: Path, *, also: Sequence[str] = ()) -> League:
    """Return a new `league`, stored in `folder`, extended by the league of the run in `source`; copies its weights.

    Checkpoints of the other run are called <run>/<name> here; its base model may have one of the names `also`, by which
    this one's was known once. Raises `LeagueError` if it has no league, another base model, or a checkpoint whose
    weights are missing, damaged or outside the folder that holds the runs; `ValueError` if games have been played in
    `league`.
    """
    if league.records:
        raise ValueError("this league already has results, which would be lost; inherit before the first game")
    try:
        source_league = LeagueFile(source).read()
        _check_base_model(league, source_league, source, also)
        return _merged(source_league, league, folder, source)
    except LeagueError as error:
        raise LeagueError(f"league.inherit={source.name}: {error}") from error


def _merged(source_league: League, league: League, folder: Path, source: Path) -> League:
    names = {
        name: _new_name(agent, source)
        for name, agent in source_league.agents.items()
        if name != CHALLENGER and (agent.kind != PLAYER or name in league.agents)
    }
    taken = {names[name]: _adopted(source_league[name], names[name], folder, source) for name in names}
    agents = {**taken, **{name: agent for name, agent in league.agents.items() if name not in taken}}
    records = {}
    for (first, second), record in source_league.records.items():
        if first in names and second in names:
            key = pair(names[first], names[second])
            records[key] = record if key[0] == names[first] else turned(record)
    return League(agents, records)


def _check_base_model(league: League, source_league: League, source: Path, also: Sequence[str]) -> None:
    """Raise `LeagueError` unless the base model of both leagues is the same, since its rating is continued."""
    ours, base = league[BASE_MODEL].path, source_league.agents.get(BASE_MODEL)
    if base is None:
        raise LeagueError("has no base model, so the run did not train a language model; name another")
    if base.path not in (ours, *also):
        raise LeagueError(
            f"its base model is {base.path!r} and this run's is {ours!r}; train the one that {source / 'config.yaml'} "
            "has as model.name, or leave league.inherit out"
        )


def _new_name(agent: Agent, source: Path) -> str:
    """Return the name of an agent here; checkpoints that were inherited before keep the name of their run."""
    return f"{source.name}/{agent.name}" if agent.kind == "checkpoint" and "/" not in agent.name else agent.name


def _adopted(agent: Agent, name: str, folder: Path, source: Path) -> Agent:
    if agent.kind != "checkpoint":
        return agent
    weights = (source / agent.path).resolve()
    if not agent.path or not weights.is_relative_to(source.resolve().parent):
        raise LeagueError(f"{source}: the weights of {agent.name}, {agent.path!r}, are not in a run beside it")
    if not weights.exists():
        raise LeagueError(f"{weights}: is missing, the weights of {agent.name} in the league of {source.name}")
    path = f"{FOLDER}/{name}.pt"
    _copy(weights, folder / path)
    return replace(agent, name=name, path=path)


def _copy(source: Path, target: Path) -> None:
    try:
        make_folder(target.parent.parent)
        make_folder(target.parent)
        write_listed(target, read_listed(source))
    except ManifestError as error:
        raise LeagueError(str(error)) from error
    except OSError as error:
        raise LeagueError(f"{target}: cannot be copied from {source} ({error.strerror}); free some space") from error
