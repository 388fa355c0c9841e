"""Positions and samples: deterministic, split by game, validated, and round-tripped."""

import json
from dataclasses import replace

import chess
import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis import Analysis, score_analysis
from sparring.envs.chess.arbiter import score_transition
from sparring.envs.chess.config import ChessDataConfig
from sparring.envs.chess.data.__main__ import main, read_command
from sparring.envs.chess.data.positions import SHARED_PLIES, SPLITS, draw_positions, play_game
from sparring.envs.chess.data.samples import (
    StoredPositions,
    analysis_sample,
    arbiter_sample,
    check_analysis,
    label,
    read_positions,
    write_positions,
)
from sparring.envs.chess.engines.engine import open_engine
from sparring.envs.chess.rollouts.evaluation import LabelTruth

SMALL = ChessDataConfig(train=60, validation=15, held_out=20)
START = chess.STARTING_FEN


@pytest.fixture(scope="module")
def engine():
    with open_engine("builtin") as opened:
        yield opened


def test_equal_options_give_equal_unique_positions():
    drawn = draw_positions(SMALL)
    assert drawn == draw_positions(SMALL)
    assert [len(drawn[split]) for split in SPLITS] == [20, 15, 60]
    fens = [record.fen for split in SPLITS for record in drawn[split]]
    assert len(set(fens)) == len(fens)
    assert drawn["train"][0].fen == START
    assert min(record.ply for record in drawn["held_out"]) >= SHARED_PLIES
    assert draw_positions(replace(SMALL, seed=7)) != drawn


def test_held_out_positions_do_not_depend_on_training_size():
    assert draw_positions(replace(SMALL, train=10))["held_out"] == draw_positions(SMALL)["held_out"]


def test_recorded_history_leads_to_position():
    for record in play_game(ChessDataConfig(plies=10), 2, 5):
        board = chess.Board()
        for move in record.history[:-1]:
            board.push(chess.Move.from_uci(move))
        assert (board.fen(), board.ply()) == (record.fen, record.ply)
        assert chess.Move.from_uci(record.move) in board.legal_moves


def test_too_many_positions_are_rejected_in_one_line(monkeypatch):
    monkeypatch.setattr("sparring.envs.chess.data.positions.MOST_EMPTY_GAMES", 3)
    monkeypatch.setattr("sparring.envs.chess.data.positions.play_game", lambda config, split, number: [])
    with pytest.raises(InputError, match=r"env\.data\.held_out=1000000: .* gave only 0 different positions"):
        draw_positions(replace(SMALL, held_out=1_000_000))


def test_labels_are_for_side_to_move_with_best_first(engine):
    records = draw_positions(SMALL)["train"][:6]
    assert {chess.Board(record.fen).turn for record in records} == {True, False}
    for record, analysis in zip(records, label(records, engine, seed=1), strict=True):
        values = dict(zip(analysis.moves, analysis.evaluations, strict=True))
        assert values[analysis.best] == max(values.values())
        sample = analysis_sample(record, analysis)
        assert sample.prompt.startswith("P: ")
        assert len(sample.prompt) == 93
        assert score_analysis(sample.prompt, sample.answer, LabelTruth({record.fen: analysis})).total == pytest.approx(
            1
        )


@pytest.mark.parametrize(
    ("analysis", "why"),
    [
        (Analysis(("e2e4", "d2d4"), (0.3, 0.4), "e2e4"), "best move e2e4 has not the best value"),
        (Analysis(("e2e5",), (0.3,), "e2e5"), "move e2e5 is illegal"),
        (Analysis(("e2e4", "e2e4"), (0.3, 0.3), "e2e4"), "different moves"),
        (Analysis(("e2e4",), (0.3, 0.1), "e2e4"), "each with a value"),
        (Analysis((), (), ""), "1 to 5"),
    ],
)
def test_wrong_label_is_rejected(analysis, why):
    with pytest.raises(InputError, match=why):
        check_analysis(START, analysis)


def test_arbiter_reference_answer_has_full_reward():
    for record in draw_positions(SMALL)["held_out"]:
        sample = arbiter_sample(record)
        assert score_transition(sample.prompt, sample.answer).total == pytest.approx(0.54)


def test_data_round_trips(tmp_path, engine):
    positions = draw_positions(SMALL)
    chosen = positions["train"][:3]
    analyses = {r.fen: a for r, a in zip(chosen, label(chosen, engine, seed=1), strict=True)}
    write_positions(tmp_path / "a", StoredPositions(positions, analyses, {"engine": engine.name}))
    found = read_positions(tmp_path / "a")
    assert (found.positions, found.analyses) == (positions, analyses)
    write_positions(tmp_path / "b", StoredPositions(positions, analyses, {"engine": engine.name}))
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


@pytest.mark.parametrize(
    ("summary", "named"),
    [
        ({"engine": "Stockfish 15.1, depth 10"}, "its labels by Stockfish 15.1, depth 10 may hold bounds as values"),
        ({"engine": "Stockfish 15.1, depth 10", "values": 2}, ""),
        ({"engine": "built-in search 1 (material and mobility), depth 2"}, ""),
    ],
)
def test_folder_labelled_with_bounds_is_named(tmp_path, engine, capsys, summary, named):
    positions = draw_positions(SMALL)
    first = positions["train"][0]
    labels = {first.fen: label([first], engine, seed=1)[0]}
    write_positions(tmp_path / "a", StoredPositions(positions, labels, summary))
    read_positions(tmp_path / "a")
    said = capsys.readouterr().err
    assert named in said if named else not said


def damaged(folder, change):
    """Replace the first training position and sign the file again."""
    from sparring.configs.core.tensor_file import sha256

    path = folder / "train.jsonl"
    rows = [json.loads(text) for text in path.read_text().splitlines()]
    rows[0] |= change
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["train.jsonl"] = sha256(path.read_bytes())
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fen": "no position"}, r"train\.jsonl:1: position 'no position': is not a FEN"),
        ({"fen": "4k3/8/8/8/8/8/4P3/4K3 w KQ - 0 1"}, r"train\.jsonl:1: position .* is impossible \(bad_castling"),
        ({"move": "e2e5"}, "the move 'e2e5' is illegal"),
        ({"history": 3}, "not a position with its move"),
        (
            {"analysis": {"moves": ["a2a3", "e2e4"], "evaluations": [0.5, 0.1], "best": "e2e4"}},
            "has not the best value",
        ),
    ],
)
def test_damaged_line_is_named(tmp_path, change, why):
    write_positions(tmp_path / "data", StoredPositions(draw_positions(SMALL)))
    damaged(tmp_path / "data", change)
    with pytest.raises(InputError, match=why):
        read_positions(tmp_path / "data")


def test_missing_or_edited_folder_is_named_with_command(tmp_path):
    with pytest.raises(InputError, match=r"env\.data\.folder=.*python -m sparring\.envs\.chess\.data"):
        read_positions(tmp_path / "none")
    write_positions(tmp_path / "data", StoredPositions(draw_positions(SMALL)))
    (tmp_path / "data" / "train.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"train\.jsonl: is damaged or was edited"):
        read_positions(tmp_path / "data")


def test_command_writes_and_reports_positions(tmp_path, printed, error_line):
    out = tmp_path / "data"
    options = ["train=12", "validation=3", "held_out=4", "labelled=2", "engine=builtin"]
    assert "held_out: 4 positions" in printed(main, [f"out={out}", *options])
    assert len(read_positions(out).analyses) == 6
    assert error_line(main, ["out=x", "plies=2"]) == "sparring.envs.chess.data: plies=2: must be in [4, 300]\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "out=: name the output folder"),
        (["out=x", "trian=3"], "did you mean 'train'"),
        (["out=x", "train=3.5"], "train=3.5: must be an integer"),
        (["out=x", "labelled=-1"], "labelled=-1: must be at least 0"),
    ],
)
def test_wrong_command_options_are_rejected(arguments, why):
    with pytest.raises(InputError, match=why):
        read_command(arguments)
