"""A page of a game as its actions: each opens to the state after it, as the game prints it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sparring.eval.command import LOOK

STYLE = """\
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
summary { cursor: pointer; padding: 0.15rem 0.5rem; border-left: 0.4rem solid var(--track); }
.response > summary, .you > summary { border-color: #d55e00; }
.agent > summary, .seat > summary { border-color: #0072b2; } pre:empty { display: none; }
pre { margin: 0.3rem 0 0.8rem 0.9rem; padding: 0.5rem; overflow-x: auto; background: #8882; }
"""


def steps_page(title: str, parts: Iterable[str]) -> str:
    """Return a page of one file with a heading; `parts` are HTML, such as those of `step_entry`."""
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>'
    style = f'<meta name="viewport" content="width=device-width">\n<style>\n{LOOK.read_text("utf-8")}{STYLE}</style>'
    return "\n".join([head, style, f"<main><h1>{escape(title)}</h1>", *parts, "</main></html>\n"])


def step_entry(side: str, who: str, action: str, after: object, image: str = "") -> str:
    """Return an action of `who` in words; `side` is a class of the style, `image` HTML."""
    opened = f"<summary>{escape(who)}: <b>{escape(action)}</b></summary>\n{image}<pre>{escape(str(after))}</pre>"
    return f'<details class="{side}">{opened}</details>'
