"""Samples of the two tasks, a prompt and its reference answer by the rules (A) or by an engine (P), and their files.

    held_out.jsonl   validation.jsonl   train.jsonl   manifest.json

A file has one JSON object per line: the position (`fen`), the `move` played, its `history`, `game`, `source` and `ply`,
and, if the position is labelled, the engine's `analysis`. The manifest has the hash of every file. The folder appears
in one step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import chess
import numpy as np

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import publish_folder, read_json, read_regular
from sparring.configs.core.status import say
from sparring.configs.core.tensor_file import sha256
from sparring.envs.chess.analysis import MOST_MOVES, Analysis, analysis_prompt, write_analysis
from sparring.envs.chess.arbiter import HISTORY, ArbiterQuestion, arbiter_prompt, true_transition, write_transition
from sparring.envs.chess.data.positions import SPLITS, ChessPositions, PositionRecord
from sparring.envs.chess.engines.engine import Engine
from sparring.envs.chess.engines.searchers import VALUES_VERSION
from sparring.envs.chess.engines.searchers import VERSION as BUILT_IN_SEARCH
from sparring.envs.chess.positions import check_position, read_legal_move

ANALYSIS, ARBITER = "P", "A"
MANIFEST = "manifest.json"
MAKE = "make it with `python -m sparring.envs.chess.data out=FOLDER`"


@dataclass(frozen=True)
class ChessSample:
    """A prompt of a task ("P" or "A") and its reference answer."""

    task: str
    prompt: str
    answer: str
    record: PositionRecord


def arbiter_sample(record: PositionRecord) -> ChessSample:
    """Return the A sample of a position and the move played in it."""
    question = ArbiterQuestion(record.fen, record.move, record.history)
    answer = write_transition(true_transition(record.fen, record.move))
    return ChessSample(ARBITER, arbiter_prompt(question), answer, record)


def analysis_sample(record: PositionRecord, analysis: Analysis) -> ChessSample:
    """Return the P sample of a position."""
    prompt, answer = analysis_prompt(record.fen), write_analysis(analysis)
    return ChessSample(ANALYSIS, prompt, answer, record)


def label(records: Sequence[PositionRecord], engine: Engine, *, seed: int) -> list[Analysis]:
    """Return the engine's analysis of every position: its five best moves, in an order drawn from `seed`.

    Raises `InputError` for an analysis that `check_analysis` refuses.
    """
    top = engine.batch_top_moves([chess.Board(record.fen) for record in records], MOST_MOVES)
    analyses = []
    for record, lines in zip(records, top, strict=True):
        ranks = np.random.default_rng([seed, record.game, record.ply]).permutation(len(lines))
        best = lines[0][0] if lines else ""  # of equal values the engine's first
        shuffled = [lines[rank] for rank in ranks]
        analysis = Analysis(tuple(move for move, _ in shuffled), tuple(value for _, value in shuffled), best)
        check_analysis(record.fen, analysis)
        analyses.append(analysis)
    return analyses


def check_analysis(fen: str, analysis: Analysis) -> None:
    """Refuse a label whose best move has not the largest evaluation, or whose moves are illegal or repeated.

    Raises `InputError` naming the position.
    """
    board = check_position(fen)
    moves, values = analysis.moves, analysis.evaluations
    illegal = [move for move in moves if read_legal_move(board, move) is None]
    if illegal:
        raise InputError(f"position {fen!r}: the label's move {illegal[0]} is illegal; label it again")
    if not 1 <= len(moves) == len(values) <= MOST_MOVES or len(set(moves)) < len(moves):
        raise InputError(f"position {fen!r}: a label has 1 to {MOST_MOVES} different moves, each with a value")
    if analysis.best not in moves or values[moves.index(analysis.best)] < max(values):
        raise InputError(f"position {fen!r}: the label's best move {analysis.best} has not the best value")


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
        manifest = read_json(folder / MANIFEST, follow=True)
        hashes = {f"{split}.jsonl": str(manifest["files"][f"{split}.jsonl"]) for split in SPLITS}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"env.data.folder={folder}: {MANIFEST} missing or unreadable; {MAKE}") from error
    splits, analyses, owner = {}, dict[str, Analysis](), dict[str, str]()
    for split in SPLITS:
        records = []
        for number, row in enumerate(_rows(folder / f"{split}.jsonl", hashes[f"{split}.jsonl"]), start=1):
            where = f"{folder / split}.jsonl:{number}"
            record, analysis = _read(row, where)
            if owner.setdefault(record.fen, where) != where:
                raise InputError(f"{where}: the position is also in {owner[record.fen]}; a position is in one split")
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
    rows = [asdict(record) for record in records]
    for row in rows:
        if analysis := analyses.get(row["fen"]):
            row["analysis"] = asdict(analysis)
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _rows(path: Path, digest: str) -> list[str]:
    try:
        data = read_regular(path, follow=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {MAKE}") from error
    if sha256(data) != digest:
        raise InputError(f"{path}: is damaged or was edited: its SHA-256 is not the one in {MANIFEST}; {MAKE}")
    return data.decode("utf-8", "replace").splitlines()


def _read(line: str, where: str) -> tuple[PositionRecord, Analysis | None]:
    try:
        row = json.loads(line)
        analysis = row.pop("analysis", None)
        record = PositionRecord(**{**row, "history": tuple(map(str, row["history"]))})
        label = analysis and Analysis(tuple(analysis["moves"]), tuple(analysis["evaluations"]), analysis["best"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{where}: is not a position with its move and history; {MAKE}") from error
    board = check_position(str(record.fen), f"{where}: position")
    if read_legal_move(board, str(record.move)) is None or record.history[-1:] != (record.move,):
        raise InputError(f"{where}: the move {record.move!r} is illegal in {record.fen!r} or missing in the history")
    if len(record.history) > HISTORY:
        raise InputError(f"{where}: has {len(record.history)} moves of history, at most {HISTORY} are shown")
    if label:
        check_analysis(record.fen, label)
    return record, label or None
