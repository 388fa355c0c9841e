"""A recorded game as text, similar to PGN: players, all orders with their results, centres by year.

[Austria "random"]
...
[Result "draw"]

S1901M  Spring 1901, movement
  Austria  A BUD - SER; A VIE - TRI (bounced); F TRI - ALB

For a game from another start than spring 1901, the units and centres of its first phase come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sparring.configs.core.errors import printable
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name, standard_board
from sparring.envs.diplomacy.orders.notation import unit_name, write_unit
from sparring.envs.diplomacy.records import timeline

POWER_NAMES = tuple(power.capitalize() for power in POWERS)
_WIDTH = max(map(len, POWER_NAMES))


def game_log(phases: Sequence[timeline.Phase], *, players: Sequence[str] = ()) -> str:
    """Return the whole game, ending in a newline; `players` names the players of the seven powers in order."""
    lines = [f'[{name} "{_quoted(player)}"]' for name, player in zip(POWER_NAMES, players, strict=False)]
    lines += [f'[Result "{result(phases)}"]']
    if not _is_opening(phases[0]):
        lines += ["", "Start", *_standing(phases[0])]
    years = timeline.counts_by_year(phases)
    for phase, after in pairwise(phases):
        lines += [
            "",
            f"{phase['name']}  {timeline.phase_title(phase['name'])}",
            *_by_power(timeline.order_outcomes(phase, after)),
            *(f"  {line}" for line in phase.get("beliefs", ())),
        ]
        if phase["name"][0] == "F" and after["name"][0] != "F":
            year = int(phase["name"][1:-1])
            lines += ["", f"Centres after {year}: {_counted(years[year])}"]
    if not timeline.is_over(phases):
        lines += ["", f"{phases[-1]['name']}  {timeline.phase_title(phases[-1]['name'])}", "  is next"]
    return "\n".join(lines) + "\n"


def result(phases: Sequence[timeline.Phase]) -> str:
    """Describe the result of a game."""
    if not timeline.is_over(phases):
        return "unfinished"
    victor, counts = timeline.winner(phases), timeline.centre_counts(phases[-1])
    if victor >= 0:
        return f"{POWER_NAMES[victor]} wins with {counts[victor]} centres"
    if not any(counts):
        return "draw"
    alive = [name for name, count in zip(POWER_NAMES, counts, strict=True) if count]
    return f"draw of {len(alive)}: {', '.join(alive)}" if len(alive) < len(POWER_NAMES) else "draw of all seven"


def outcome_text(outcome: timeline.OrderOutcome) -> str:
    """Return an order as text, followed by its note in brackets if it did not succeed."""
    return f"{outcome.text} ({outcome.note})" if outcome.note else outcome.text


def _is_opening(phase: timeline.Phase) -> bool:
    """Return whether units and centres are those of spring 1901."""
    board = standard_board()
    start = {(power, unit_name(kind, location)) for power, kind, location in board.start}
    owned = phase["owner"] == board.home[board.centres].tolist()
    return owned and not any(phase["dislodged"]) and start == {*_units(phase["units"])}


def _units(units: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield (power, unit as text) of every unit."""
    for province, unit in enumerate(units):
        if unit:
            yield (unit - 1) % codes.NUM_POWERS, write_unit(unit, province)


def _standing(phase: timeline.Phase) -> Iterator[str]:
    """Yield a line for every power with units or centres."""
    board = standard_board()
    for power, name in enumerate(POWER_NAMES):
        units = [unit for owner, unit in _units(phase["units"]) if owner == power]
        units += [f"{unit} (dislodged)" for owner, unit in _units(phase["dislodged"]) if owner == power]
        centres = [location_name(int(board.centres[c])) for c, owner in enumerate(phase["owner"]) if owner == power]
        if units or centres:
            yield f"  {name:{_WIDTH}}  {', '.join(units) or 'no units'}; centres {' '.join(centres) or 'none'}"


def _by_power(done: Sequence[timeline.OrderOutcome]) -> Iterator[str]:
    if not done:
        yield "  nothing was ordered"
    for power, name in enumerate(POWER_NAMES):
        orders = [outcome_text(outcome) for outcome in done if outcome.power == power]
        if orders:
            yield f"  {name:{_WIDTH}}  {'; '.join(orders)}"


def _counted(counts: Sequence[int]) -> str:
    """Return the powers with centres and their counts, largest first."""
    order = sorted(range(len(counts)), key=lambda power: -counts[power])
    return ", ".join(f"{POWER_NAMES[power]} {counts[power]}" for power in order if counts[power])


def _quoted(text: str) -> str:
    """Return text escaped for quotation marks, on one line, without characters that are not printed."""
    return printable(" ".join(text.split())).replace("\\", "\\\\").replace('"', '\\"')
