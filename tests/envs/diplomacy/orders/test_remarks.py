"""Brackets beside an order: part of it, a remark, or a reason to skip the line. Values by hand."""

import pytest

from sparring.envs.diplomacy.orders.completion import order_lines
from sparring.envs.diplomacy.orders.notation import read_order

PARTS = {
    "A BEL - HOL VIA": [
        *("A BEL - HOL (via convoy)", "A BEL - HOL [VIA]", "A BEL - HOL (by convoy)", "A BEL - HOL {via convoy}"),
        *(
            "A BEL - HOL (convoyed)",
            "A BEL - HOL <via convoy>",
            "A BEL - HOL （via convoy）",
            "A BEL - HOL # via convoy",
        ),
        *("A BEL - HOL (via F NTH)", "A BEL - HOL (convoyed by F NTH)", "A BEL - HOL(VIA)", "A BEL - HOL (by sea)"),
        *("A BEL - HOL // by convoy", "A BEL - HOL (via convoy) (go!)"),
    ],
    "F NTH S A BEL - HOL": [
        *("F NTH S A BEL (to HOL)", "F NTH S A BEL [to HOL]", "F NTH S A BEL (-> HOL)", "F NTH S A BEL (- HOL)"),
        "F NTH S A BEL - HOL (with A LON)",
    ],
    "F NTH S A BEL": ["F NTH S A BEL (hold)", "F NTH S A BEL (to hold)", "F NTH S A BEL (in Belgium)"],
    "A BEL - HOL": [
        *("A BEL (-> HOL)", "A BEL (to HOL)", "A BEL - HOL (too risky)", "A BEL - HOL (with support)"),
        *("A BEL - HOL (supported by F NTH)", "A BEL - HOL (Holland)", "A BEL - HOL (attack)", "A BEL (A) - HOL"),
        *("A BEL - HOL (by land)", "A Bel(gium) - Hol(land)", "A BEL - HOL (from Belgium)"),
    ],
    "A BEL H": ["A BEL (hold)", "A BEL H (hold)", "A BEL H (to defend Belgium)"],
    "F MAO - SPA/SC": ["F MAO - SPA (sc)", "F MAO - SPA (south coast)", "F MAO - SPA (south)", "F MAO - SPA {SC}"],
    "F NTH C A LON - NWY": ["F NTH C A LON (to NWY)", "F NTH C A LON (- NWY)", "F NTH C A LON - NWY (convoy)"],
    "F NTH - ENG": ["F NTH - ENG (to convoy A LON next turn)"],
    "A LON B": ["A LON (build)"],
    "A LON D": ["A LON (disband)"],
}


@pytest.mark.parametrize(("text", "usual"), [(text, usual) for usual, row in PARTS.items() for text in row])
def test_bracket_is_part_of_order_or_skipped_remark(text, usual):
    (line,) = order_lines(text)
    assert not line.problem
    assert [order.order for order in line.orders] == [read_order(usual).order]


@pytest.mark.parametrize(
    "text",
    [
        *("A BEL - HOL (hold)", "A BEL - HOL (support)", "A BEL - HOL (RUH)", "A BEL - HOL (F)", "A BEL (F) - HOL"),
        *("A BEL - HOL (F NTH convoys)", "A BEL - HOL (no convoy)", "A BEL H (- HOL)", "A BEL (F)"),
        *("F NTH S A BEL (HOL)", "F NTH S A BEL (moving to HOL)", "F NTH S A BEL (for HOL)"),
        *("A BEL R RUH (disband)", "F NTH S A BEL (attack on Holland)", "A BEL - HOL (via convoy"),
    ],
)
def test_bracket_that_may_change_order_skips_line(text):
    (line,) = order_lines(text)
    assert line.problem
    assert not line.orders


def test_each_order_of_line_keeps_its_bracket():
    (line,) = order_lines("A BEL - HOL (via convoy), F NTH C A BEL - HOL")
    assert [order.order for order in line.orders] == [
        read_order("A BEL - HOL VIA").order,
        read_order("F NTH C A BEL - HOL").order,
    ]
