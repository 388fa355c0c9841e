"""Prompts match expected texts and depend on the position and rules only.

Windows hold what the board says lies around a unit, checked by hand on a few places.
"""

from dataclasses import replace

import pytest

from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.prompts.prompts import (
    PromptRules,
    board_text,
    render,
    static_prefix,
    window_words,
    windows,
)
from tests.envs.diplomacy.prompts.asking import ask, random_decisions, scene

COMPACT, FULL = PromptRules(), PromptRules(compact=False)
MOVES = scene({"france": "A PAR, F BRE", "germany": "A BUR, F KIE", "russia": "F STP/NC"}, year=1903)
FRANCE, GERMANY, ITALY = (POWERS.index(name) for name in ("FRANCE", "GERMANY", "ITALY"))


def body(row, power, rules=COMPACT):
    """Return a prompt without its common beginning."""
    prefix, text = static_prefix(rules), render(row, POWERS.index(power), ask(row, power), rules, last_year=1910)
    assert text.startswith(prefix)
    return text[len(prefix) :]


BOARD = """\
spring 1903 of 1910
AUSTRIA 3 BUD TRI VIE :
ENGLAND 3 EDI LON LVP :
FRANCE 3 BRE MAR PAR : F BRE A PAR
GERMANY 3 BER KIE MUN : A BUR F KIE
ITALY 3 NAP ROM VEN :
RUSSIA 4 MOS SEV STP WAR : F STP/NC
TURKEY 3 ANK CON SMY :
nobody 12 BEL BUL DEN GRE HOL NWY POR RUM SER SPA SWE TUN
"""


def test_compact_prompt():
    assert body(MOVES, "FRANCE") == BOARD + "FRANCE : F BRE A PAR\n<orders>\n"
    assert static_prefix(COMPACT) == "Diplomacy\n"


def test_retreat_prompt():
    row = scene(
        {"germany": "A BUR", "italy": "A MAR"},
        phase=codes.FALL_RETREATS,
        dislodged={"FRANCE A BUR": "MUN", "FRANCE A MAR": "PIE"},
        contested=["PAR", "GAS"],
    )
    lines = body(row, "FRANCE").splitlines()
    assert lines[0] == "fall retreats 1901 of 1910"
    assert lines[-5:] == [
        "dislodged FRANCE A BUR from MUN",
        "dislodged FRANCE A MAR from PIE",
        "contested GAS PAR",
        "FRANCE retreats : A BUR A MAR",
        "<orders>",
    ]


def test_winter_prompt():
    row = scene({"france": "A BUR", "germany": "A MUN, A BER, F KIE, F DEN"}, phase=codes.WINTER)
    assert body(row, "FRANCE").splitlines()[-2] == "FRANCE builds 2 : BRE MAR PAR"
    assert body(row, "GERMANY").splitlines()[-2] == "GERMANY disbands 1 : A BER F DEN F KIE A MUN"


WINDOWS = """\
FRANCE
F BRE 13 ENG GAS MAO PIC
A PAR 7 BRE FRANCE F FRANCE BUR A GERMANY GAS PIC by BUR
<orders>
"""


def test_windows_and_counts_follow_each_unit():
    rules = replace(COMPACT, show_map_windows=True, show_action_counts=True)
    counts = [len(options) for options in ask(MOVES, "FRANCE").options]
    assert body(MOVES, "FRANCE", rules) == BOARD + WINDOWS.replace("13", str(counts[0])).replace("7", str(counts[1]))


def test_full_prompt_counts_name_order_kinds():
    rules = replace(FULL, show_action_counts=True)
    fleet, army = (len(options) for options in ask(MOVES, "FRANCE").options)
    assert body(MOVES, "FRANCE", rules).splitlines()[-3:-1] == [
        f"F BRE [{fleet}: hold, move, support]", f"A PAR [{army}: hold, move, support]",
    ]  # fmt: skip
    at_sea = scene({"england": "F NTH, A LON"}, phase=codes.SPRING)
    lines = body(at_sea, "ENGLAND", rules).splitlines()
    assert ["convoy" in line for line in lines if line.startswith(("F NTH [", "A LON ["))] == [False, True]
    winter = scene({"france": "A BUR", "germany": "A MUN, A BER, F KIE, F DEN"}, phase=codes.WINTER)
    assert "BRE [2: build]\nMAR [2: build]\nPAR [1: build]\n" in body(winter, "FRANCE", rules)
    assert "A BER [1: disband]" in body(winter, "GERMANY", rules)


def test_prompt_without_board_lists_own_possessions():
    rules = replace(COMPACT, show_board_context=False)
    assert body(MOVES, "FRANCE", rules) == (
        "spring 1903 of 1910\nFRANCE 3 BRE MAR PAR : F BRE A PAR\nFRANCE : F BRE A PAR\n<orders>\n"
    )


def test_valid_moves_are_complete():
    lines = body(MOVES, "FRANCE", replace(COMPACT, show_valid_moves=True)).splitlines()
    for line, options in zip(lines[-3:-1], ask(MOVES, "FRANCE").options, strict=True):
        assert line.split(" = ")[1].split(", ") == [option.text for option in options]
        assert len(options) > 5


FULL_END = """\
The game ends after 1910.
You are FRANCE. These units move, hold, support or convoy:
F BRE: ENG, GAS, MAO, PIC
A PAR: BRE (FRANCE, F FRANCE), BUR (A GERMANY), GAS, PIC; threatened from BUR
<orders>
"""


def test_full_prompt_has_instructions_and_sentences():
    rules = replace(FULL, show_map_windows=True)
    text = body(MOVES, "FRANCE", rules)
    assert text.startswith("S1903M: spring 1903\nAUSTRIA: 3 centres BUD TRI VIE; 0 units\n")
    assert text.endswith(FULL_END)
    assert "one order a line" in static_prefix(FULL)
    hidden = body(MOVES, "FRANCE", replace(FULL, show_board_context=False))
    assert hidden.startswith(
        "It is spring 1903.\nThe game ends after 1910.\nFRANCE 3 BRE MAR PAR : F BRE A PAR\nYou are"
    )


def test_full_prompts_ask_for_due_orders():
    winter = scene({"france": "A BUR", "germany": "A MUN, A BER, F KIE, F DEN"}, phase=codes.WINTER)
    assert body(winter, "FRANCE", FULL).endswith("You are FRANCE. 2 to build, of these:\nBRE\nMAR\nPAR\n<orders>\n")
    assert "You are GERMANY. 1 to disband, of these:\nA BER\n" in body(winter, "GERMANY", FULL)
    retreat = scene({"germany": "A BUR"}, phase=codes.SPRING_RETREATS, dislodged={"FRANCE A BUR": "MUN"})
    assert body(retreat, "FRANCE", FULL).endswith("These units retreat or disband:\nA BUR\n<orders>\n")


SWITCHES = ("show_valid_moves", "show_board_context", "show_map_windows", "show_action_counts")


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_changes_prompt(switch, compact):
    rules = PromptRules(compact=compact)
    turned = replace(rules, **{switch: not getattr(rules, switch)})
    assert body(MOVES, "FRANCE", turned) != body(MOVES, "FRANCE", rules)


ALL_RULES = [replace(rules, **{switch: not getattr(rules, switch)}) for rules in (COMPACT, FULL) for switch in SWITCHES]


def test_prompts_share_game_prefix_and_position_board():
    for row, choices, _ in random_decisions(games=1):
        for rules in (COMPACT, FULL, *ALL_RULES):
            shared = static_prefix(rules) + board_text(row, rules, last_year=1905)
            text = render(row, choices.power, choices, rules, last_year=1905)
            assert text.startswith(shared)
            assert text.endswith("\n<orders>\n")
            assert render(row, choices.power, choices, rules, last_year=1905) == text


def test_prompt_for_power_without_orders_is_rejected():
    row = scene({"france": "A PAR"}, phase=codes.FALL_RETREATS)
    with pytest.raises(ValueError, match="FRANCE has nothing to order"):
        render(row, 2, ask(row, "FRANCE"), COMPACT, last_year=1910)


def test_rules_match_configuration():
    model = LanguageModelConfig(compact=False, show_board_context=False, show_map_windows=True)
    assert PromptRules.of(model) == PromptRules(compact=False, show_board_context=False, show_map_windows=True)


def around(row, power=FRANCE):
    return {
        location_name(window.province): ([name for name, *_ in window.neighbours], list(window.threats))
        for window in windows(row, power)
    }


def test_army_sees_land_and_fleet_its_coast():
    row = scene({"france": "A SPA, F POR"})
    assert around(row) == {"POR": (["MAO", "SPA/NC", "SPA/SC"], []), "SPA": (["GAS", "MAR", "POR"], [])}


def test_fleet_on_coast_sees_neighbours_of_that_coast():
    assert around(scene({"france": "F SPA/NC"}))["SPA"][0] == ["GAS", "MAO", "POR"]
    assert around(scene({"france": "F SPA/SC"}))["SPA"][0] == ["LYO", "MAO", "MAR", "POR", "WES"]


def test_foreign_units_in_reach_are_threats():
    row = scene({"france": "A MAR, A GAS", "italy": "A PIE, F LYO, F TUN, A BUR", "germany": "F SPA/NC"})
    assert around(row)["MAR"][1] == ["BUR", "LYO", "PIE"]  # the fleet on Spain's north coast cannot
    assert around(row)["GAS"][1] == ["BUR", "SPA"]
    assert around(row, ITALY)["BUR"][1] == ["GAS", "MAR"]


def test_neighbour_states_owner_and_unit():
    row = scene({"france": "A PAR", "germany": "A BUR"}, owner={"italy": "BRE"})
    (window,) = windows(row, FRANCE)
    found = {name: facts for name, *facts in window.neighbours}
    assert (found["BRE"], found["BUR"]) == (["ITALY"], ["A GERMANY"])
    assert window_words(window, compact=True) == "BRE ITALY BUR A GERMANY GAS PIC by BUR"
    assert window_words(window, compact=False) == "BRE (ITALY), BUR (A GERMANY), GAS, PIC; threatened from BUR"


def test_map_window_lists_neutral_centres_as_nobody():
    (window,) = windows(scene({"germany": "F DEN"}), GERMANY)
    assert window_words(window, compact=True) == "BAL HEL KIE GERMANY NTH SKA SWE nobody"


def test_dislodged_units_have_windows_in_retreats():
    row = scene({"france": "A PAR", "germany": "A BUR"}, phase=codes.SPRING_RETREATS, dislodged={"FRANCE A BUR": "MUN"})
    (window,) = windows(row, FRANCE)
    assert window_words(window, compact=True) == "BEL nobody GAS MAR FRANCE MUN GERMANY PAR FRANCE A FRANCE PIC RUH"
