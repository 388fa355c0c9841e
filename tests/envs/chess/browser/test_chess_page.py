"""The chess page in a browser with real mouse and key events, through two games in one page load."""

import threading
from contextlib import contextmanager

import chess
import chess.pgn
import uvicorn

from sparring.agents.language.backend import Decision
from sparring.envs.chess.browser.session import HostedChess
from sparring.envs.chess.evaluation.models import ModelPlayer
from sparring.eval.browser.server import Gate, listen, make_app
from tests.envs.chess.browser.test_chess_play import table_of
from tests.eval.browser.browser import browser, needs_chromium

CASTLING_AND_PROMOTION = "6k1/P4ppp/8/8/8/8/n7/4K2R w K - 0 1"


class Script:
    """A backend that writes the given texts in order."""

    name = "script"

    def __init__(self, *texts):
        self.texts = list(texts)

    def decide(self, requests):
        return [Decision((), free_text=self.texts.pop(0)) for _ in requests]


@contextmanager
def hosted(table):
    """Serve a table from a thread, and yield the address."""
    with listen(0) as listening:
        gate = Gate(listening.getsockname()[1])
        config = uvicorn.Config(make_app(HostedChess(table), gate), log_level="warning", ws="websockets-sansio")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield gate.address
        finally:
            server.should_exit = True
            thread.join()


def square(name):
    return f"[data-square='{name}']"


def write(page, text):
    for key in (*text, "Enter"):
        page.key(key)


def text(page, selector):
    return page.value(f"document.querySelector('{selector}').textContent")


@needs_chromium
def test_game_is_played_to_mate_with_mouse_and_keys(tmp_path):
    first, second = "M: a2c3 a2b4 a2a8 E: -0.5 -1.0 3.0 B: a2c3", "M: c3d5 E: -9.0 B: c3d5"
    model = ModelPlayer("model", Script(first, second, "M: a2c3 E: 0.5 B: a2a8", "B: g8f8"), tokens=99)
    table = table_of(tmp_path, model, fen=CASTLING_AND_PROMOTION)
    with hosted(table) as address, browser(tmp_path / "profile") as page:
        page.open(address, width=1440, height=900)
        page.until("play.state().game")
        # Castling by dragging the king: four squares of its own and the castling square are highlighted.
        page.mouse(square("e1"), "mousePressed")
        board = chess.Board(CASTLING_AND_PROMOTION)
        ends = {chess.square_name(move.to_square) for move in board.legal_moves if move.from_square == chess.E1}
        assert set(page.value("[...document.querySelectorAll('.hint')].map((one) => one.dataset.square)")) == ends
        page.mouse(f".hint{square('g1')}", "mouseMoved", "mouseReleased")
        page.until("play.state().game.moves.length === 2")
        assert text(page, "#raw") == first
        rows = page.value("[...document.querySelectorAll('#candidates tr')].map((row) => row.innerText.split('\\t'))")
        assert rows == [["Nc3", "a2c3", "-0.50"], ["Nb4", "a2b4", "-1.00"], ["a2a8", "illegal", "+3.00"]]
        assert text(page, "#candidates .best").startswith("Nc3")
        # A move that is not legal, then one in SAN, as keys without a click on the field.
        write(page, "Kh3")
        page.until("document.querySelector('#note').textContent.includes('is not a legal move')")
        write(page, "Kh1")
        page.until("play.state().game.moves.length === 4")
        assert text(page, "#moves .now") == "Nd5"
        # Promotion by two clicks and the choice of a rook, after a look at an earlier position.
        page.key("ArrowLeft")
        assert page.value("play.state().view") == 3
        page.key("End")
        page.mouse(square("a7"))
        page.mouse(f".hint{square('a8')}")
        page.until("!document.querySelector('#promotion').hidden")
        page.key("r")
        page.until("play.state().game.over")
        assert text(page, "#status") == "Checkmate: you win"
        assert page.value("document.querySelectorAll('.check').length") == 1
        # A second game with the other opponent's answer illegal, on a phone.
        page.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
        page.mouse("#begin")
        page.until("play.state().game.moves.length === 0")
        page.mouse(square("h1"))
        page.mouse(f".hint{square('h4')}")
        page.until("play.state().game.over")
        assert text(page, "#status") == "Illegal move: you win"
        assert text(page, "#best") == "best move: a2a8, which is illegal; that loses the game"
        assert page.value("document.documentElement.scrollWidth") <= 400
        page.mouse("#undo")
        page.until("!play.state().game.over && play.state().game.legal.length")
        page.mouse("#flip")
        assert page.value(f"document.querySelector(\"{square('h1')}\").getAttribute('x')") == "0"
        page.mouse("#resign")
        page.mouse("#resign")
        page.until("play.state().game.over")
        assert text(page, "#status") == "Resignation: you lose"
        page.open(f"{address.partition('?')[0]}replay")
        assert "Resignation" in page.until("document.querySelector('#ending').textContent").title()
        assert page.console == []
    with open(tmp_path / "game-1.pgn") as file:
        record = chess.pgn.read_game(file)
    assert record.headers["FEN"] == CASTLING_AND_PROMOTION
    assert [move.san() for move in record.mainline()] == ["O-O", "Nc3", "Kh1", "Nd5", "a8=R#"]
    assert (record.headers["Result"], record.headers["White"], record.headers["Black"]) == ("1-0", "You", "model")
    assert record.next().comment == f"answer: {first}"
    assert "Rh4" not in (tmp_path / "game-2.pgn").read_text()
