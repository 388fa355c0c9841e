"""A game as an animated GIF: every movement phase with its orders, and the final position."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise

from PIL import Image, ImageDraw, ImageFont

from sparring.envs.diplomacy.drawing.arrows import marks
from sparring.envs.diplomacy.drawing.palette import INK
from sparring.envs.diplomacy.drawing.render import draw_position
from sparring.envs.diplomacy.records.order_outcomes import order_outcomes
from sparring.envs.diplomacy.records.timeline import Phase, phase_title

COLORS = 48
PHASE_MS, HOLD_MS = 700, 3000
"""Time per picture, and time of the last one, in milliseconds."""


def gif_bytes(phases: Sequence[Phase], *, size: tuple[int, int] = (640, 480)) -> bytes:
    """Return the game of `phases` (`timeline.phases_of`) as a GIF with one palette, from the first and last picture."""
    moves = [(phase, after) for phase, after in pairwise(phases) if phase["name"].endswith("M")]
    images = [_picture(phase, after, size) for phase, after in moves] + [_picture(phases[-1], None, size)]
    sheet = Image.new("RGB", (size[0], size[1] * 2))
    sheet.paste(images[0], (0, 0))
    sheet.paste(images[-1], (0, size[1]))
    palette = sheet.quantize(COLORS, method=Image.Quantize.MEDIANCUT)
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations, written = [PHASE_MS] * len(rest) + [HOLD_MS], BytesIO()
    first.save(written, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    return written.getvalue()


def _picture(phase: Phase, after: Phase | None, size: tuple[int, int]) -> Image.Image:
    """Draw a phase with its title, and with its orders if the phase `after` it is given."""
    orders = marks(phase, order_outcomes(phase, after)) if after else []
    picture = Image.fromarray(
        draw_position(phase["units"], phase["owner"], dislodged=phase["dislodged"], orders=orders, size=size)
    )
    font = ImageFont.load_default(max(size[1] // 28, 11))
    ImageDraw.Draw(picture).text((8, 6), phase_title(phase["name"]), fill=INK, font=font)
    return picture
