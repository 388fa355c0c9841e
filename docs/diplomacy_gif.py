"""Draw a game between Diplomacy bots as an animated GIF: `python docs/diplomacy_gif.py docs/images/diplomacy.gif`.

Plays one game of DumbBots, draws every movement phase with its orders, and stores the pictures with one palette.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

from PIL import Image

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.drawing.render import draw_phase
from sparring.envs.diplomacy.records.history import GameHistory
from sparring.envs.diplomacy.records.timeline import Phase, phase_title, phases_of

SIZE = (640, 480)
COLORS = 48
PHASE_MS, HOLD_MS = 700, 3000
"""Time per picture, and time of the last one."""


def play(bot: str, seed: int, last_year: int) -> list[Phase]:
    """Play one game with `bot` in all seven seats and return its phases."""
    batch = DiplomacyBatch(1, last_year=last_year, device="cpu")
    history = GameHistory(batch)
    batch.players[:] = BOTS.index(bot)
    turn = 0
    while not batch.done.all():
        batch.draw_orders(seed=seed * 10_000 + turn)
        history.process()
        turn += 1
    phases = phases_of(history.game(0))
    batch.close()
    return phases


def pictures(phases: list[Phase], size: tuple[int, int]) -> list[Image.Image]:
    """Draw the movement phases with their orders, and the final position."""
    moves = [(phase, after) for phase, after in pairwise(phases) if phase["name"].endswith("M")]
    drawn = [draw_phase(phase, after, size=size) for phase, after in moves]
    return [Image.fromarray(picture) for picture in [*drawn, draw_phase(phases[-1], size=size)]]


def write_gif(path: str, images: list[Image.Image]) -> None:
    """Write the images to `path` with one palette, taken from the first and the last of them."""
    sheet = Image.new("RGB", (images[0].width, images[0].height * 2))
    sheet.paste(images[0], (0, 0))
    sheet.paste(images[-1], (0, images[0].height))
    palette = sheet.quantize(COLORS, method=Image.Quantize.MEDIANCUT)
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations = [PHASE_MS] * len(rest) + [HOLD_MS]
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--bot", choices=BOTS, default="dumbbot")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--last-year", type=int, default=1910)
    options = parser.parse_args()
    phases = play(options.bot, options.seed, options.last_year)
    write_gif(options.out, pictures(phases, SIZE))
    print(f"{options.out}: {len(phases)} phases, the last is {phase_title(phases[-1]['name'])}")


if __name__ == "__main__":
    main()
