"""Windows hold what the board says lies around a unit, checked by hand on a few places."""

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.prompts.prompts import NO_CENTRE, Neighbour, window_words, windows
from tests.envs.diplomacy.prompts.asking import scene

FRANCE, GERMANY, ITALY = (POWERS.index(name) for name in ("FRANCE", "GERMANY", "ITALY"))


def around(row, power=FRANCE):
    return {
        location_name(window.province): (
            [location_name(near.location) for near in window.neighbours],
            [location_name(place) for place in window.threats],
        )
        for window in windows(row, power)
    }


def test_an_army_sees_land_and_a_fleet_its_coast():
    row = scene({"france": "A SPA, F POR"})
    assert around(row) == {"POR": (["MAO", "SPA/NC", "SPA/SC"], []), "SPA": (["GAS", "MAR", "POR"], [])}


def test_a_fleet_on_a_coast_sees_what_touches_that_coast():
    assert around(scene({"france": "F SPA/NC"}))["SPA"][0] == ["GAS", "MAO", "POR"]
    assert around(scene({"france": "F SPA/SC"}))["SPA"][0] == ["LYO", "MAO", "MAR", "POR", "WES"]


def test_units_of_others_that_can_come_are_threats():
    row = scene({"france": "A MAR, A GAS", "italy": "A PIE, F LYO, F TUN, A BUR", "germany": "F SPA/NC"})
    assert around(row)["MAR"][1] == ["BUR", "LYO", "PIE"]  # the fleet on Spain's north coast cannot
    assert around(row)["GAS"][1] == ["BUR", "SPA"]
    assert around(row, ITALY)["BUR"][1] == ["GAS", "MAR"]


def test_a_neighbour_tells_its_owner_and_unit():
    row = scene({"france": "A PAR", "germany": "A BUR"}, owner={"italy": "BRE"})
    (window,) = windows(row, FRANCE)
    found = {location_name(near.location): near for near in window.neighbours}
    assert found["BRE"] == Neighbour(found["BRE"].location, ITALY, "")
    assert found["BUR"] == Neighbour(found["BUR"].location, NO_CENTRE, "A GERMANY")
    assert window_words(window, compact=True) == "BRE ITALY BUR A GERMANY GAS PIC by BUR"
    assert window_words(window, compact=False) == "BRE (ITALY), BUR (A GERMANY), GAS, PIC; threatened from BUR"


def test_a_neutral_centre_has_no_owner():
    (window,) = windows(scene({"germany": "F DEN"}), GERMANY)
    assert window_words(window, compact=True) == "BAL HEL KIE GERMANY NTH SKA SWE nobody"


def test_in_retreats_the_dislodged_look_around():
    row = scene({"france": "A PAR", "germany": "A BUR"}, phase=codes.SPRING_RETREATS, dislodged={"FRANCE A BUR": "MUN"})
    (window,) = windows(row, FRANCE)
    assert window_words(window, compact=True) == "BEL nobody GAS MAR FRANCE MUN GERMANY PAR FRANCE A FRANCE PIC RUH"
