"""A league as a JSON value and back; every field is checked, and the whole by a SHA-256.

The value is `{"format", "version", "sha256", "agents": [...], "results": [...]}`; the digest is of agents and results
as compact JSON with sorted keys. It detects damage, not forgery: a program that writes a league can also write its
digest, so that no field is trusted because of it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from sparring.configs.core.allowed import Form, complaint
from sparring.configs.core.json_fields import Field
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, KINDS, Agent, League, PairRecord
from sparring.curriculum.ratings.bayesian import Belief
from sparring.curriculum.ratings.elo import Elo
from sparring.curriculum.ratings.game_results import Pair, pair

FORMAT, VERSION = "sparring-league", 1
KEYS = ("format", "version", "sha256", "agents", "results")
AGENT_KEYS = ("name", "kind", "path", "step", "elo", "start_elo", "mu", "sigma", "games")
RESULT_KEYS = ("players", "total", "recent")
NAME = Form(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99})?", "a name, or a run's / a name")
PATH = Form(r"[^\x00-\x1f]{0,4000}", "text of one line")
COUNT = "[0, 1000000000000]"
ELO, MU, SIGMA = "[-100000, 100000]", "[-1000, 1000]", "(0, 1000]"


def write_league(league: League) -> dict[str, Any]:
    """Return the league as plain data for `json.dumps`."""
    agents = [_write_agent(agent) for agent in league.agents.values()]
    results = [{"players": list(key), **asdict(record)} for key, record in sorted(league.records.items())]
    # JSON has no tuples: digest the value as it will be read back.
    content = json.loads(json.dumps({"agents": agents, "results": results}, allow_nan=False))
    return {"format": FORMAT, "version": VERSION, "sha256": _digest(content), **content}


def read_league(data: Any) -> League:
    """Return the league in a JSON value; raises `InputError` with the path of the wrong field."""
    whole = Field(data)
    for name, wanted in (("format", FORMAT), ("version", VERSION)):
        if (stored := whole[name]).value != wanted or type(stored.value) is not type(wanted):
            stored.fail(f"must be {wanted!r}, not {str(stored.value)[:60]!r}")
    whole.keys(KEYS)
    if whole["sha256"].value != _digest({"agents": whole["agents"].value, "results": whole["results"].value}):
        whole["sha256"].fail("is not that of the content, which is damaged")
    league = League(_read_agents(whole["agents"]))
    return League(league.agents, dict(_read_record(entry, league) for entry in whole["results"]))


def _digest(content: Any) -> str:
    try:
        return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):  # a state can hold more than JSON does
        return ""


def _write_agent(agent: Agent) -> dict[str, Any]:
    plain = asdict(agent)
    return {**{key: plain[key] for key in AGENT_KEYS if key in plain}, **plain["belief"]}


def _read_agents(entries: Field) -> dict[str, Agent]:
    read = [_read_agent(entry) for entry in entries]
    agents = {agent.name: agent for agent in read}
    if len(agents) < len(read):
        entries.fail("two of them have one name")
    for only, least in ((CHALLENGER, 1), (BASE_MODEL, 0)):
        names = [agent.name for agent in read if agent.kind == only]
        if names != [only] and (names or least):
            entries.fail(f"must hold one {only}, called so")
    return agents


def _read_agent(entry: Field) -> Agent:
    entry.keys(AGENT_KEYS)
    kind = entry["kind"]
    if kind.of(str) not in KINDS:
        kind.fail(f"must be one of {', '.join(KINDS)}")
    return Agent(
        _text(entry["name"], NAME),
        kind.of(str),
        _text(entry["path"], PATH),
        entry["step"].whole(COUNT),
        Elo(entry["elo"].number(ELO)),
        Elo(entry["start_elo"].number(ELO)),
        Belief(entry["mu"].number(MU), entry["sigma"].number(SIGMA)),
        entry["games"].whole(COUNT),
    )


def _read_record(entry: Field, league: League) -> tuple[Pair, PairRecord]:
    entry.keys(RESULT_KEYS)
    players = [_text(player, NAME) for player in entry["players"]]
    if len(players) != 2 or players[0] >= players[1] or not set(players) <= league.agents.keys():
        entry["players"].fail("must be two agents in the order of their names")
    wins, draws, losses = (count.whole(COUNT) for count in _three(entry["total"]))
    won, drawn, lost = (count.number(COUNT) for count in _three(entry["recent"]))
    return pair(players[0], players[1]), PairRecord((wins, draws, losses), (won, drawn, lost))


def _three(entry: Field) -> list[Field]:
    values = list(entry)
    if len(values) != 3:
        entry.fail("must be wins, draws and losses")
    return values


def _text(entry: Field, form: Form) -> str:
    if wrong := complaint(entry.of(str), form):
        entry.fail(wrong)
    return entry.of(str)
