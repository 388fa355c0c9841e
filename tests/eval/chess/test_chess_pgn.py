"""Games read again from PGN: the answers of a language model, positions of their own, and files that hold no game."""

import chess
import pytest

from sparring.configs.core.errors import InputError
from sparring.eval.chess.games import ChessGame
from sparring.eval.chess.page import page_data
from sparring.eval.chess.records import read_pgn, to_pgn

BLACK_TO_MOVE = "4k3/8/8/8/8/8/4p3/1K6 b - - 3 17"


def test_a_game_and_the_answers_in_it_are_read_again(capfd):
    board = chess.Board(BLACK_TO_MOVE)
    for san in ("e1=Q+", "Kb2", "Qe5+"):
        board.push_san(san)
    texts = {0: "M: e2e1q E: 8.5 B: e2e1q", 2: "M: e1e9 {x} B: e1e9", 3: ""}
    illegal = {2: "no move", 3: "no move"}
    game = ChessGame(board, "You", "model", chess.BLACK, 0, texts=texts, illegal_at=illegal)
    text = to_pgn([game], event="Sparring play")
    found = read_pgn(text)
    assert found.board.root().fen() == BLACK_TO_MOVE
    assert found.board.move_stack == board.move_stack
    assert (found.white, found.black, found.result, found.over) == ("You", "model", "*", False)
    assert found.texts == {0: texts[0], 2: "M: e1e9 'x' B: e1e9", 3: ""}
    assert found.illegal_at == illegal
    assert to_pgn([found], event="Sparring play") == text
    assert "Termination" not in text
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "or one without moves"),
        ("hello, world", "or one without moves"),
        ('[Result "*"]\n\n*', "or one without moves"),
        ("1. e4 e4", "cannot be played (illegal san: 'e4'"),
        ("1. e4 --", "a null move"),
        ('[Variant "Atomic"]\n\n1. e4', "a variant"),
        ('[Variant "Foo"]\n\n1. e4', "unsupported variant: Foo"),
        ('[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4', "cannot be played"),
        ('[FEN "4k3/8/8/8/8/8/8/4KK2 w - - 0 1"]\n\n1. Kd1', "is impossible (too_many_kings)"),
        ("(" * 5000, "or one without moves"),
    ],
)
def test_a_text_without_a_game_is_refused(text, words, capfd):
    with pytest.raises(InputError) as error:
        read_pgn(text)
    assert words in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_replay_counts_from_the_number_in_the_position():
    board = chess.Board(BLACK_TO_MOVE)
    board.push_san("Kd7")
    data = page_data(ChessGame(board, "a", "b", chess.WHITE, 0))
    # 16 moves of both sides and one of White came before.
    assert (data["before"], data["moves"]) == (33, [["Kd7", "e8d7"]])
    assert page_data(ChessGame(chess.Board(), "a", "b", chess.WHITE, 0))["before"] == 0
