"""Chess evaluation games with scripted players: openings, illegal moves, endings, counts and PGN."""

import io
import json

import chess
import chess.pgn
import pytest

from sparring.agents.language.backend import Decision
from sparring.envs.chess.evaluation.games import (
    CUT_OFF,
    ILLEGAL,
    GameConditions,
    RandomPlayer,
    play_games,
)
from sparring.envs.chess.evaluation.models import ModelPlayer, MoveRequest
from sparring.envs.chess.evaluation.options import ChessOptions
from sparring.envs.chess.evaluation.results import OpponentResult, to_json, to_markdown, to_pgn
from sparring.envs.chess.positions import read_legal_move
from sparring.eval.options import parse


class Scripted:
    """Answer by full-move number, for each colour; the last answer repeats."""

    def __init__(self, name, white, black=()):
        self.name, self.moves = name, {chess.WHITE: white, chess.BLACK: black or white}

    def answer(self, requests):
        return [self._move(one.board) for one in requests]

    def _move(self, board):
        moves = self.moves[board.turn]
        return moves[min(board.fullmove_number, len(moves)) - 1]


FOOL = Scripted("fool", ["f2f3", "g2g4"], ["e7e5", "d8h4"])
SHUFFLER = Scripted("shuffler", ["g1f3", "f3g1"] * 40, ["g8f6", "f6g8"] * 40)


def conditions(games=2, *, plies=300, opening=0, lose=True, seed=3):
    return GameConditions(games, plies, opening, lose, seed)


def test_player_has_both_colours_and_mate_counts_for_mover():
    white, black = play_games(FOOL, FOOL, conditions())
    assert (white.player_is, black.player_is) == (chess.WHITE, chess.BLACK)
    assert {white.result, black.result} == {"0-1"}
    assert white.ending == "checkmate"
    assert (white.points, black.points) == (0.0, 1.0)
    assert [game.answers for game in (white, black)] == [2, 2]


def test_openings_come_in_pairs_by_seed():
    games = play_games(RandomPlayer("one"), RandomPlayer("other"), conditions(6, opening=6, plies=40))
    openings = [tuple(game.board.move_stack[:6]) for game in games]
    assert openings[::2] == openings[1::2]
    assert len(set(openings)) == 3
    again = play_games(FOOL, RandomPlayer(), conditions(6, opening=6, plies=40))
    assert [tuple(game.board.move_stack[:6]) for game in again] == openings
    assert [game.white for game in games] == ["one", "other"] * 3


def test_illegal_answer_loses_and_is_counted():
    stuck = Scripted("stuck", ["e2e4", "e4e6"], ["e7e5", ""])
    white, black = play_games(stuck, SHUFFLER, conditions())
    assert (white.result, white.ending, white.points) == ("0-1", ILLEGAL, 0.0)
    assert (black.result, black.ending, black.points) == ("1-0", ILLEGAL, 0.0)
    assert (white.answers, white.illegal, white.illegal_at) == (2, 1, {2: "e4e6"})
    assert black.illegal_at == {3: "no move"}


def test_illegal_answer_is_replaced_if_configured():
    stuck = Scripted("stuck", ["e2e4", "nonsense"])
    games = play_games(stuck, RandomPlayer(), conditions(lose=False, plies=20))
    assert {game.ending for game in games} == {CUT_OFF}
    assert [len(game.board.move_stack) for game in games] == [20, 20]
    assert [(game.answers, game.illegal) for game in games] == [(10, 9), (10, 10)]
    board = chess.Board()
    for move in games[0].board.move_stack:
        assert read_legal_move(board, move.uci())
        board.push(move)
    again = play_games(stuck, RandomPlayer(), conditions(lose=False, plies=20))
    assert [game.board.move_stack for game in again] == [game.board.move_stack for game in games]


def test_repetition_and_truncated_game_are_draws():
    game, _ = play_games(SHUFFLER, SHUFFLER, conditions())
    assert (game.result, game.ending, game.points) == ("1/2-1/2", "fivefold repetition", 0.5)
    assert len(game.board.move_stack) == 16
    cut, _ = play_games(SHUFFLER, SHUFFLER, conditions(plies=5))
    assert (cut.result, cut.ending) == ("1/2-1/2", CUT_OFF)


def test_self_match_counts_both_sides():
    white, _ = play_games(FOOL, None, conditions())
    assert (white.white, white.black) == ("fool", "fool")
    assert (white.answers, white.points) == (4, 0.0)


def test_written_pgn_is_read_back():
    odd = Scripted('quo"te } \n[x]', ["e2e4", "} bad"])
    games = play_games(odd, RandomPlayer(), conditions(4, opening=3, lose=False, plies=12))
    file = io.StringIO(to_pgn(games))
    for game in games:
        record = chess.pgn.read_game(file)
        assert record.errors == []
        assert list(record.mainline_moves()) == game.board.move_stack
        assert record.headers["Result"] == "1/2-1/2"
        assert record.headers["Termination"] == CUT_OFF
        assert "end of the random opening" in str(record)
        assert "illegal answer" in str(record)
    assert chess.pgn.read_game(file) is None


def test_table_by_hand():
    won = play_games(Scripted("stuck", ["e2e4", "bad"]), FOOL, conditions())
    drawn = play_games(SHUFFLER, SHUFFLER, conditions())
    options = parse(ChessOptions, ["--ckpt", "bot:random", "--opponents", "random", "--games", "2"])
    results = [OpponentResult("random", "random", won), OpponentResult("stockfish:1", "stand-in", drawn)]
    first, second = json.loads(to_json(options, "me", results))["records"]
    assert [first[name]["games"] for name in ("won", "drawn", "lost")] == [0, 0, 2]
    # Wilson's interval of 0 of 2 with z = 1.96: 0 to z^2 / (2 + z^2).
    assert first["won"]["interval"] == pytest.approx([0.0, 0.6576], abs=1e-4)
    assert first["illegal"] == first["illegal"] | {"answers": 3, "count": 2, "share": pytest.approx(2 / 3)}
    assert first["legal_half_moves"]["mean"] == 0.5
    assert second["drawn"]["share"] == second["points"]["mean"] * 2 == 1.0
    assert second["endings"] == {"fivefold repetition": 2}
    text = to_markdown(options, "me", results)
    assert "stand-in" in text
    assert "2 illegal move" in text


class Writer:
    """A backend that writes the given texts and records prompts."""

    name = "writer"

    def __init__(self, texts):
        self.texts, self.prompts = texts, []

    def decide(self, requests):
        self.prompts += requests
        return [Decision((), free_text=text) for text in self.texts]


def test_model_plays_best_move_it_writes():
    texts = ["M: e2e4 d2d4 E: 0.3 0.2   B: e2e4", "M: e2e4", "B: e7e8q", "B: e2e4 B: d2d4", "B:g1f3"]
    writer = Writer(texts)
    player = ModelPlayer("writer", writer, tokens=99)
    requests = [MoveRequest(chess.Board(), seed) for seed in range(5)]
    assert player.answer(requests) == ["e2e4", "", "e7e8q", "", "g1f3"]
    assert [prompt.seed for prompt in writer.prompts] == [0, 1, 2, 3, 4]
    assert writer.prompts[0].text == f"P: {chess.STARTING_FEN:<90}"
    assert writer.prompts[0].menu.tokens == 99
