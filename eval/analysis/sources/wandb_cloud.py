"""The W&B cloud, or your own server (WANDB_BASE_URL), through `wandb.Api`, with a local cache of its responses.

wandb is imported and the server contacted only for the first query. The cache has one JSON file per response, with the
time it was fetched. Responses about finished runs are kept until the run changes, others for `FRESH` seconds. With
`offline` only the cache is used, whatever its age. Rejected keys, rate limits, server errors, invalid JSON, and
time-outs raise one-line network errors.
"""

from __future__ import annotations

import hashlib
import json
import netrc
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sparring.configs.core.errors import one_line
from sparring.configs.core.files import read_json, write_atomically
from sparring.eval.analysis.record import (
    History,
    RunNetworkError,
    RunRecord,
    Status,
    matching_id,
    newest_first,
    unique_names,
    unusable_data,
)
from sparring.eval.analysis.sources.reading import RowTable, add_logged
from sparring.eval.analysis.sources.wandb_offline import wandb_module

FRESH = 60.0
"""Seconds."""


class CloudCache:
    """Answers in `folder`, by default the user's cache folder."""

    def __init__(self, folder: Path | None = None, *, offline: bool = False) -> None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = folder or home / "sparring" / "wandb"
        self.offline = offline
        self.hits, self.misses, self.oldest = 0, 0, 0.0

    def get(self, key: str, fetch: Callable[[], Any], *, version: str = "") -> Any:
        """Return the cached answer for `key`, else the answer of `fetch`, which is stored.

        With a `version`, such as the time of a run's last heartbeat, an answer of the same version does not expire.
        Raises `RunNetworkError` if `offline` and the answer is not cached.
        """
        path = self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        cached = _read(path, key)
        if cached and (self.offline or _counts(cached, version)):
            self.hits += 1
            self.oldest = max(self.oldest, time.time() - cached["fetched"])
            return cached["answer"]
        if self.offline:
            raise RunNetworkError(f"--offline: the cache has no answer for {key}; run once without --offline")
        answer = fetch()
        self.misses += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        entry = {"key": key, "fetched": time.time(), "version": version, "answer": answer}
        write_atomically(path, json.dumps(entry))
        return answer

    def figures(self) -> dict[str, Any]:
        """Return hits, misses and the age of the oldest answer used, in seconds."""
        return {"hits": self.hits, "misses": self.misses, "oldest_seconds": round(self.oldest, 1)}


def _counts(entry: dict[str, Any], version: str) -> bool:
    if version:
        return entry.get("version") == version
    return 0 <= time.time() - entry["fetched"] < FRESH


def _read(path: Path, key: str) -> dict[str, Any] | None:
    """Return an entry; None for a missing, damaged or foreign one, which is fetched again."""
    try:
        entry = read_json(path)
    except (OSError, ValueError, RecursionError):
        return None
    complete = isinstance(entry, dict) and entry.get("key") == key and "answer" in entry
    return entry if complete and isinstance(entry.get("fetched"), float) else None


DEFAULT_URL = "https://api.wandb.ai"
STATES: dict[str, Status] = {
    "running": "running",
    "finished": "completed",
    "failed": "failed",
    "crashed": "killed",
    "killed": "killed",
    "preempted": "killed",
    "preempting": "running",
    "pending": "empty",
}
PAGE = 1000
REASONS = {
    401: "the API key was rejected; log in with `wandb login` or set WANDB_API_KEY",
    403: "the API key may not read this project",
    404: "not found; check --project and WANDB_BASE_URL",
    429: "too many requests; wait a minute, or use the cache with --offline",
}


class WandBCloud:
    """Runs of a project, NAME or ENTITY/NAME; `timeout` in seconds for each request, `retries` after a failed one."""

    name = "wandb"

    def __init__(
        self, project: str, *, offline: bool = False, cache: Path | None = None, timeout: int = 30, retries: int = 3
    ) -> None:
        self.project, self.timeout, self.retries = project, timeout, retries
        self.cache = CloudCache(cache, offline=offline)
        self._api: Any = None

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first."""
        runs = self._runs()
        names = unique_names({run["id"]: run["name"] for run in runs})
        named = ((names[run["id"]], run) for run in runs)
        each = ((name, f"{self.project}/{run['id']}", partial(self._record, run, name)) for name, run in named)
        return newest_first(self.name, each)

    def names(self) -> list[str]:
        """Return nothing: asking costs a request."""
        return []

    def record(self, id: str) -> RunRecord:
        """Return one run by name or W&B id. Raises `AmbiguousRunError` if several match."""
        run = self._attributes(id)
        return self._record(run, unique_names({entry["id"]: entry["name"] for entry in self._runs()})[run["id"]])

    def history(self, id: str) -> History:
        """Return all rows of a run."""
        run = self._attributes(id)
        rows = self._ask(
            f"history of {run['id']}",
            lambda: list(self._run(run["id"]).scan_history(page_size=PAGE)),
            version=_version(run),
        )
        table = RowTable()
        events: list[dict[str, Any]] = []
        for number, row in enumerate(rows):
            step = row.get("_step")
            add_logged(table, events, row.items(), step=step if isinstance(step, int) else number)
        return table.history(events, ())

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return the files and logged artifacts of a run; W&B does not provide SHA-256."""
        run = self._attributes(id)
        return list(self._ask(f"artifacts of {run['id']}", lambda: self._files(run["id"]), version=_version(run)))

    def _attributes(self, id: str) -> dict[str, Any]:
        runs = self._runs()
        key = matching_id(id, {run["id"]: run["name"] for run in runs}, f"{self.project} in W&B")
        return next(run for run in runs if run["id"] == key)

    def _record(self, run: dict[str, Any], name: str) -> RunRecord:
        summary = {key: value for key, value in run["summary"].items() if not key.startswith("_")}
        wrong = {part: reason for part in ("config", "summary") if (reason := unusable_data(run[part]))}
        return RunRecord(
            id=name,
            source=self.name,
            path=f"{self.project}/{run['id']}",
            status=STATES.get(run["state"], "killed"),
            created=_seconds(run["created"]),
            updated=_seconds(run["heartbeat"]) or _seconds(run["created"]),
            config={} if "config" in wrong else run["config"],
            summary=({} if "summary" in wrong else summary) | {"run_id": run["id"], "commit": run["commit"]},
            tags=tuple(run["tags"]),
            damage=tuple(f"{run['id']}: its {part} {reason}; skipped" for part, reason in wrong.items()),
            group=run.get("group") or "",  # answers in an older cache lack it
        )

    def _runs(self) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = self._ask("runs", self._list)
        return runs

    def _list(self) -> list[dict[str, Any]]:
        runs = self._open().runs(self._path(), lazy=False, per_page=PAGE)
        return [
            {
                "id": run.id,
                "name": run.name or run.id,
                "state": run.state,
                "created": run.created_at,
                "heartbeat": run._attrs.get("heartbeatAt"),
                "config": _plain(run.config),
                "summary": _plain(dict(run.summary)),
                "tags": list(run.tags or []),
                "commit": run.commit,
                "group": run.group,
            }
            for run in runs
        ]

    def _run(self, id: str) -> Any:
        return self._open().run(f"{self._path()}/{id}")

    def _files(self, id: str) -> list[dict[str, Any]]:
        run = self._run(id)
        files = [(file.name, "file", file.size, f"{self.project}/{id}/{file.name}") for file in run.files()]
        logged = [(entry.name, entry.type, entry.size, entry.qualified_name) for entry in run.logged_artifacts()]
        keys = ("name", "kind", "bytes", "path")
        return [dict(zip(keys, entry, strict=True)) | {"sha256": None} for entry in [*files, *logged]]

    def _path(self) -> str:
        return self.project if "/" in self.project else f"{self._open().default_entity}/{self.project}"

    def _ask(self, what: str, fetch: Callable[[], Any], *, version: str = "") -> Any:
        """Return the cached or fetched answer to a question about the project."""
        return self.cache.get(f"{what}, {self.project} at {_url()}", lambda: self._fetch(fetch), version=version)

    def _fetch(self, fetch: Callable[[], Any]) -> Any:
        try:
            return fetch()
        except RunNetworkError:
            raise
        except Exception as error:  # wandb raises many types, even bare ValueError and KeyError
            raise RunNetworkError(_message(error)) from error

    def _open(self) -> Any:
        if self._api is None:
            if not has_key():
                raise RunNetworkError(f"no API key for {_url()}: log in with `wandb login` or set WANDB_API_KEY")
            os.environ.setdefault("WANDB_SILENT", "true")  # its messages would mix with our output
            wandb = wandb_module("wandb")
            wandb.setup(
                wandb.Settings(
                    x_graphql_retry_max=self.retries,
                    x_graphql_retry_wait_min_seconds=0.5,
                    x_graphql_retry_wait_max_seconds=4.0,
                )
            )
            self._api = wandb.Api(timeout=self.timeout)
        return self._api


def has_key() -> bool:
    """Return whether there is an API key for the server: in WANDB_API_KEY or in the user's netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return urlsplit(_url()).hostname in netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        return False


def _url() -> str:
    return os.environ.get("WANDB_BASE_URL") or DEFAULT_URL


def _message(error: BaseException) -> str:
    """Return one line on a failed request: the server, the status if there is one, and what to do."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 10:
        chain.append(cause)
        cause = cause.__cause__ or getattr(cause, "exc", None) or cause.__context__
    statuses = [status for link in chain if (status := getattr(getattr(link, "response", None), "http_status", None))]
    status = statuses[0] if statuses else None
    reason = (
        REASONS.get(int(status), "server error; try again later, or use the cache with --offline") if status else ""
    )
    what = one_line(str(error) or type(error).__name__)[:300]
    return (
        f"{_url()}: HTTP {status}: {reason}"
        if status
        else f"{_url()}: no usable answer ({what}); try again later, or use the cache with --offline"
    )


def _version(run: dict[str, Any]) -> str:
    """Return the version of an ended run's data, empty for one that may still grow."""
    return "" if run["state"] in ("running", "pending") else f"{run['state']} {run['heartbeat']}"


def _seconds(text: str | None) -> float:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _plain(value: Any) -> Any:
    """Return data from W&B as JSON data."""
    return json.loads(json.dumps(value, default=lambda item: dict(item) if hasattr(item, "keys") else str(item)))
