"""Draw a game of air combat as an animated GIF: `python docs/air_combat_gif.py match.html docs/images/air_combat.gif`.

`match.html` is a replay of `eval/run.py --replay`; a headless Chromium shows it, moment by moment, and the pictures of
its stage are stored with one palette.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageColor

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path[0] = str(ROOT)

from tests.eval.browser.browser import browser  # noqa: E402

SIZE = (450, 640)
"""Of the window, in pixels; the stage is nearly as wide."""
SHRINK = 0.75
FRAME_MS, HOLD_MS = 100, 2000
"""Time per picture, and time of the last one."""
COLORS = 18
MARKED = ("#f0a528", "#a07828", "#56b4e9", "#3c78a0", "#ffffff", "#e05a3c")
"""Colours of aircraft, trails, text and hits, whose pixels are too few for a place in a picture's palette."""


def pictures(page: Any, address: str, options: argparse.Namespace) -> list[Image.Image]:
    """Return the stage at every `--step` seconds from `--start` to the end of the game."""
    page.open(f"{address}#game={options.game}&t={options.start}&view={options.view}", width=SIZE[0], height=SIZE[1])
    page.until("window.replay !== undefined")
    stage = "document.querySelector('#stage').getBoundingClientRect()"
    clip = {**page.value(f"(({{x, y, width, height}}) => ({{x, y, width, height}}))({stage})"), "scale": SHRINK}
    ticks = "JSON.parse(document.querySelector('#data').textContent).rules.ticksPerSecond"
    end = page.value(f"Number(document.querySelector('#scrub').max) / {ticks}")
    moments = [options.start + n * options.step for n in range(int((end - options.start) / options.step) + 1)]
    images = []
    for moment in moments[: options.most]:
        page.value(f"(replay.seek({moment}), new Promise((done) => requestAnimationFrame(() => done(1))))")
        shot = page.call("Page.captureScreenshot", format="png", clip=clip)["data"]
        images.append(Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB"))
    return images


def palette_of(image: Image.Image) -> Image.Image:
    """Return a picture with the palette of `image` and the marked colours."""
    few = image.quantize(COLORS, method=Image.Quantize.MEDIANCUT).getpalette()[: 3 * COLORS]
    palette = Image.new("P", (1, 1))
    palette.putpalette(few + [part for color in MARKED for part in ImageColor.getrgb(color)])
    return palette


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replay", type=Path)
    parser.add_argument("out")
    parser.add_argument("--game", type=int, default=1)
    parser.add_argument("--view", type=int, default=0)
    parser.add_argument("--start", type=float, default=0.0, help="seconds")
    parser.add_argument("--step", type=float, default=0.3, help="seconds of the game between two pictures")
    parser.add_argument("--most", type=int, default=64, help="pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile, browser(profile) as page:
        images = pictures(page, options.replay.resolve().as_uri(), options)
    palette = palette_of(images[len(images) // 2])
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations = [FRAME_MS] * len(rest) + [HOLD_MS]
    first.save(options.out, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    print(f"{options.out}: {len(images)} pictures, {Path(options.out).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
