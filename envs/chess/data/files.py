"""Positions and labels on disk: one JSON object per line and split, and a manifest with the hash of every file.

    held_out.jsonl   validation.jsonl   train.jsonl   manifest.json

A line has the position (`fen`), the `move` played, its `history`, `game`, `source` and `ply`, and, if the position is
labelled, the engine's `analysis`. The folder appears in one step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import publish_folder
from sparring.configs.core.regular_file import read_regular, read_regular_text
from sparring.configs.core.status import say
from sparring.configs.core.tensor_file import sha256
from sparring.envs.chess.analysis_text import Analysis
from sparring.envs.chess.arbiter_text import HISTORY
from sparring.envs.chess.data.games import PositionRecord
from sparring.envs.chess.data.samples import check_analysis
from sparring.envs.chess.data.splits import SPLITS, ChessPositions
from sparring.envs.chess.engines.builtin_search import VERSION as BUILT_IN_SEARCH
from sparring.envs.chess.engines.lines import VALUES_VERSION
from sparring.envs.chess.positions import check_position, read_legal_move

MANIFEST = "manifest.json"
MAKE = "make it with `python -m sparring.envs.chess.data out=FOLDER`"


@dataclass(frozen=True)
class StoredPositions:
    """Positions of a folder, the analyses of those labelled by FEN, and the manifest's summary."""

    positions: ChessPositions
    analyses: Mapping[str, Analysis] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


def write_positions(folder: Path, stored: StoredPositions) -> None:
    """Write a folder; equal arguments give equal bytes. Raises `OSError`; `folder` is then unchanged."""
    files = {f"{split}.jsonl": _lines(stored.positions[split], stored.analyses) for split in SPLITS}
    hashes = {name: sha256(data) for name, data in files.items()}
    manifest = json.dumps({"files": hashes, **stored.summary}, indent=1, sort_keys=True) + "\n"
    publish_folder(folder, files | {MANIFEST: manifest.encode()})


def read_positions(folder: Path) -> StoredPositions:
    """Read a folder of `write_positions`; raises `InputError` naming the file and line of the first fault."""
    try:
        manifest = json.loads(read_regular_text(folder / MANIFEST, follow=True))
        hashes = {f"{split}.jsonl": str(manifest["files"][f"{split}.jsonl"]) for split in SPLITS}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"env.data.folder={folder}: has no readable {MANIFEST}; {MAKE}") from error
    splits, analyses, owner = {}, dict[str, Analysis](), dict[str, str]()
    for split in SPLITS:
        records = []
        for number, row in enumerate(_rows(folder / f"{split}.jsonl", hashes[f"{split}.jsonl"]), start=1):
            place = f"{folder / split}.jsonl:{number}"
            record, analysis = _read(row, place)
            if owner.setdefault(record.fen, place) != place:
                raise InputError(f"{place}: the position is also in {owner[record.fen]}; a position is in one split")
            records.append(record)
            if analysis:
                analyses[record.fen] = analysis
        splits[split] = tuple(records)
    _say_if_old(folder, manifest, analyses)
    return StoredPositions(ChessPositions(splits), analyses, manifest)


def _say_if_old(folder: Path, manifest: Mapping[str, Any], analyses: Mapping[str, Analysis]) -> None:
    """Say that labels may hold what no longer counts as a value; those of the built-in search never did."""
    engine = str(manifest.get("engine", ""))
    if analyses and manifest.get("values") != VALUES_VERSION and not engine.startswith(BUILT_IN_SEARCH):
        say(f"env.data.folder={folder}: its labels by {engine or 'an engine'} may hold bounds as values; make it again")


def _lines(records: Sequence[PositionRecord], analyses: Mapping[str, Analysis]) -> bytes:
    rows = (asdict(record) | _labelled(analyses.get(record.fen)) for record in records)
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _labelled(analysis: Analysis | None) -> dict[str, Any]:
    return {"analysis": asdict(analysis)} if analysis else {}


def _rows(path: Path, digest: str) -> list[str]:
    try:
        data = read_regular(path, follow=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {MAKE}") from error
    if sha256(data) != digest:
        raise InputError(f"{path}: is damaged or was edited: its SHA-256 is not the one in {MANIFEST}; {MAKE}")
    return data.decode("utf-8", "replace").splitlines()


def _read(line: str, place: str) -> tuple[PositionRecord, Analysis | None]:
    try:
        row = json.loads(line)
        analysis = row.pop("analysis", None)
        record = PositionRecord(**{**row, "history": tuple(map(str, row["history"]))})
        label = analysis and Analysis(tuple(analysis["moves"]), tuple(analysis["evaluations"]), analysis["best"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{place}: is no position with its move and history; {MAKE}") from error
    board = check_position(str(record.fen), f"{place}: position")
    if read_legal_move(board, str(record.move)) is None or record.history[-1:] != (record.move,):
        raise InputError(f"{place}: the move {record.move!r} is illegal in {record.fen!r} or missing in the history")
    if len(record.history) > HISTORY:
        raise InputError(f"{place}: has {len(record.history)} moves of history, at most {HISTORY} are shown")
    if label:
        check_analysis(record.fen, label)
    return record, label or None
