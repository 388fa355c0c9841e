"""The engine of the chess tasks: answers, cache, crashes, and the built-in fallback search."""

import random
import sqlite3
import subprocess
import sys

import chess
import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.chess.engines import searchers
from sparring.envs.chess.engines.engine import BUILT_IN, open_engine
from sparring.envs.chess.engines.searchers import find_stockfish
from tests.envs.chess.engines.uci_programs import write_puppet

needs_stockfish = pytest.mark.skipif(find_stockfish() is None, reason="Stockfish is not installed")
MATE_IN_ONE = chess.Board("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")
MATED = chess.Board("R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1")
STALEMATE = chess.Board("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1")
HANGING_QUEEN = chess.Board("4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1")
ENGINES = [BUILT_IN, pytest.param("", marks=needs_stockfish, id="stockfish")]


def some_boards(count, plies=12, seed=3):
    draw, boards = random.Random(seed), []
    for _ in range(count):
        board = chess.Board()
        for _ in range(plies):
            board.push(draw.choice(sorted(board.legal_moves, key=str)))
        boards.append(chess.Board(board.fen()))
    return boards


@pytest.mark.parametrize("path", ENGINES)
def test_moves_and_values_of_known_positions(path):
    with open_engine(path, depth=6) as engine:
        assert engine.top_moves(MATE_IN_ONE, 2)[0] == ("a1a8", 99.99)
        assert engine.value(MATE_IN_ONE) == 99.99
        assert engine.value(MATED) == -100.0
        assert engine.value(STALEMATE) == 0.0
        assert engine.top_moves(MATED, 5) == []
        assert engine.top_moves(HANGING_QUEEN, 5)[0][0] == "e4d5"
        lines = engine.top_moves(chess.Board(), 5)
        assert len({move for move, _ in lines}) == 5
        assert [value for _, value in lines] == sorted((value for _, value in lines), reverse=True)


@pytest.mark.parametrize("path", ENGINES)
def test_values_are_for_side_to_move(path):
    up_a_queen = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR {} KQkq - 0 1"
    with open_engine(path, depth=6) as engine:
        assert engine.value(chess.Board(up_a_queen.format("w"))) > 3
        assert engine.value(chess.Board(up_a_queen.format("b"))) < -3


@pytest.mark.parametrize("path", ENGINES)
def test_order_and_process_count_do_not_matter(path):
    boards = some_boards(6)
    with open_engine(path, depth=8) as engine, open_engine(path, depth=8, processes=2) as others:
        forwards = [engine.top_moves(board, 3) for board in boards], [engine.value(board) for board in boards]
        values = others.batch_values(boards[::-1] + boards[:2])
        assert (others.batch_top_moves(boards[::-1], 3)[::-1], values[5::-1]) == forwards
        assert values[6:] == forwards[1][:2]


def test_single_line_is_first_of_multi_pv():
    with open_engine(BUILT_IN) as engine:
        for board in some_boards(8, plies=20):
            everything = engine.top_moves(board, 300)
            assert len(everything) == board.legal_moves.count()
            assert engine.top_moves(board, 3) == everything[:3]
            assert engine.value(board) == everything[0][1]


def test_built_in_search_is_announced_without_stockfish(monkeypatch, capsys):
    monkeypatch.setattr(searchers, "PLACES", ("no-such-program",))
    with open_engine() as engine:
        assert engine.stand_in
        assert engine.name == "built-in search 1 (material and mobility), depth 2"
    said = capsys.readouterr().err
    assert "Stockfish is not installed (apt-get install stockfish)" in said
    assert "built-in search 1" in said


@needs_stockfish
def test_stockfish_is_named_with_version_and_depth(capsys):
    with open_engine(depth=3) as engine:
        assert engine.name.startswith("Stockfish ")
        assert engine.name.endswith(", depth 3")
        assert not engine.stand_in
    assert capsys.readouterr().err == ""


def test_lines_are_cached_by_position_count_depth_and_version(tmp_path):
    program, log = write_puppet(tmp_path)
    start, other = chess.Board(), chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")
    for _ in range(2):
        with open_engine(program, depth=4, cache=tmp_path / "new" / "lines.sqlite") as engine:
            assert engine.name == "Puppet 3, depth 4"
            assert engine.batch_top_moves([start, start, other], 1) == [[("e2e4", 0.07)]] * 3
    assert len(log.read_text().splitlines()) == 2
    with open_engine(program, depth=5, cache=tmp_path / "new" / "lines.sqlite") as engine:
        engine.value(start)
        engine.top_moves(start, 2)
    assert len(log.read_text().splitlines()) == 4


def test_old_cached_values_with_bounds_are_recomputed(tmp_path, capsys):
    """The cache table is that of earlier versions, keyed by the engine's name only."""
    program, log = write_puppet(tmp_path)
    with sqlite3.connect(tmp_path / "lines.sqlite") as store:
        store.execute(
            "CREATE TABLE lines (engine TEXT, depth INTEGER, multipv INTEGER, fen TEXT, found TEXT,"
            " PRIMARY KEY (engine, depth, multipv, fen)) WITHOUT ROWID"
        )
        row = ("Puppet 3", 4, 1, chess.STARTING_FEN, '[["e2e4", -100.0]]')
        store.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", row)
    with open_engine(program, depth=4, cache=tmp_path / "lines.sqlite") as engine:
        assert engine.value(chess.Board()) == 0.07
    assert len(log.read_text().splitlines()) == 1
    assert "lines.sqlite: 1 searches of Puppet 3 may hold bounds as values" in capsys.readouterr().err
    with open_engine(program, depth=5, cache=tmp_path / "lines.sqlite"):
        assert capsys.readouterr().err == ""


def test_engine_receives_position_without_history(tmp_path):
    program, log = write_puppet(tmp_path)
    board = chess.Board()
    board.push_uci("g1f3")
    with open_engine(program) as engine:
        assert engine.value(board) == -0.07
    assert log.read_text().split()[1:3] == ["fen", board.fen().split()[0]]
    assert "moves" not in log.read_text()


def test_crash_restarts_engine_once(tmp_path):
    program, log = write_puppet(tmp_path, fatal="4k3", times=1)
    with open_engine(program) as engine:
        assert engine.value(chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")) == 0.07
    assert len(log.read_text().splitlines()) == 2


def test_process_with_open_engine_exits(tmp_path):
    """Runs close the engine at exit; a thread joined before that would block exit."""
    program, _ = write_puppet(tmp_path)
    code = f"""
import chess
from sparring.configs.load import load
from sparring.envs.chess.rollouts.sources import engine_of

env = load(["+run=rookworld_overfit_r4", "env.engine.path={program}"]).env
print(engine_of(env).value(chess.Board()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "0.07\n")


def test_second_crash_names_position_and_loses_nothing(tmp_path):
    fatal = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    program, log = write_puppet(tmp_path, fatal="4k3", times=2)
    boards = [chess.Board(fatal), chess.Board(), chess.Board("3k4/8/8/8/8/8/4P3/4K3 w - - 0 1")]
    with open_engine(program, cache=tmp_path / "lines.sqlite") as engine:
        with pytest.raises(InputError, match=f"failed twice at the position '{fatal}'") as raised:
            engine.batch_values(boards)
        assert "\n" not in str(raised.value)
        assert engine.batch_values(boards) == [0.07] * 3
    assert len(log.read_text().splitlines()) == 5


E4, D4 = "depth 4 multipv 1 score cp 30 pv e2e4 e7e5", "depth 4 multipv 2 score cp 20 pv d2d4"
BOTH = [("e2e4", 0.3), ("d2d4", 0.2)]


@pytest.mark.parametrize(
    ("lines", "count", "found"),
    [
        ((E4, D4), 2, BOTH),
        (("depth 3 multipv 1 score cp 90 pv d2d4", "depth 3 multipv 2 score cp 1 pv e2e4", E4, D4), 2, BOTH),
        ((E4, D4, "depth 4 multipv 1 score cp 900 lowerbound pv e2e4"), 2, BOTH),
        ((E4, D4, "depth 5 multipv 1 score cp -900 upperbound pv e2e4", "depth 5 currmove a2a3"), 2, BOTH),
        ((E4, D4, "depth 1 multipv 1 score cp 1 pv a2a3", "depth 1 multipv 2 score cp 0 pv a2a4"), 2, BOTH),
        (("depth 4 multipv 1 score cp 50 pv d2d4", "depth 4 multipv 2 score cp 40 pv e2e4", E4, D4), 2, BOTH),
        ((E4, D4, "depth 4 multipv 2 score mate 0 pv d2d4 e7e5"), 2, BOTH),
        ((E4.replace("multipv 1 ", ""), "string depth 9 score cp 900 pv d2d4", "nodes 9 nps 9"), 1, BOTH[:1]),
        (("depth 4 score cp 30",), 1, BOTH[:1]),
        (("depth 4 score mate 3 pv e2e4",), 1, [("e2e4", 99.97)]),
        (("depth 4 score mate -2 pv e2e4",), 1, [("e2e4", -99.98)]),
        (("depth 3 score cp 30 pv e2e4",), 1, BOTH[:1]),  # stopped by itself
        ((E4, "depth 4 multipv 2 score mate 0 pv d2d4 e7e5"), 2, 1),
        ((E4, "depth 3 multipv 2 score cp 20 pv d2d4"), 2, 1),
        ((E4, D4.replace("d2d4", "e2e4")), 2, 1),
        ((E4, "depth 4 multipv 2 score cp 20"), 2, 1),
        ((E4.replace("pv", "lowerbound pv"), "depth 3 multipv 1 score cp 5 pv e2e4"), 1, 0),
        (("depth 4 score cp 1 pv e2e5", "depth x score cp x", "score tb 1 pv e2e4", "multipv"), 2, 1),
        ((), 1, 0),
    ],
)
def test_values_are_last_exact_ones_of_full_depth(lines, count, found, tmp_path, capfd):
    """By hand, in pawns; a number is the count of moves with exact values where a value is missing."""
    says = "".join(f"info {line}\n" for line in lines) + "bestmove e2e4"
    program, _ = write_puppet(tmp_path, says=says)
    with open_engine(program, depth=4) as engine:
        if isinstance(found, list):
            assert engine.top_moves(chess.Board(), count) == found
        else:
            said = rf"failed twice at the position .*sent exact values of {found} of the {count} best moves"
            with pytest.raises(InputError, match=said):
                engine.top_moves(chess.Board(), count)
    assert capfd.readouterr().err == ""


def test_silent_engine_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(searchers, "SEARCH_TIMEOUT_S", 0.3)
    program, log = write_puppet(tmp_path, says="")
    with open_engine(program, depth=4) as engine, pytest.raises(InputError, match=r"depth 4 was not reached in 0\.3 s"):
        engine.value(chess.Board())
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "fen", ["8/8/8/8/8/8/8/8 w - - 0 1", "kk6/8/8/8/8/8/8/K7 w - - 0 1", "4k3/4Q3/8/8/8/8/8/4K3 w - - 0 1"]
)
def test_impossible_positions_are_rejected_by_name(fen):
    with open_engine(BUILT_IN) as engine, pytest.raises(InputError, match=f"position '{fen}': is impossible"):
        engine.value(chess.Board(fen))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, r"engine depth=0: must be in \[1, 60\]"),
        ({"processes": 0}, r"engine processes=0: must be in \[1, 256\]"),
        ({"path": "/no/such/stockfish"}, "is not a program that can be run; give Stockfish's path"),
        ({"path": "true"}, "engine '.*true': does not answer as a UCI engine"),
    ],
)
def test_bad_options_are_rejected_in_one_line(options, message):
    with pytest.raises(InputError, match=message):
        open_engine(**options)


def test_invalid_cache_file_is_rejected(tmp_path):
    (tmp_path / "lines.sqlite").write_text("nonsense " * 100)
    with pytest.raises(InputError, match="cannot be used"):
        open_engine(BUILT_IN, cache=tmp_path / "lines.sqlite")
