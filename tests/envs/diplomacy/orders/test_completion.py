"""Completions are read as intended in any wording, and always give a legal answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.orders import completion
from sparring.envs.diplomacy.orders.choices import WAIVE
from sparring.envs.diplomacy.orders.completion import parse
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.envs.diplomacy.prompts.asking import ask, draw, random_decisions, scene

MOVES = ask(scene({"france": "A MAR, F BRE, A PAR", "germany": "A MUN"}), "FRANCE")
RETREAT = ask(
    scene({"germany": "A BUR"}, phase=codes.FALL_RETREATS, dislodged={"FRANCE A BUR": "MUN"}, contested=["PAR"]),
    "FRANCE",
)
BUILDS = ask(scene({"france": "A BUR"}, phase=codes.WINTER), "FRANCE")
DISBANDS = ask(scene({"france": "A BUR, F BRE, A PAR"}, owner={"germany": "BRE, MAR"}, phase=codes.WINTER), "FRANCE")
ALL = (MOVES, RETREAT, BUILDS, DISBANDS)


def texts(reading):
    return [option.text for option in reading.chosen]


def is_legal(reading, choices):
    """Walk the menus like a constrained sampler."""
    last = -1
    for line, option in enumerate(reading.chosen):
        if option not in choices.menu(line, last):
            return False
        last = option.slot
    return len(reading.chosen) == choices.lines


def test_random_answers_are_parsed_in_all_phases():
    rng, phases = np.random.default_rng(3), set()
    for row, choices, _ in random_decisions():
        chosen = draw(choices, rng)
        reading = parse(DIPLOMACY_TEXT.write(chosen), choices)
        assert reading.chosen == chosen
        assert reading.orders_extracted == reading.orders_expected == choices.lines
        assert not reading.problems
        phases.add(int(row["phase"]))
    assert phases == set(range(len(codes.PHASES)))


@pytest.mark.parametrize(
    ("choices", "text", "illegal"),
    [
        (MOVES, "A MAR - BUR\nF BRE H\nA PAR S A MAR - BUR", 0),
        (MOVES, "A MAR - MOS\nF BRE H\nA PAR - BUR", 1),
        (MOVES, "F MAR - BUR\nA MUN - BUR\nA PAR B", 2),  # the letter of a unit is not read
        (MOVES, "WAIVE", 1),
        (MOVES, "A PAR H\nA PAR - BUR", 0),  # a second order for a unit is not taken, and legal
        (MOVES, "A XYZ H\nAs a model I cannot move armies.\nA PAR -> BUR, maybe", 0),
        (MOVES, "", 0),
        (RETREAT, "A BUR - MUN", 1),
        (RETREAT, "A BUR R GAS", 0),
        (BUILDS, "A LON B", 1),
        (BUILDS, "WAIVE", 0),
        (DISBANDS, "A PAR - BUR\nWAIVE", 2),
    ],
)
def test_only_illegal_orders_are_counted(choices, text, illegal):
    assert parse(text, choices).illegal == illegal


def test_completion_is_lines_and_closing_tag():
    chosen = parse("A MAR - BUR\nF BRE H\nA PAR S MAR - BUR", MOVES).chosen
    assert DIPLOMACY_TEXT.write(chosen) == "F BRE H\nA MAR - BUR\nA PAR S MAR - BUR\n</orders>"


@pytest.mark.parametrize(
    "text",
    [
        "A MAR - BUR\nF BRE H\nA PAR S A MAR - BUR\n</orders>",
        "<orders>\nA PAR S A MAR - BUR\nA MAR - BUR\nF BRE H\n</orders>\nThat is all. A PAR H",
        "I think: A PAR H\n<orders>\n1. army marseilles -> burgundy\n2. fleet Brest holds\n- A PAR S MAR - BUR",
        "a mar-bur; f bre h; a par s a mar - bur",
        "<think>\nA PAR - PIC\nF BRE - ENG\nbut no.\n</think>\nA MAR - BUR\nF BRE H\nA PAR S A MAR - BUR",
    ],
)
def test_orders_are_found_in_any_wording(text):
    reading = parse(text, MOVES)
    assert texts(reading) == ["F BRE H", "A MAR - BUR", "A PAR S MAR - BUR"]
    assert (reading.orders_extracted, reading.orders_expected, reading.empty) == (3, 3, False)


WANTED = ["F BRE - MAO", "A MAR - SPA", "A PAR - BUR"]


@pytest.mark.parametrize(
    "text",
    [
        "- **A PAR - BUR**\n1. `A MAR - SPA`\nF BRE - MAO (head for Portugal)",
        '{"orders": ["A PAR - BUR", "A MAR - SPA", "F BRE - MAO"]}',
        '```json\n{\n "orders": [\n  "A PAR - BUR",\n  "A MAR - SPA",\n  "F BRE - MAO"\n ]\n}\n```',
        '["A PAR - BUR", "A MAR - SPA", "F BRE - MAO"]',
        '{"FRANCE": ["A PAR - BUR", "A MAR - SPA", "F BRE - MAO"]}',
        "A PAR - BUR, A MAR - SPA and F BRE - MAO.",
        "FRANCE: A PAR - BUR; A MAR - SPA; F BRE - MAO",
        "| A PAR | - BUR |\n|---|---|\n| A MAR - SPA |\n| F BRE → MAO |",
        "```\nA PAR — BUR # hold the line\nA MAR – SPA // and Spain\nF BRE ‑ MAO [for Portugal]\n```",
        "The army at Paris move to Burgundy.\nThe army at Marseilles move to Spain.\n"
        "The fleet at Brest move to Mid-Atlantic Ocean.",
        "> 'a par-bur'\n+ “a mar-spa”\n* [x] *Fleet Brest attacks Mid-Atlantic Ocean*",
        "France: A Paris -> Burgundy\nA Marseilles -> Spain\nF Brest -> Mid-Atlantic Ocean.",
    ],
)
def test_orders_are_read_in_markup_lists_tables_and_json(text):
    reading = parse(text, MOVES)
    assert texts(reading) == WANTED
    assert not reading.problems


@pytest.mark.parametrize(
    "line",
    [
        *("I will not do A PAR - BUR", "~~A PAR - BUR~~", "A PAR - BUR (no, better not)"),
        *("A PAR - BUR (or A PAR - PIC)", "Maybe A PAR - BUR", "A PAR - BUR, if Germany agrees", "A PAR - BUR - MUN"),
        *('{"rejected": ["A PAR - BUR"]}', '[{"unit": "A PAR", "to": "BUR"}]', "| rejected | A PAR - BUR |"),
    ],
)
def test_line_that_may_negate_order_is_named_and_not_played(line):
    reading = parse(f"{line}\nF BRE - MAO", MOVES)
    assert texts(reading) == ["F BRE - MAO", "A MAR H", "A PAR H"]
    assert (reading.orders_extracted, len(reading.problems)) == (1, 1)
    assert reading.problems[0].problem


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("The army at Paris support move to Burgundy from Marseilles.", "A PAR S MAR - BUR"),
        ("The army at Paris support hold to Marseilles.", "A PAR S MAR"),
        ("A Paris Supports A Marseilles - Burgundy", "A PAR S MAR - BUR"),
        ("Army Paris supports army Marseilles to hold", "A PAR S MAR"),
        ("The fleet at North Sea convoy to Norway from London.", "F NTH C A LON - NWY"),
        ("Fleet St Petersburg (south coast) moves to Gulf of Bothnia", "F STP/SC - BOT"),
        ("A London - Norway via Convoy", "A LON - NWY VIA"),
        ("Destroy army at Paris", "A PAR D"),
    ],
)
def test_wordings_of_other_programs_are_read(text, usual):
    (line,) = completion.order_lines(text)
    assert not line.problem
    assert (line.orders[0].location, line.orders[0].order) == (read_order(usual).location, read_order(usual).order)


def test_unusable_lines_are_named_and_first_option_is_used():
    reading = parse("A MAR - LON\nA MUN H\nF BRE - ENG\nF BRE - MAO\nhello", MOVES)
    assert texts(reading) == ["F BRE - ENG", "A MAR H", "A PAR H"]
    assert (reading.orders_extracted, reading.empty) == (1, False)
    assert [line.text for line in reading.problems] == ["A MAR - LON", "A MUN H", "F BRE - MAO", "hello"]
    assert [line.problem for line in reading.problems[:3]] == [
        "is not legal in MAR now",
        "FRANCE has nothing to order in MUN",
        "BRE has an order already; the first one counts",
    ]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "</orders>\nA PAR H", "I surrender.", "\x00\ud800", "WAIVE", "<think>\nA PAR - BUR"]
)
def test_answer_without_orders_is_empty(text):
    reading = parse(text, MOVES)
    assert reading.empty
    assert texts(reading) == ["F BRE H", "A MAR H", "A PAR H"]


def test_missing_retreat_is_disband():
    assert texts(parse("A BUR R PAR", RETREAT)) == ["A BUR D"]
    assert texts(parse("A BUR R GAS", RETREAT)) == ["A BUR R GAS"]


@pytest.mark.parametrize(
    ("text", "wanted", "extracted"),
    [
        ("F BRE B\nA PAR B", ["F BRE B", "A PAR B"], 2),
        ("A PAR B\nF BRE B\nA MAR B", ["F BRE B", "A PAR B"], 2),
        ("build army paris", ["A PAR B", WAIVE], 1),
        ("WAIVE\nA PAR B", ["A PAR B", WAIVE], 2),
        ("waive\npass\nwaive", [WAIVE, WAIVE], 2),
        ("F PAR B", [WAIVE, WAIVE], 0),
    ],
)
def test_builds(text, wanted, extracted):
    reading = parse(text, BUILDS)
    assert (texts(reading), reading.orders_extracted) == (wanted, extracted)


@pytest.mark.parametrize(
    ("text", "wanted", "extracted"),
    [
        ("A PAR D\nF BRE D", ["F BRE D", "A PAR D"], 2),
        ("A PAR D", ["F BRE D", "A PAR D"], 1),
        ("", ["F BRE D", "A BUR D"], 0),
        ("A BUR D\nA PAR D\nF BRE D", ["A BUR D", "A PAR D"], 2),
    ],
)
def test_disbands(text, wanted, extracted):
    reading = parse(text, DISBANDS)
    assert (texts(reading), reading.orders_extracted) == (wanted, extracted)


ORDERS = [option.text for choices in ALL for options in choices.options for option in options]
LINES = st.one_of(st.text(max_size=60), st.sampled_from([*ORDERS, WAIVE, "<orders>", "</orders>", "A", "F BRE -"]))


@given(st.lists(LINES, max_size=12).map("\n".join), st.sampled_from(ALL))
def test_any_text_gives_legal_answer(text, choices):
    reading = parse(text, choices)
    assert is_legal(reading, choices)
    assert 0 <= reading.orders_extracted <= reading.orders_expected == choices.lines
    assert reading.empty == (reading.orders_extracted == 0)


@pytest.mark.parametrize("text", ["x" * 10_000_000, "A PAR J\n" * 1_000_000, "<orders>" * 1_000_000, ";" * 10_000_000])
def test_at_most_100_short_lines_of_long_text_are_read(text, monkeypatch):
    read, read_order = [], completion.read_order
    monkeypatch.setattr(completion, "read_order", lambda line: read.append(len(line)) or read_order(line))
    reading = parse(text, MOVES)
    assert reading.empty
    assert len(reading.problems) <= 100
    assert len(read) <= 100
    assert max(read, default=0) <= 100


def test_position_without_lines_needs_no_answer():
    nothing = ask(scene({"france": "A PAR, A MAR, F BRE"}, phase=codes.WINTER), "FRANCE")
    reading = parse("A PAR H", nothing)
    assert (reading.chosen, reading.empty) == ((), False)
