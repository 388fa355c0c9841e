"""Civil disorder disbands the units farthest from home, counted by hand."""

import pytest

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from tests.envs.diplomacy.scenes import play

CENTRES = [standard_board().provinces[place] for place in standard_board().centres]


def left(power, units, *, centres):
    """Return the locations of a power's units after a winter with `centres` and no orders."""
    others = "Turkey" if power != "Turkey" else "France"
    owner = {others: ", ".join(code for code in CENTRES if code not in centres), power: ", ".join(centres)}
    winter = play({power: units}, {}, owner=owner, phase=codes.WINTER)
    return [standard_board().provinces[place] for place, unit in enumerate(winter[1]["units"]) if unit]


def test_fleet_does_not_cross_between_coasts_of_province():
    # Five moves each: TRI ALB GRE AEG CON BLA, TRI ADR ION TYS WES MAO. By way of Bulgaria BLA would be four.
    assert left("Austria", "F BLA, F MAO", centres=["VIE"]) == ["MAO"]


@pytest.mark.parametrize(("coast", "stays"), [("NC", "STP"), ("SC", "BOT")])
def test_coast_of_fleet_counts_for_distance(coast, stays):
    # EDI NWG BAR STP/NC: three moves. EDI NTH SKA SWE BOT STP/SC: five, and BOT is four.
    assert left("England", f"F STP/{coast}, F BOT", centres=["LON"]) == [stays]


def test_armies_count_convoys_and_fleets_sail_around_land():
    # An army in Naples is four from Munich, by Tyrolia, Venice and Rome or Apulia; a fleet in Venice, two by land, is
    # farther from Kiel than that, by the Channel and all round Spain and Italy.
    assert left("Germany", "A NAP, F VEN", centres=["BER"]) == ["NAP"]


def test_fleets_precede_armies_then_alphabet_decides():
    # One from home, all of them: BUR, GAS and PIC by land, ENG and MAO by sea.
    assert left("France", "A BUR, F ENG, A GAS, F MAO, A PIC", centres=["PAR", "BRE"]) == ["GAS", "PIC"]
