"""Draw a game of chess between bots as an animated GIF: `python docs/chess_gif.py docs/images/chess.gif`.

The built-in search plays both sides after a few random half-moves, which depend on `--seed`. Needs python-chess; the
pieces are glyphs of the font that comes with matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import chess
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sparring.envs.chess.engines.searchers import BuiltInSearch
from sparring.envs.chess.positions import random_move

SQUARE, MARGIN = 48, 20
"""Sizes in pixels."""
LIGHT, DARK, MOVED, PAPER, INK = "#eeeed2", "#769656", "#f6f669", "#ffffff", "#202020"
PLY_MS, HOLD_MS = 500, 3000
"""Time per picture, and time of the last one."""
COLORS = 32


def play(seed: int, plies: int, opening: int = 4) -> list[chess.Board]:
    """Play a game and return its positions; the first `opening` half-moves are random."""
    board, search, rng = chess.Board(), BuiltInSearch(), np.random.default_rng(seed)
    positions = [board.copy()]
    while len(positions) <= plies and not board.is_game_over(claim_draw=True):
        drawn = random_move(board, rng) if len(positions) <= opening else None
        board.push(drawn or chess.Move.from_uci(search.lines(board.fen(), 1)[0][0]))
        positions.append(board.copy())
    return positions


def picture(board: chess.Board) -> Image.Image:
    """Draw a position with its last move marked."""
    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    pieces, small = (ImageFont.truetype(str(fonts / "DejaVuSans.ttf"), size) for size in (SQUARE - 8, MARGIN - 8))
    side = 8 * SQUARE + 2 * MARGIN
    image = Image.new("RGB", (side, side), PAPER)
    draw = ImageDraw.Draw(image)
    last = board.peek() if board.move_stack else None
    for square in chess.SQUARES:
        x = MARGIN + chess.square_file(square) * SQUARE
        y = MARGIN + (7 - chess.square_rank(square)) * SQUARE
        dark = (chess.square_file(square) + chess.square_rank(square)) % 2 == 0
        marked = last is not None and square in (last.from_square, last.to_square)
        draw.rectangle((x, y, x + SQUARE - 1, y + SQUARE - 1), fill=MOVED if marked else DARK if dark else LIGHT)
        if piece := board.piece_at(square):
            centre = (x + SQUARE / 2, y + SQUARE / 2)
            draw.text(centre, chess.UNICODE_PIECE_SYMBOLS[piece.symbol().lower()], font=pieces, anchor="mm",
                      fill=PAPER if piece.color else INK, stroke_width=1, stroke_fill=INK)  # fmt: skip
    for index in range(8):
        middle, edge = MARGIN + (index + 0.5) * SQUARE, side - MARGIN / 2
        draw.text((middle, edge), chess.FILE_NAMES[index], font=small, anchor="mm", fill=INK)
        draw.text((MARGIN / 2, middle), chess.RANK_NAMES[7 - index], font=small, anchor="mm", fill=INK)
    return image


def write_gif(path: str, images: list[Image.Image]) -> None:
    """Write the images to `path` with the palette of the last one."""
    palette = images[-1].quantize(COLORS, method=Image.Quantize.MEDIANCUT)
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations = [PLY_MS] * len(rest) + [HOLD_MS]
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plies", type=int, default=60)
    options = parser.parse_args()
    positions = play(options.seed, options.plies)
    write_gif(options.out, [picture(board) for board in positions])
    print(f"{options.out}: {len(positions) - 1} half-moves, {positions[-1].result(claim_draw=True)}")


if __name__ == "__main__":
    main()
