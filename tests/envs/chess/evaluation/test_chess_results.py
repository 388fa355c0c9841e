"""Games read back from PGN: language-model answers, custom positions, and invalid files."""

import io
import json
import re

import chess
import chess.pgn
import numpy as np
import pytest

from sparring.envs.chess.evaluation.games import ChessGame
from sparring.envs.chess.evaluation.results import page, page_data, read_pgn, to_pgn
from sparring.envs.chess.positions import random_position
from tests.envs.dogfight.evaluation.test_replay import HOSTILE
from tests.eval.browser.browser import browse, dom_of, needs_chromium

BLACK_TO_MOVE = "4k3/8/8/8/8/8/4p3/1K6 b - - 3 17"


def test_game_and_its_answers_are_read_back(capfd):
    board = chess.Board(BLACK_TO_MOVE)
    for san in ("e1=Q+", "Kb2", "Qe5+"):
        board.push_san(san)
    texts = {0: "M: e2e1q E: 8.5 B: e2e1q", 2: "M: e1e9 {x} B: e1e9", 3: ""}
    illegal = {2: "no move", 3: "no move"}
    game = ChessGame(board, "You", "model", chess.BLACK, 0, texts=texts, illegal_at=illegal)
    text = to_pgn([game], event="Sparring play")
    (found,) = read_pgn(text).games
    assert found.board.root().fen() == BLACK_TO_MOVE
    assert found.board.move_stack == board.move_stack
    assert (found.white, found.black, found.result, found.over) == ("You", "model", "*", False)
    assert found.texts == {0: texts[0], 2: "M: e1e9 'x' B: e1e9", 3: ""}
    assert found.illegal_at == illegal
    assert to_pgn([found], event="Sparring play") == text
    assert "Termination" not in text
    assert capfd.readouterr().err == ""


CHESS_960 = "bqnrnkrb/pppppppp/8/8/8/8/PPPPPPPP/BQNRNKRB w KQkq - 0 1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello, world", "ply 1: 'hello,' is not a move"),
        ('[Result "*"]\n\n*', "has no moves"),
        ("1. e4 e4", "ply 2: 'e4' is an illegal move"),
        ("1. e4 --", "ply 2: '--' is a null move"),
        ("1. e4 e5 2. Sf3 Sc6 *", "ply 3: 'Sf3' is not a move in SAN"),  # German; python-chess reads the pawn move f3
        ("1. e4 e5 2. Cf3 Cc6 *", "ply 3: 'Cf3' is not a move in SAN"),  # French
        ("1. e4 e5 2. Nc3 Nf6 3. Ne2 *", "ply 5: 'Ne2' is ambiguous"),
        ("1. e4 (1. d4 d5 *", "is a variation without an end"),
        ("1. e4) e5 *", "ply 2: ')' ends no variation"),
        ("1. e4 {why", "ply 2: '{why' is a comment without an end"),
        ("1. f3 e5 2. g4 Qh4# 1-0", "'1-0' is not the result of checkmate, 0-1"),
        ('[White "You]\n\n1. e4 *', "'[White \"You]' is not a tag"),
        ('[Variant "Atomic"]\n\n1. e4', "a variant"),
        ('[Variant "Foo"]\n\n1. e4', "unsupported variant: Foo"),
        (f'[Variant "Chess960"]\n[FEN "{CHESS_960}"]\n\n1. b3 *', "is a Chess960 position"),
        (f'[FEN "{CHESS_960}"]\n\n1. b3 *', "is a Chess960 position"),
        ('[FEN "here"]\n\n1. e4', "FEN 'here': is not a FEN"),
        ('[FEN "4k3/8/8/8/8/8/8/4KK2 w - - 0 1"]\n\n1. Kd1', "is impossible (too_many_kings)"),
        ("(" * 5000, "is a variation without an end"),
    ],
)
def test_incomplete_game_is_rejected_and_next_is_read(text, words, capfd):
    file = read_pgn(f'{text}\n\n[White "next"]\n\n1. d4 *')
    (refused,), (game,) = file.refused, file.games
    assert refused.startswith("game 1")
    assert words in refused
    assert (game.white, game.board.peek().uci()) == ("next", "d2d4")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "text",
    [
        "1. e4 e5 2. Nf3 Nc6 3. Bc4 Nf6 4. O-O *",
        "1.e4 e5 2.♘f3 ♞c6 3.♗c4 ♞f6 4.0-0",
        "1. e2-e4 e7-e5 2. Ng1-f3 Nb8-c6 3. Bf1-c4 Ng8-f6 4. 0-0 *",
        "1. e2e4 e7e5 2. g1f3 b8c6 3. f1c4 g8f6 4. e1g1 *",
        "1. e4! $1 e5 (1... c5 2. Sf3 (2. c3 d5)) 2. Nf3 {a {brace} Nc6 ; Sf3\n3. Bc4 $14 Nf6\n% Sf3\n4. O-O *",
        '\ufeff[Event "a \\"b\\""]\r\n\r\n1. e4 e5\r\n\r\n2. Nf3 Nc6 3. Bc4 Nf6 4. O-O *\r\n',
    ],
)
def test_other_spellings_of_moves_are_read(text):
    """Moves are by hand. A blank line between moves does not end the game, as in python-chess."""
    (game,) = read_pgn(text).games
    assert " ".join(move.uci() for move in game.board.move_stack) == "e2e4 e7e5 g1f3 b8c6 f1c4 g8f6 e1g1"


GLYPHS = """
± ∓ +− +- -+ = ∞ =∞ ⩲ ⩱ +/= =/+ +/- -/+ ⇆ → ↑ ⟳ ○ □ ⊕ ⨀ ⌓ ∆ Δ ⊥ TN D ep e.p. + # ++ ch mate † ! ?? !? $1 $139 $ $9999
✓ 🙂 ~ ^ @ _ : , . … ⁉ ‼ zz
"""


@pytest.mark.parametrize("glyph", GLYPHS.split())
@pytest.mark.parametrize("form", [" {} ", "{}"])
def test_annotation_glyph_is_skipped_like_python_chess(glyph, form):
    mark = form.format(glyph)
    text = f'[Result "*"]\n\n1. e4{mark} d5 2. exd5{mark} Qxd5 3. Nc3{mark} Qa5 *\n'
    record = chess.pgn.read_game(io.StringIO(text))
    assert not record.errors
    (game,) = read_pgn(text).games
    assert game.board.move_stack == list(record.mainline_moves())


def test_novelty_mark_is_separated_from_move():
    """As part of the move, N is a promotion for python-chess, which then stops."""
    assert len(read_pgn("1. e4 N d5 *").games[0].board.move_stack) == 2
    assert read_pgn("1. e4N d5 *").refused


def test_unknown_results_are_draws():
    assert [read_pgn(f"1. e4 e5 {result}").games[0].result for result in ("½-½", "1/2")] == ["1/2-1/2"] * 2


def test_games_match_python_chess():
    """40 random games with own openings, as written by us and read by both."""
    boards = [random_position(np.random.default_rng(seed), 60) for seed in range(40)]
    text = to_pgn([ChessGame(board, "a", "b", chess.WHITE, 3) for board in boards])
    file, stream = read_pgn(text), io.StringIO(text)
    assert not file.refused
    expected = [chess.pgn.read_game(stream).end().board().move_stack for _ in boards]
    assert [game.board.move_stack for game in file.games] == expected == [board.move_stack for board in boards]


def test_replay_counts_from_fullmove_number():
    board = chess.Board(BLACK_TO_MOVE)
    board.push_san("Kd7")
    data = page_data(ChessGame(board, "a", "b", chess.WHITE, 0))
    # 16 moves of both sides and one of White came before.
    assert (data["before"], data["moves"]) == (33, [["Kd7", "e8d7"]])
    assert page_data(ChessGame(chess.Board(), "a", "b", chess.WHITE, 0))["before"] == 0


def game_of(moves, *, result="*", ending="", **facts):
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    return ChessGame(board, HOSTILE, "black", chess.WHITE, 2, result=result, ending=ending, **facts)


@pytest.fixture
def file(tmp_path):
    mate = game_of(["f2f3", "e7e5", "g2g4", "d8h4"], result="0-1", ending="checkmate")
    castled = ["e2e4", "e7e5", "g1f3", "g8f6", "f1c4", "f8c5", "e1g1"]
    second = game_of(castled, result="1-0", ending="illegal move", illegal_at={7: HOSTILE})
    path = tmp_path / "page.html"
    path.write_text(page([mate, second], title=HOSTILE))
    return path


def shown(dom):
    """Return pieces with squares as the browser drew them, from White's side."""
    pieces = re.findall(r'<use href="#(\w+)-(\w)" x="(\d+)" y="(\d+)"', dom)
    return {f"{'abcdefgh'[int(x) // 45]}{8 - int(y) // 45}": (side, letter) for side, letter, x, y in pieces}


def test_page_is_self_contained_and_names_stay_text(file):
    text = file.read_text()
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert "default-src 'none'" in text
    assert text.count("<script") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert (data["title"], data["games"][0]["white"]) == (HOSTILE, HOSTILE)
    assert data["games"][0]["moves"] == [["f3", "f2f3"], ["e5", "e7e5"], ["g4", "g2g4"], ["Qh4#", "d8h4"]]
    board = chess.Board()
    assert data["games"][0]["positions"][0] == board.board_fen()
    assert data["games"][0]["positions"][-1] == "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR"


@needs_chromium
def test_browser_shows_position_in_address(file):
    dom = dom_of(file, "game=2&ply=7", wait="#moves .now")
    pieces = shown(dom)
    assert len(pieces) == 32
    assert (pieces["g1"], pieces["f1"], pieces["c5"]) == (("white", "k"), ("white", "r"), ("black", "b"))
    assert "e1" not in pieces
    assert len(re.findall(r'class="mark"', dom)) == 2
    assert "which is illegal" in dom
    assert re.search(r'class="move now illegal"|class="move illegal now"|class="move now"[^>]*>O-O', dom)
    assert "broken" not in re.search(r"<title>(.*?)</title>", dom)[1].split("title=")[0]


@needs_chromium
def test_first_position_is_standard_start(file):
    pieces = shown(dom_of(file, wait="#moves .move"))
    board = chess.Board()
    expected = {
        chess.square_name(square): ("white" if piece.color else "black", piece.symbol().lower())
        for square, piece in board.piece_map().items()
    }
    assert pieces == expected


@needs_chromium
def test_keys_and_buttons_step_through_game(file):
    drive = """<script>
const told = [], say = () => told.push([document.querySelector("#scrub").value, document.querySelector("#game").value]);
const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
document.body.addEventListener("keydown", () => {});
const press = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
press("ArrowRight"); say(); press("End"); say(); press("ArrowLeft"); say(); press("n"); say(); press("Home"); say();
document.querySelector("#next").click(); say(); document.querySelectorAll("#moves .move")[4].click(); say();
press("p"); say(); press(" ");
setTimeout(() => { say(); document.body.append(Object.assign(document.createElement("pre"),
  { id: "told", textContent: JSON.stringify(told) })); }, 1600);
</script></body>"""
    file.write_text(file.read_text().replace("</body>", drive))
    told = json.loads(re.search(r'<pre id="told">(.*?)</pre>', browse(file, "", "--dump-dom"))[1])
    assert told == [
        ["1", "0"],
        ["4", "0"],
        ["3", "0"],
        ["0", "1"],
        ["0", "1"],
        ["1", "1"],
        ["5", "1"],
        ["0", "0"],
        ["2", "0"],
    ]
