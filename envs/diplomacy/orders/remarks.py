"""Brackets and comments next to an order: a remark, or a part of the order.

    A BEL - HOL (via convoy)      part: VIA                  F BRE - MAO (head for Portugal)   remark
    F NTH S A BEL [to HOL]        part: support of a move    A PAR - PIC (too risky)           remark
    A PAR - BUR (hold)            neither: the line is not read

A bracket is a part if the line reads as an order with its text in place. If it does not, but the bracket may change the
order (another destination, verb or unit, or a convoy), the line is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import find_location, standard_board
from sparring.envs.diplomacy.orders.notation import LETTERS, Order

Orders = tuple[Order | None, ...]
DOUBT = re.compile(
    r"\b(?:not|no|never|cannot|\w+n['’]?t|if|unless|or|either|instead|rather|maybe|perhaps|could|would|might|otherwise|"
    r"reject\w*|avoid\w*|cancel\w*|illegal|invalid|wrong|alternativ\w*|option\w*)\b",
    re.IGNORECASE,
)
_ROUND = str.maketrans("（）【】｛｝〔〕〈〉⟨⟩{}", "()" * 7)
_COAST = re.compile(r"\(\s*([NESW])(?:ORTH|AST|OUTH|EST)?(?:ERN)?\s*\)", re.IGNORECASE)
_REMARK = re.compile(
    r"\s*(?:[(\[](?!\s*(?:[NESW]C|(?:north|south|east|west)(?:ern)? coast)\s*[)\]])([^()\[\]]*)[)\]]"
    r"|<(via|convoy(?:ed)?|[^<>/|-][^<>]*\s[^<>]*)>)"
    r"|\s*(?:#|//)(.*)$",
    re.IGNORECASE,
)
_BY_CONVOY = re.compile(
    r"(?:(?:goes|going|moves?|moving|travels?|travell?ing|carried|transported|is|by|via|through|using|with|over|on|a|the)"
    r"\s+){0,4}(?:convoy(?:ed|s)?|via|sea)(?:\s+(?:order|route|move))?"
    r"|(?:convoyed|convoy|via|carried)(?:\s+(?:by|via|through|over|of|from|in|convoy))*\s+(?:(?:f|fleets?)\s+)?(?P<place>.+)",
    re.IGNORECASE,
)
"""Words for VIA; a place that they name is the fleet's."""
_VERBS = {
    "H": "hold stand h",
    "-": "mov attack m go",
    "S": "support s",
    "C": "convoy c",
    "R": "retreat r",
    "D": "disband remov destroy d",
    "B": "build built b",
}
_KINDS = {
    codes.HOLD: "H",
    codes.MOVE: "-",
    codes.SUPPORT: "SH",
    codes.SUPPORT_MOVE: "S-",
    codes.CONVOY: "C-",
    codes.RETREAT: "R-",
    codes.DISBAND: "D",
    codes.BUILD: "B",
}
"""Verbs with the same meaning as a kind of order."""
_UNITS = {"A": "A", "ARMY": "A", "F": "F", "FLEET": "F"}
_ARROW = re.compile(r"[-=]+>|[→‐‑–—−]|(?<!\w)-(?!\w)")
_DIRECTIONS = frozenset(("to", "into", "in", "toward", "towards", "at", "-"))
_FILLERS = _DIRECTIONS.union(("the", "with", "by", "a", "an", "its", "on", "from", "of", "against"))
_AIM = re.compile(r"(?:to|into)\b|[-=]+>|[-→‐‑–—−]", re.IGNORECASE)
_PURPOSE = re.compile(
    r"(?:to|in order to|so as to) support\b|with (?:the )?support\b|(?:well |is )?supported\b", re.IGNORECASE
)
"""The purpose of a move, or who supports it: not part of the order."""


def split_remarks(text: str) -> tuple[str, list[str], list[str]]:
    """Return a line without its remarks, the line with all or some of their texts in place, and these texts.

    Coasts in brackets stay.
    """
    text = _COAST.sub(lambda coast: f"({coast[1]}C)", text.translate(_ROUND))
    remarks = [next(filter(None, match.groups()), "").strip() for match in _REMARK.finditer(text)]
    places = [_in_place(remark) for remark in remarks]
    parts = [part if part == "VIA" or _AIM.match(part) else "" for part in places]
    return _REMARK.sub("", text).strip(), [_filled(text, places), _filled(text, parts)], remarks


def _filled(text: str, places: Sequence[str]) -> str:
    """Return a line with these texts in the places of its remarks."""
    texts = iter(places)
    return _REMARK.sub(lambda _: f" {next(texts)} ", text).strip()


def _in_place(remark: str) -> str:
    match = _BY_CONVOY.fullmatch(remark)
    return "VIA" if match and (not match["place"] or _province(match["place"]) is not None) else remark


def with_remarks(
    without: str, full: Sequence[str], remarks: Sequence[str], read: Callable[[str], tuple[Orders, str]]
) -> tuple[Orders, str]:
    """Return the orders of a line and its problem, from the results of `read` with and without its remarks."""
    orders, problem = read(without)
    for text in full:
        complete, wrong = read(text)
        if not wrong and (problem or len(complete) == len(orders)):
            orders, problem, without = complete, "", text
            break
    if problem:
        return (), problem
    unplaced = [remark for remark in remarks if _in_place(remark) not in without]
    part = next((remark for remark in unplaced if _changes(remark, [order for order in orders if order])), None)
    if part is None:
        return orders, ""
    return (), f"has {part[:40]!r} beside the order, which may be a part of it; write the order without brackets"


def _changes(remark: str, orders: Sequence[Order]) -> bool:
    """Return whether a remark may change one of the orders."""
    kinds = {order.order & codes.KIND_MASK for order in orders}
    if re.search(r"\b(?:via|convoy\w*)\b", remark, re.IGNORECASE):
        return any(order.order & codes.KIND_MASK == codes.MOVE and order.letter != "F" for order in orders)
    if codes.MOVE in kinds and _PURPOSE.match(remark):
        return False
    words = re.sub(r"[,.;:!]", " ", _ARROW.sub(" - ", remark)).split()
    named = {_province_of(location) for order in orders for location in _places(order)}
    other = [province for province, _ in _named(words) if province not in named]
    if codes.SUPPORT in kinds and other:
        return True
    covered = {at for _, span in _named(words) for at in span}
    rest = [word for at, word in enumerate(words) if at not in covered]
    if not all(word == "-" or word.lower() in _FILLERS or word.upper() in _UNITS or _verb(word) for word in rest):
        return False
    letters = {_UNITS[word.upper()] for word in rest if word.upper() in _UNITS and word.lower() != "a"}
    letters |= {"A"} if [word for word in words if word.upper() == "A"] == words else set()
    verbs = {verb for verb in map(_verb, rest) if verb}
    same = {verb for kind in kinds for verb in _KINDS.get(kind, "")}
    aims = not rest or any(word.lower() in _DIRECTIONS for word in rest)
    return bool(verbs - same or letters - _letters(orders) or (other and aims))


def _verb(word: str) -> str:
    """Return the verb of an order that a word is a form of, or an empty string."""
    word = word.lower()
    for verb, stems in _VERBS.items():
        for stem in stems.split():
            if word == stem or (len(stem) > 2 and re.fullmatch(rf"{stem}(?:e?s|e?d|ing|e)?", word)):
                return verb
    return "-" if word == "-" else ""


def _letters(orders: Sequence[Order]) -> set[str]:
    letters = {order.letter for order in orders if order.letter}
    return letters or set(LETTERS)


def _places(order: Order) -> list[int]:
    kind, target, other, _ = codes.unpack(order.order)
    return [order.location, *([] if kind in (codes.HOLD, codes.DISBAND) else [target])] + (
        [other] if kind in (codes.SUPPORT_MOVE, codes.CONVOY) else []
    )


def _named(words: Sequence[str]) -> list[tuple[int, range]]:
    """Return the provinces that words name, each with the places of its words; the longest names first."""
    spans: list[tuple[int, range]] = []
    at = 0
    while at < len(words):
        for length in (4, 3, 2, 1):
            province = _province(" ".join(words[at : at + length])) if at + length <= len(words) else None
            if province is not None:
                spans.append((province, range(at, at + length)))
                at += length - 1
                break
        at += 1
    return spans


def _province(text: str) -> int | None:
    """Return the province that a text names."""
    try:
        return _province_of(find_location(text))
    except InputError:
        return None


def _province_of(location: int) -> int:
    return int(standard_board().province_of[location])
