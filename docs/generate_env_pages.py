"""Write docs/envs/NAME.md from the docstring of every registered game: `python docs/generate_env_pages.py`.

The docstring is the one place where a game is described; a test compares it with the code, and the pages with it. The
animation and the bots' payoff table are added from docs/images/ and docs/results/. The section on playing in the
browser is written by hand and kept.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path[0] = str(ROOT)

from gymnasium.envs.registration import load_env_creator, parse_env_id, registry  # noqa: E402

from sparring import envs  # noqa: E402 - importing it registers the games

NOTICE = "<!-- Written by docs/generate_env_pages.py from the class docstring: edit that. -->"
BY_HAND = "\n## Play in the browser\n"
"""Heading from which on a page is kept as it is."""

ELSEWHERE = ("AirCombat",)
"""Games whose page is written by hand, as docs/envs/air_combat.md is."""

DOGFIGHT_BOTS = """\
Five scripted bots ([how they decide](dogfight_bots.md)) run in the kernels of the simulator. The table has the win % of
the row against the column, 1,000 games each; draws count for neither side. [The ladder](../results/ladder.md) has
intervals, ratings and challenge rules.

"""
DIPLOMACY_BOTS = """\
Six scripted bots and four variants ([how they choose](diplomacy_bots.md)) run in kernels. The table has the mean
centres, of 34, of one row against six columns, 700 games each; an equal share is 4.86.
[The bots' results](../results/diplomacy_bots.md) have solos, intervals and the variants.

"""
CHESS_BOTS = """\
`random` draws among the legal moves, `builtin` searches two half-moves deep, and `stockfish:N` is Stockfish at depth N
([the engine](../chess.md#the-engine)). `rookworld_base` is a small language model, which loses with an illegal move.
The table has the points % of the row against the column, 100 games each; a draw is half a point.
[The players' results](../results/chess_bots.md) have intervals, draws and the commands.

"""


class PageParts(NamedTuple):
    """What a page has beside the docstring: the caption of docs/images/NAME.gif, and text on the opponents."""

    caption: str
    opponents: str


def pages() -> dict[Path, str]:
    """Every game's page: where it belongs, and what it must say."""
    games = {env_id: spec.entry_point for env_id, spec in registry.items() if spec.namespace == "sparring"}
    parts = {
        "dogfight": _dogfight(),
        "diplomacy": _diplomacy(),
        "chess": _chess(),
    }
    found = {}
    for env_id, entry_point in sorted({**envs.PARALLEL, **envs.AEC, **games}.items()):
        assert isinstance(entry_point, str)
        text = inspect.getdoc(load_env_creator(entry_point)) or ""
        _, name, _ = parse_env_id(env_id)
        if name in ELSEWHERE:
            continue
        own = parts.get(name.lower())
        picture = f"![{own.caption}](../images/{name.lower()}.gif)\n\n" if own else ""
        opponents = f"\n## Opponents\n\n{own.opponents}\n" if own else ""
        path = ROOT / "docs" / "envs" / f"{name.lower()}.md"
        page = f"{NOTICE}\n\n# {env_id}\n\n{picture}{text}\n{opponents}"
        found[path] = page + "".join(path.read_text(encoding="utf-8").partition(BY_HAND)[1:] if path.exists() else ())
    return found


def _dogfight() -> PageParts:
    return PageParts("The released policy against the bot ace", DOGFIGHT_BOTS + _first_table("ladder.md"))


def _chess() -> PageParts:
    return PageParts("The built-in search against itself", CHESS_BOTS + _first_table("chess_bots.md"))


def _first_table(results: str) -> str:
    """Return the first table of a page of docs/results/, without its intervals."""
    table = re.sub(r" \([^)]*\)", "", _tables(results)[0])
    return _aligned([[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()])


def _diplomacy() -> PageParts:
    """Take the six bots without the variants from the first table of the bots' results."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in _tables("diplomacy_bots.md")[0].splitlines()]
    kept = [column for column, bot in enumerate(rows[0]) if not bot.endswith("_seed")]
    matrix = [[row[column] for column in kept] for row in rows if not row[0].endswith("_seed")]
    return PageParts("A game between seven DumbBots", DIPLOMACY_BOTS + _aligned(matrix))


def _tables(results: str) -> list[str]:
    """Return the tables of a page of docs/results/."""
    text = (ROOT / "docs" / "results" / results).read_text(encoding="utf-8")
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


def _aligned(rows: list[list[str]]) -> str:
    """Return a table with right-aligned columns but the first; the second row is replaced by the rule."""
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[2:]])


if __name__ == "__main__":
    for path, page in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
        print(path.relative_to(ROOT))
