"""Recorded game of Diplomacy as a self-contained HTML page: the map as SVG, and the events as JSON.

The page (`replay.html`, with `map.css`, `map.js` and `zoom.js`) contains everything and makes no network requests. All
geometry is computed here, by `envs.diplomacy.drawing.outlines` and `arrows`, so pictures and page agree. The page draws
it and moves from phase to phase. The page for playing (`envs/diplomacy/browser`) has the same map.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.files import write_atomically
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.drawing import palette
from sparring.envs.diplomacy.drawing.arrows import DISLODGED_SHIFT, OrderMark, marks
from sparring.envs.diplomacy.drawing.outlines import HEIGHT, WIDTH, is_sea, standard_drawing
from sparring.envs.diplomacy.drawing.render import HULL, SAIL
from sparring.envs.diplomacy.orders.notation import unit_location
from sparring.envs.diplomacy.records import timeline
from sparring.envs.diplomacy.records.game_log import POWER_NAMES, result
from sparring.eval.command import fill_page, join_files

UNKNOWN = "unknown"
_FOLDER = Path(__file__).parent


def page(phases: Sequence[timeline.Phase], *, players: Sequence[str], title: str = "", note: str = "") -> str:
    """Return the page of a recorded game; `players` are those of the seven powers in order, "" if unknown.

    `note` describes the odds of phases, if any. Titles and players' names cannot end their element or start
    another.
    """
    if len(players) != codes.NUM_POWERS:
        raise ValueError(f"{len(players)} players: name all {codes.NUM_POWERS}, power by power")
    title = title or f"{lineup(players)} · {result(phases)}"
    data = encode(phases, players, title, note)
    parts = map_parts() | {"zoom": join_files(_FOLDER, "zoom.js")}
    return fill_page(_FOLDER / "replay.html", title=f"{title} · Sparring replay", data=data, **parts)


def map_parts() -> dict[str, str]:
    """Return the style, script, map and its size that all map pages share, as input of `fill_page`."""
    return {
        "style": f":root {{ {_css()} }}\n{join_files(_FOLDER, 'map.css')}",
        "drawing": join_files(_FOLDER, "map.js"),
        "map": map_svg(),
        "view": f"0 0 {WIDTH} {HEIGHT}",
    }


def lineup(players: Sequence[str]) -> str:
    """Summarize the lineup: each player with its powers."""
    players = [player or UNKNOWN for player in players]
    names = list(dict.fromkeys(players))
    if len(names) == 1:
        return f"Diplomacy: seven times {names[0]}"
    powers = {name: [p for p, player in zip(POWER_NAMES, players, strict=True) if player == name] for name in names}
    most = max(names, key=lambda name: len(powers[name]))
    few = [f"{name} ({', '.join(powers[name])})" for name in names if name != most or len(powers[name]) < 4]
    return "Diplomacy: " + ", ".join(few + ([f"{most} elsewhere"] if len(powers[most]) >= 4 else []))


def encode(phases: Sequence[timeline.Phase], players: Sequence[str], title: str, note: str = "") -> dict[str, Any]:
    """Return the data for the page's script."""
    noted = {"note": note} if note else {}
    return noted | {
        "title": title,
        "result": result(phases),
        "winner": timeline.winner(phases),
        "players": list(players),
        "years": timeline.counts_by_year(phases),
        "phases": [encode_phase(phase, after) for phase, after in zip(phases, [*phases[1:], None], strict=True)],
        **board_data(),
    }


def board_data() -> dict[str, Any]:
    """Return the board and power data of the pages; `names`, `codes` and `places` are by location."""
    drawing, board = standard_drawing(), standard_board()
    return {
        "powers": list(POWER_NAMES),
        "colors": [palette.css(color) for color in palette.POWER_COLORS],
        "names": [board.names[province] for province in board.province_of],
        "codes": [board.provinces[province] for province in board.province_of],
        "places": _points(drawing.units),
        "shift": DISLODGED_SHIFT.tolist(),
        "centres": [board.provinces[province] for province in board.centres],
    }


def write_replay(
    path: str | Path, phases: Sequence[timeline.Phase], *, players: Sequence[str], title: str = "", note: str = ""
) -> None:
    """Write the page of a recorded game to `path`, atomically; a missing folder is created."""
    text = page(phases, players=players, title=title, note=note)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), text)


def map_svg() -> str:
    """Return the content of the board's SVG element; land coloured by a centre's owner has `data-code`, its code."""
    return "\n".join(_map_parts())


def _map_parts() -> Iterator[str]:
    drawing, board = standard_drawing(), standard_board()
    for code, outline in drawing.outlines.items():
        kind = "sea" if is_sea(code) else "land"
        name = html.escape(board.names[board.provinces.index(code)])
        yield f'<path class="{kind}" data-code="{code}" d="{_path(outline)}Z"><title>{name}</title></path>'
    yield from (f'<path class="nowhere" d="{_path(outline)}Z"/>' for outline in drawing.nowhere)
    yield from (f'<path class="water" d="{_path(outline)}Z"/>' for outline in drawing.water)
    for kind in ("sea", "land", "coast"):
        lines = "".join(_path(border.line) for border in drawing.borders if border.kind == kind)
        yield f'<path class="border {kind}-border" d="{lines}"/>'
    for code, outline in drawing.islands:
        kind = "land" if code in board.provinces else "nowhere"
        yield f'<path class="{kind} island" data-code="{code}" d="{_path(outline)}Z"/>'
    for province, (x, y) in zip(board.centres, _points(drawing.centres), strict=True):
        yield f'<g class="centre" data-code="{board.provinces[province]}"><circle cx="{x}" cy="{y}" r="5.6"/></g>'
    for code, (x, y) in zip(board.provinces, _points(drawing.labels), strict=True):
        yield f'<text class="code{" at-sea" if is_sea(code) else ""}" x="{x}" y="{y}">{code}</text>'
    for name, shape in (("hull", HULL), ("sail", SAIL)):
        yield f'<defs><path id="{name}" d="{_path(np.array(shape, dtype=float))}Z"/></defs>'


def encode_phase(phase: timeline.Phase, after: timeline.Phase | None) -> dict[str, Any]:
    """Return the page's data of a phase; for the last one, without a successor, only the position."""
    done = timeline.order_outcomes(phase, after) if after else []
    marked = {id(mark.outcome): mark for mark in marks(phase, done)}
    odds = {(line["power"], line["text"]): _odds(line) for line in phase.get("odds", [])}
    outcomes = [_outcome(marked[id(outcome)]) | odds.pop((outcome.power, outcome.text), {}) for outcome in done]
    # The remaining orders had no effect, such as WAIVE.
    idle = [{"power": power, "text": text, **line} for (power, text), line in odds.items()] if after else []
    return (
        {
            "name": phase["name"],
            "title": timeline.phase_title(phase["name"]),
            "units": _units(phase["units"]),
            "dislodged": _units(phase["dislodged"]),
            "owner": phase["owner"],
            "counts": timeline.centre_counts(phase),
            "outcomes": outcomes,
        }
        | ({"idle": idle} if idle else {})
        | ({"beliefs": phase["beliefs"]} if phase.get("beliefs") else {})
    )


def encode_orders(phase: timeline.Phase) -> list[dict[str, Any]]:
    """Return the marks of orders before adjudication, as if all succeed."""
    province_of, ordered = standard_board().province_of, phase["orders"]
    hoped: timeline.Phase = {**phase, "results": [codes.DONE] * codes.NUM_PROVINCES}
    done = [outcome for outcome in timeline.order_outcomes(hoped, hoped) if ordered[int(province_of[outcome.start])]]
    return [_outcome(mark) for mark in marks(hoped, done)]


def _odds(line: timeline.Odds) -> dict[str, Any]:
    """Round probabilities to 0.01 %."""
    alternatives = [[text, round(share, 4)] for text, share in line["others"]]
    count, share = line["rest"]
    return {"p": round(line["probability"], 4), "others": alternatives, "rest": [count, round(share, 4)]}


def _units(units: Sequence[int]) -> list[list[int]]:
    """Units as [location, power, 1 for a fleet else 0]."""
    powers = codes.NUM_POWERS
    return [[unit_location(u, province), (u - 1) % powers, int(u > powers)] for province, u in enumerate(units) if u]


def _outcome(mark: OrderMark) -> dict[str, Any]:
    """Return an outcome and its mark, without empty fields."""
    outcome = mark.outcome
    fields = {
        "power": outcome.power,
        "kind": outcome.kind,
        "text": outcome.text,
        "note": outcome.note,
        "fails": None if outcome.fine else 1,
        "lost": 1 if outcome.dislodged else None,
        "start": outcome.start,
        "target": outcome.target if outcome.kind in ("move", "retreat") and outcome.fine else None,
        "line": _path(mark.line) if len(mark.line) else "",
        "head": mark.head,
        "end": _points(mark.line[[max(len(mark.line) - 3, 0), -1]]) if len(mark.line) else None,
        "at": _points(mark.at[None])[0],
        "cross": _points(mark.cross[None])[0] if mark.cross is not None else None,
    }
    return {name: value for name, value in fields.items() if value not in ("", None)}


def _path(points: np.ndarray) -> str:
    """Return points [n, 2] as an open SVG path, to a tenth of a unit; after the first they are differences."""
    tenths = np.rint(10 * points).astype(int)
    steps = [f"{_tenth(x)} {_tenth(y)}" for x, y in np.diff(tenths, axis=0)]
    return f"M{_tenth(tenths[0, 0])} {_tenth(tenths[0, 1])}l{' '.join(steps)}".replace(" -", "-")


def _tenth(value: int) -> str:
    return f"{value / 10:g}"


def _points(points: np.ndarray) -> list[list[float]]:
    return [[round(float(x), 1), round(float(y), 1)] for x, y in points]


def _css() -> str:
    """Return the palette as CSS variables."""
    colors = {name: getattr(palette, name.upper().replace("-", "_")) for name in _SHARED}
    return " ".join(f"--map-{name}: {palette.css(color)};" for name, color in colors.items())


_SHARED = ("sea", "land", "nowhere", "coast-ink", "land-ink", "sea-ink", "ink", "failure")
