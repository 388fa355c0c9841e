"""Chess for people: moves of a game, the server's shared game and messages, and the page."""

import asyncio
import json
import time
from dataclasses import replace

import chess
import chess.pgn
import pytest
from websockets.sync.client import connect

from sparring.configs.core.errors import InputError
from sparring.envs.chess.browser.person_game import PersonGame, name_players, new_game, read_fen, read_move, resume_game
from sparring.envs.chess.browser.session import (
    ChessOpponents,
    ChessTable,
    HostedChess,
    MoveAnswer,
    TableRules,
    saved_opponent,
)
from sparring.envs.chess.evaluation.games import RandomPlayer
from sparring.envs.chess.evaluation.options import find_chess_player
from sparring.envs.game import load
from sparring.eval import play
from sparring.eval.browser.server import answer
from sparring.eval.options import parse_known
from tests.configs import messages
from tests.envs.dogfight.browser.test_live import ask, serving

ROOK_ENDING = "7k/8/8/8/8/8/P7/R3K2R w KQ - 0 1"


def person_game(fen=chess.STARTING_FEN, side=chess.WHITE, *, lose=True):
    return PersonGame(name_players(new_game(fen, side), "model"), lose=lose, seed=1)


def played(*moves, **how):
    """Return a game in which both sides play the given moves in turn."""
    game = person_game(**how)
    for move in moves:
        if game.your_turn:
            game.move(move)
        else:
            game.answer(MoveAnswer(game.board.parse_san(move).uci()))
    return game


# ---- a game


@pytest.mark.parametrize(
    ("fen", "text", "uci"),
    [
        (chess.STARTING_FEN, "e2e4", "e2e4"),
        (chess.STARTING_FEN, " Nf3 ", "g1f3"),
        (chess.STARTING_FEN, "E2E4", "e2e4"),
        (ROOK_ENDING, "0-0", "e1g1"),
        (ROOK_ENDING, "O-O-O", "e1c1"),
        (ROOK_ENDING, "e1h1", "e1g1"),
        ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a8=N", "a7a8n"),
        ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8q", "a7a8q"),
    ],
)
def test_move_is_read_in_both_notations(fen, text, uci):
    assert read_move(chess.Board(fen), text).uci() == uci


@pytest.mark.parametrize("text", ["e2e5", "Ke2", "--", "0000", "Z0", "", "a7a8", "{", "e" * 16])
def test_invalid_move_texts_are_rejected(text):
    with pytest.raises(InputError, match="is not a legal move"):
        read_move(chess.Board("7k/P7/8/8/8/8/8/K7 w - - 0 1"), text)


def test_ambiguous_move_has_own_message():
    with pytest.raises(InputError, match="name the file or rank too"):
        read_move(chess.Board("7k/8/8/8/8/5N2/8/KN6 w - - 0 1"), "Nd2")


def test_game_end_matches_python_chess():
    mated = played("f3", "e5", "g4", "Qh4#")
    assert (mated.game.result, mated.game.ending) == ("0-1", "checkmate")
    with pytest.raises(InputError, match="the game is over"):
        mated.move("a3")
    shuffled = played(*["Nf3", "Nf6", "Ng1", "Ng8"] * 2)
    assert shuffled.message()["claim"]
    shuffled.claim()
    assert (shuffled.game.result, shuffled.game.ending) == ("1/2-1/2", "threefold repetition")
    shuffled.undo()
    shuffled.move("e4")
    with pytest.raises(InputError, match="claim a draw on your turn"):
        shuffled.claim()


def test_resigning_loses_and_takeback_continues():
    lost = played("e4", "e5", "d4", side=chess.BLACK)
    lost.resign()
    assert (lost.game.result, lost.game.ending) == ("1-0", "resignation")
    lost.undo()
    assert [move.uci() for move in lost.board.move_stack] == ["e2e4"]
    assert (lost.game.result, lost.your_turn) == ("*", True)
    with pytest.raises(InputError, match="not made a move"):
        lost.undo()


def test_illegal_answer_loses_or_is_replaced():
    text = "M: e7e5 e7e4 E: 0.2 -0.1 B: e7e4"
    lost = person_game()
    lost.move("e4")
    lost.answer(MoveAnswer("e7e4", text))
    assert (lost.game.result, lost.game.ending, lost.game.illegal_at) == ("1-0", "illegal move", {1: "e7e4"})
    told = lost.message()["answers"]["1"]
    assert told == {"text": text, "moves": [["e7e5", "e5", 0.2], ["e7e4", "", -0.1]], "best": ["e7e4", ""]}
    lost.undo()
    assert (lost.game.over, lost.game.illegal_at, lost.game.texts) == (False, {}, {})
    replaced = person_game(lose=False)
    replaced.move("e4")
    replaced.answer(MoveAnswer("", ""))
    assert replaced.your_turn
    assert replaced.game.illegal_at == {1: "no move"}
    assert replaced.message()["answers"] == {"1": {"text": "", "moves": [], "best": ["", ""]}}


# ---- where games begin


@pytest.mark.parametrize(
    ("fen", "why"),
    [
        ("here", "not a FEN"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "impossible"),
        ("7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "over .checkmate"),
        ("nrbbqknr/pppppppp/8/8/8/8/PPPPPPPP/NRBBQKNR w KQkq - 0 1", "a Chess960 position"),
    ],
)
def test_position_without_moves_is_rejected(fen, why):
    with pytest.raises(InputError, match=rf"--fen .* is {why}.*; give a position that can occur"):
        read_fen(fen)


def test_game_is_resumed_from_its_side(tmp_path):
    path = tmp_path / "game.pgn"
    path.write_text('[White "model"]\n[Black "You"]\n\n1. e4 e5 *')
    game = resume_game(path, "")
    assert (game.player_is, len(game.board.move_stack)) == (chess.WHITE, 2)
    assert resume_game(path, "white").player_is == chess.BLACK
    for text, words in (
        ("1. e4 e5 *", "has no player named You"),
        ('[White "You"]\n[Result "1-0"]\n\n1. e4 1-0', "the game is over"),
        ('[White "You"]\n\n1. f3 e5 2. g4 Qh4# *', r"the game is over \(0-1\)"),
        ("1. e4 e4", "1 of 1 games refused; game 1, ply 2: 'e4' is an illegal move"),
        ("", "has no playable game: none with moves in PGN"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words) as error:
            resume_game(path, "")
        assert str(error.value).startswith(f"--resume {path}: ")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not a move in SAN"):
        resume_game(path, "")
    with pytest.raises(InputError, match="No such file"):
        resume_game(tmp_path / "none.pgn", "")


def test_rejected_games_of_file_are_counted(tmp_path, capsys):
    """The file is Latin-1, as PGN has it: the first game is German, the second is resumed."""
    path = tmp_path / "game.pgn"
    path.write_bytes('[White "Jürgen"]\n\n1. Sf3 *\n\n[White "Jürgen"]\n[Black "You"]\n\n1. Nf3 *'.encode("latin-1"))
    assert resume_game(path, "").white == "Jürgen"
    assert f"--resume {path}: 1 of 2 games refused; game 1, ply 1: 'Sf3' is not a move" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("saved", "opponent"),
    [
        ("stockfish:3 (Stockfish 15.1, depth 3)", "stockfish:3"),
        ("builtin (built-in search 1 (material and mobility), depth 2)", "builtin"),
        ("http://127.0.0.1:1/v1", ""),
        ("/somewhere/model", ""),
        ("Carlsen, Magnus", ""),
    ],
)
def test_resumed_game_continues_against_bot_but_not_file_or_server(saved, opponent, tmp_path):
    path = tmp_path / "game.pgn"
    path.write_text(f'[White "You"]\n[Black "{saved}"]\n\n1. e4 e5 *')
    assert saved_opponent(resume_game(path, "")) == opponent


def test_unknown_opponent_error_lists_choices():
    for name, words in (("stokfish", "did you mean 'stockfish'"), ("stockfish:99", "depth of stockfish 99")):
        with pytest.raises(InputError, match=words):
            find_chess_player(name)


# ---- the shared game of a server


class SlowPlayer:
    """Answer with scripted moves after a delay, by half-move."""

    def __init__(self, moves, seconds=0.0):
        self.name, self.moves, self.seconds = "script (slow)", moves, seconds

    def answer(self, requests):
        time.sleep(self.seconds)
        found = self.moves[requests[0].board.ply()]
        if isinstance(found, Exception):
            raise found
        return [found]


def table_of(tmp_path, player, *, fen=chess.STARTING_FEN, side="white", resumed=None):
    opponents = ChessOpponents(loaded={"script": player, "random": RandomPlayer()})
    rules = TableRules(side, fen, True, 3, tmp_path)
    return ChessTable(opponents, ("script", "random"), rules, resumed)


def talk(table, *messages):
    """Send messages to one page, each once the game is idle; return what the page received."""
    told = []

    async def main():
        async def send(message):
            told.append(message)

        session = HostedChess(table).connect(send)
        loop = asyncio.create_task(session.run())
        for message in (*messages, None):
            await asyncio.sleep(0.01)
            while table.thinking and message != {"kind": "undo"}:
                await asyncio.sleep(0.01)
            if message is not None:
                await answer(session, message if isinstance(message, str) else json.dumps(message), send)
        await asyncio.sleep(0.01)
        loop.cancel()
        session.close()

    asyncio.run(main())
    return told


def move(text, **more):
    return {"kind": "move", "text": text, **more}


def test_game_is_played_saved_and_resumed(tmp_path):
    table = table_of(tmp_path, SlowPlayer({1: "e7e5", 3: "d8h4"}))
    told = talk(table, move("f3", ply=0), move("g4", ply=0), move("g4", ply=2))
    assert [one["text"] for one in told if one["kind"] == "note"] == ["the game has changed; look at the board again"]
    last = told[-1]
    assert (last["result"], last["ending"], last["legal"]) == ("0-1", "checkmate", [])
    with open(tmp_path / "game-1.pgn") as file:
        record = chess.pgn.read_game(file)
    assert record.headers["Result"] == "0-1"
    assert (record.headers["White"], record.headers["Black"]) == ("You", "script (slow)")
    assert record.end().board().is_checkmate()
    assert '"Qh4#"' in (tmp_path / "game-1.html").read_text()
    talk(table, {"kind": "undo"})
    game = resume_game(tmp_path / "game-1.pgn", "")
    assert [one.uci() for one in game.board.move_stack] == ["f2f3", "e7e5"]
    again = table_of(tmp_path, SlowPlayer({3: "d8h4"}), resumed=replace(game))
    told = talk(again, move("g4"))
    assert told[-1]["ending"] == "checkmate"
    assert (tmp_path / "game-2.pgn").exists()


def test_answer_to_retracted_move_is_dropped(tmp_path):
    table = table_of(tmp_path, SlowPlayer({1: "e7e5"}, seconds=0.1))
    told = talk(table, move("e4"), {"kind": "undo"}, move("d4"))
    assert [move[0] for move in told[-1]["moves"]] == ["d4", "e5"]


def test_opponent_starts_and_new_game_keeps_side(tmp_path):
    table = table_of(tmp_path, SlowPlayer({0: "e2e4"}), side="black")
    told = talk(table, {"kind": "begin", "opponent": "random", "side": "white"})
    games = [one for one in told if one["kind"] == "game"]
    assert next((one["you"], len(one["moves"])) for one in games if not one["thinking"]) == ("black", 1)
    assert (games[-1]["you"], games[-1]["opponent"], games[-1]["moves"]) == ("white", "random", [])
    assert not list(tmp_path.iterdir())


def test_failing_opponent_is_retried(tmp_path):
    moves = {1: InputError("engine: failed twice")}
    table = table_of(tmp_path, SlowPlayer(moves))
    told = talk(table, move("e4"))
    assert (told[-1]["problem"], told[-1]["thinking"]) == ("engine: failed twice", False)
    moves[1] = "e7e5"
    told = talk(table, {"kind": "retry"})
    assert (told[-1]["problem"], len(told[-1]["moves"])) == ("", 2)


def test_removed_folder_is_reported_and_game_continues(tmp_path):
    folder = tmp_path / "replays"
    table = table_of(folder, SlowPlayer({1: "e7e5"}))
    told = talk(table, move("e4"), {"kind": "save"})
    assert len(table.play.board.move_stack) == 2
    assert "give another --replays" in told[-1]["text"]
    assert "give another --replays" in table.problem


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{", "not understood"),
        ("[" * 4000, "not understood"),
        ("[]", "message"),
        ({"kind": "_write"}, "message.kind"),
        (move("Ke2"), "is not a legal move"),
        ({"kind": "move"}, "message.text is missing"),
        (move(5), "message.text"),
        (move("e" * 17), "message.text"),
        (move("e4", ply=-1), "message.ply"),
        (move("e4", ply=7), "the game has changed"),
        ({"kind": "begin", "opponent": "/etc/passwd"}, "unknown opponent"),
        ({"kind": "begin", "side": "red"}, "unknown side"),
        ({"kind": "undo"}, "not made a move"),
        ({"kind": "claim"}, "claim a draw on your turn"),
    ],
)
def test_wrong_message_is_answered_with_note(message, words, tmp_path):
    told = talk(table_of(tmp_path, SlowPlayer({})), message)
    assert words in next(one["text"] for one in reversed(told) if one["kind"] == "note")
    assert not list(tmp_path.iterdir())


# ---- the command


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_play"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    check_row(play.main, row)


def test_chess_engine_selects_chess():
    chosen = [parse_known(play.PlayChoice, ["--opponent", name]).game for name in ("stockfish:3", "bot:builtin")]
    assert chosen == [load(play.COMMANDS["chess"])] * 2


def test_command_serves_game(tmp_path):
    start = "7k/8/8/8/8/8/P7/K7 b - - 0 5"
    with serving(tmp_path, "--env", "chess", "--opponent", "random", "--side", "white", "--fen", start) as (
        address,
        one,
    ):
        host = address.split("/")[2]
        cookie = ask(address)[1]["Set-Cookie"].split(";")[0]
        headers = {"Cookie": cookie}
        with connect(f"ws://{host}/match", origin=f"http://{host}", additional_headers=headers) as socket:
            told = json.loads(socket.recv(timeout=60))
            while not told["moves"]:
                told = json.loads(socket.recv(timeout=60))
            assert (told["you"], told["before"], told["moves"][0][0][0]) == ("white", 9, "K")
        assert ask(f"http://{host}/replay", Cookie=cookie)[0] == 200
    assert one.returncode == 130
    assert list((tmp_path / "replays").iterdir()) == []
