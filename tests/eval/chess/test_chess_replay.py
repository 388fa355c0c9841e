"""The page of recorded games of chess, also in a real browser."""

import json
import re

import chess
import pytest

from sparring.eval.chess.games import ChessGame
from sparring.eval.chess.results import page
from tests.eval.dogfight.test_replay import HOSTILE, browse, needs_chromium


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
    """Pieces with their squares, as the browser drew them: the board from White's side."""
    pieces = re.findall(r'<use href="#(\w+)-(\w)" x="(\d+)" y="(\d+)"', dom)
    return {f"{'abcdefgh'[int(x) // 45]}{8 - int(y) // 45}": (side, letter) for side, letter, x, y in pieces}


def test_the_page_needs_nothing_else_and_names_stay_text(file):
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
def test_the_browser_shows_the_position_its_address_names(file):
    dom = browse(file, "game=2&ply=7", "--dump-dom")
    pieces = shown(dom)
    assert len(pieces) == 32
    assert (pieces["g1"], pieces["f1"], pieces["c5"]) == (("white", "k"), ("white", "r"), ("black", "b"))
    assert "e1" not in pieces
    assert len(re.findall(r'class="mark"', dom)) == 2
    assert "which is illegal" in dom
    assert re.search(r'class="move now illegal"|class="move illegal now"|class="move now"[^>]*>O-O', dom)
    assert "broken" not in re.search(r"<title>(.*?)</title>", dom)[1].split("title=")[0]


@needs_chromium
def test_the_first_position_is_the_usual_one(file):
    pieces = shown(browse(file, "", "--dump-dom"))
    board = chess.Board()
    expected = {
        chess.square_name(square): ("white" if piece.color else "black", piece.symbol().lower())
        for square, piece in board.piece_map().items()
    }
    assert pieces == expected


@needs_chromium
def test_keys_and_buttons_move_through_the_game(file):
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
