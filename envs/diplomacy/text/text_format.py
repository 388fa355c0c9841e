"""Text format of orders for `envs.text`: tags, lines to test tokenizers, and a menu to test servers."""

from __future__ import annotations

from sparring.envs.diplomacy.board.board import location_name, standard_board
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices
from sparring.envs.diplomacy.orders.completion import CLOSING, OPENING, parse
from sparring.envs.text import Option, TextFormat

LINES = (
    ("A PAR - BUR", "A PAR - GAS", "A PAR - PIC", "A PAR H", "A PAR S A MAR - BUR"),
    ("F BRE - ENG", "F BRE - MAO", "F BRE H"),
)
TRIAL = Choices(
    power=0,
    provinces=(0, 1),
    options=tuple(tuple(Option(text, 0, slot) for text in texts) for slot, texts in enumerate(LINES)),
    lines=len(LINES),
)


def probes() -> list[str]:
    """Return lines with every location of the board in every place of an order, to test a tokenizer."""
    names = [location_name(place) for place in range(len(standard_board().province_of))]
    texts = [WAIVE]
    for place, name in enumerate(names):
        other, third = names[(place + 7) % len(names)], names[(place + 31) % len(names)]
        texts += [f"A {name} H", f"F {name} - {other}", f"A {name} - {other} VIA", f"F {name} S A {other} - {third}"]
        texts += [f"F {name} C A {third} - {other}", f"A {name} S F {third}"]
        texts += [f"F {name} R {other}", f"A {name} D", f"F {name} B"]
    return texts


DIPLOMACY_TEXT = TextFormat(
    opening=OPENING,
    closing=CLOSING,
    probes=probes,
    read=parse,
    trial=TRIAL,
    sample=f"A PAR - BUR\nF STP/SC S A MOS\nWAIVE\n{OPENING}",
)
