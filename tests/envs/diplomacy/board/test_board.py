"""The standard board against the published game: counts, homes, and commonly mistaken adjacencies.

`ARMY_DEGREES` and `FLEET_DEGREES` say how many neighbours each place has, counted by hand place by place, and not from
the file, which writes every adjacency once.
"""

from itertools import combinations

import numpy as np
import pytest

from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.diplomacy.board import board as module
from sparring.envs.diplomacy.board.board import (
    ARMY,
    COAST,
    FLEET,
    INLAND,
    NOTHING,
    POWERS,
    SEA,
    find_location,
    location_name,
    standard_board,
)

BOARD = standard_board()

INLAND_CODES = "BOH BUD BUR GAL MOS MUN PAR RUH SER SIL TYR UKR VIE WAR"
SEA_CODES = "ADR AEG BAL BAR BLA BOT EAS ENG HEL ION IRI LYO MAO NAO NTH NWG SKA TYS WES"
HOMES = {
    "AUSTRIA": "BUD TRI VIE",
    "ENGLAND": "EDI LON LVP",
    "FRANCE": "BRE MAR PAR",
    "GERMANY": "BER KIE MUN",
    "ITALY": "NAP ROM VEN",
    "RUSSIA": "MOS SEV STP WAR",
    "TURKEY": "ANK CON SMY",
}
NEUTRAL_CENTRES = "BEL BUL DEN GRE HOL NWY POR RUM SER SPA SWE TUN"
FLEETS_AT_THE_START = {
    "AUSTRIA": "TRI",
    "ENGLAND": "EDI LON",
    "FRANCE": "BRE",
    "GERMANY": "KIE",
    "ITALY": "NAP",
    "RUSSIA": "SEV STP/SC",
    "TURKEY": "ANK",
}

ARMY_DEGREES = {
    7: "BUR GAL MUN",
    6: "RUM SER SIL TRI TYR VEN WAR",
    5: "BOH BUD GAS KIE MOS RUH UKR VIE",
    4: "ARM BEL BER BUL LVN LVP MAR PAR PIC PIE PRU ROM SEV SMY STP YOR",
    3: "ALB ANK APU BRE CON EDI FIN GRE HOL NWY SPA SWE TUS WAL",
    2: "CLY DEN LON NAP SYR",
    1: "NAF POR TUN",
    0: SEA_CODES,
}
FLEET_DEGREES = {
    11: "NTH",
    10: "MAO",
    9: "ION",
    8: "ENG",
    7: "BAL TYS",
    6: "AEG BLA LYO NWG WES CON DEN NWY SWE",
    5: "ADR BOT IRI NAO KIE SPA/SC",
    4: "EAS HEL SKA ALB APU BEL BRE CLY EDI GRE HOL LON LVN LVP NAP SMY TUN TUS WAL",
    3: "BAR ANK ARM BER BUL/EC BUL/SC FIN GAS MAR NAF PIC PIE POR PRU ROM RUM SEV SPA/NC STP/SC TRI VEN YOR",
    2: "STP/NC SYR",
    0: f"BUL SPA STP {INLAND_CODES}",
}


def codes(indices):
    return " ".join(BOARD.locations[index] for index in indices)


def touching(unit, pair):
    here, there = (BOARD.locations.index(place) for place in pair.split("-"))
    return bool((BOARD.army_next if unit == ARMY else BOARD.fleet_next)[here, there])


def neighbours(matrix, place):
    return codes(np.flatnonzero(matrix[BOARD.locations.index(place)]))


# Counts, types, order


def test_board_has_published_size():
    assert len(BOARD.provinces) == len(BOARD.names) == len(BOARD.coasts_of) == 75
    assert len(BOARD.locations) == 81
    assert len(BOARD.centres) == 34
    assert len(BOARD.start) == 22
    assert [(BOARD.terrain == terrain).sum() for terrain in (INLAND, COAST, SEA)] == [14, 42, 19]
    assert (BOARD.army_next.sum(), BOARD.fleet_next.sum()) == (2 * 111, 2 * 141)


def test_locations_are_ordered():
    assert list(BOARD.provinces) == sorted(set(BOARD.provinces))
    assert len(set(BOARD.names)) == 75
    assert BOARD.locations == (*BOARD.provinces, "BUL/EC", "BUL/SC", "SPA/NC", "SPA/SC", "STP/NC", "STP/SC")


def test_coasts_map_to_province_and_back():
    assert [BOARD.provinces[province] for province in BOARD.province_of] == [place[:3] for place in BOARD.locations]
    split = {BOARD.provinces[index]: coasts for index, coasts in enumerate(BOARD.coasts_of) if coasts}
    assert split == {"BUL": (75, 76), "SPA": (77, 78), "STP": (79, 80)}


def test_terrain():
    assert codes(np.flatnonzero(BOARD.terrain == INLAND)) == INLAND_CODES
    assert codes(np.flatnonzero(BOARD.terrain == SEA)) == SEA_CODES


# Centres and the start


def test_centres_and_homes():
    owned = {power: codes(np.flatnonzero(BOARD.home == index)) for index, power in enumerate(POWERS)}
    assert owned == HOMES
    assert codes(sorted(BOARD.centres[BOARD.home[BOARD.centres] == NOTHING])) == NEUTRAL_CENTRES
    assert not np.setdiff1d(np.flatnonzero(BOARD.home != NOTHING), BOARD.centres).size


@pytest.mark.parametrize("power", POWERS)
def test_power_starts_with_units_on_homes_and_its_fleets(power):
    units = [(unit, location) for owner, unit, location in BOARD.start if POWERS[owner] == power]
    assert codes(sorted(BOARD.province_of[location] for _, location in units)) == HOMES[power]
    assert codes(sorted(location for unit, location in units if unit == FLEET)) == FLEETS_AT_THE_START[power]


# Adjacency


@pytest.mark.parametrize("matrix", [BOARD.army_next, BOARD.fleet_next])
def test_adjacency_is_symmetric_and_irreflexive(matrix):
    np.testing.assert_array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()


@pytest.mark.parametrize(("matrix", "table"), [(BOARD.army_next, ARMY_DEGREES), (BOARD.fleet_next, FLEET_DEGREES)])
def test_neighbour_counts_match_hand_count(matrix, table):
    expected = {place: degree for degree, places in table.items() for place in places.split()}
    assert {BOARD.locations[index]: degree for index, degree in enumerate(matrix.sum(axis=1).tolist())} == expected


@pytest.mark.parametrize(
    ("lists", "matrix"), [(BOARD.army_neighbours, BOARD.army_next), (BOARD.fleet_neighbours, BOARD.fleet_next)]
)
def test_neighbour_lists_match_matrix(lists, matrix):
    for row, adjacent in zip(lists.tolist(), matrix, strict=True):
        found = np.flatnonzero(adjacent).tolist()
        assert row == found + [NOTHING] * (len(row) - len(found))


def test_fleets_move_between_coasts_exactly_along_shared_sea():
    # Gascony and the south coast of Spain share the Mid-Atlantic but do not meet: only the north coast reaches France.
    seas = BOARD.fleet_next[:, np.flatnonzero(BOARD.terrain == SEA)]
    shores = [index for index in range(81) if BOARD.terrain[BOARD.province_of[index]] == COAST]
    differing = [
        codes(pair)
        for pair in combinations(shores, 2)
        if BOARD.fleet_next[pair]
        != (BOARD.army_next[tuple(BOARD.province_of[[*pair]])] and (seas[[*pair]].all(0)).any())
    ]
    assert differing == ["GAS SPA/SC"]


PASSAGES = [
    # shores that turn away from each other
    ((True, False), """
     ANK-SMY ARM-SMY ARM-SYR APU-ROM ROM-VEN TUS-VEN PIE-VEN GAS-MAR FIN-NWY EDI-LVP LVP-YOR WAL-YOR
     """),
    # inland
    ((True, False), """
     SEV-UKR RUM-UKR MUN-KIE RUH-HOL TYR-VEN TYR-PIE GAL-RUM BUR-MAR SER-GRE WAR-PRU
     """),
    # split provinces: the army's place is the province
    ((True, False), """
     BUL-CON BUL-GRE BUL-RUM BUL-SER SPA-GAS SPA-MAR SPA-POR STP-FIN STP-LVN STP-MOS STP-NWY
     """),
    # across the straits and through the canal
    ((True, True), """
     DEN-KIE DEN-SWE CON-ANK CON-SMY
     """),
    # along the shore
    ((True, True), """
     ALB-TRI ALB-GRE APU-VEN APU-NAP TRI-VEN NAP-ROM ROM-TUS PIE-TUS MAR-PIE NAF-TUN NWY-SWE FIN-SWE BER-KIE BER-PRU
     LVN-PRU HOL-KIE BEL-HOL BEL-PIC BRE-PIC BRE-GAS CLY-EDI CLY-LVP EDI-YOR LON-YOR LON-WAL LVP-WAL SMY-SYR ANK-ARM
     ARM-SEV RUM-SEV
     """),
    ((None, True), """
     BUL/EC-BLA BUL/EC-CON BUL/EC-RUM BUL/SC-AEG BUL/SC-CON BUL/SC-GRE SPA/NC-GAS SPA/NC-POR SPA/NC-MAO SPA/SC-MAR
     SPA/SC-POR SPA/SC-MAO SPA/SC-LYO SPA/SC-WES STP/NC-BAR STP/NC-NWY STP/SC-BOT STP/SC-FIN STP/SC-LVN MAO-NAF
     MAO-WES MAO-NAO MAO-IRI MAO-ENG LON-ENG WAL-IRI WAL-ENG LVP-NAO CLY-NAO NTH-ENG NTH-HEL NTH-SKA NTH-NWG NTH-DEN
     HEL-DEN HEL-KIE SKA-DEN SKA-NWY SKA-SWE BAL-KIE BAL-DEN BAL-BOT LVN-BOT LVN-BAL NWY-BAR NWY-NWG NWG-BAR NWG-EDI
     TYS-ION TYS-TUN TYS-WES TYS-LYO ION-ADR ION-AEG ION-EAS ION-TUN ION-ALB ION-GRE AEG-EAS AEG-CON AEG-SMY EAS-SYR
     CON-BLA ADR-ALB ADR-APU
     """),
    # the other coast
    ((None, False), """
     BUL/EC-AEG BUL/EC-GRE BUL/SC-BLA BUL/SC-RUM SPA/NC-MAR SPA/NC-LYO SPA/NC-WES SPA/SC-GAS STP/NC-BOT STP/NC-FIN
     STP/NC-LVN STP/SC-BAR STP/SC-NWY BUL/EC-BUL/SC SPA/NC-SPA/SC STP/NC-STP/SC
     """),
    # land between two seas
    ((None, False), """
     AEG-BLA BAL-SKA BAL-HEL BAL-NTH BAR-BOT SKA-HEL ADR-TYS LYO-MAO AEG-ADR BOT-SKA
     """),
    # seas and shores that seem to touch
    ((None, False), """
     IRI-NTH IRI-CLY IRI-NWG NAO-ENG NAO-NTH NAO-EDI ENG-HEL ENG-HOL HEL-BEL HEL-SKA ION-WES ION-LYO ION-SMY EAS-GRE
     EAS-TUN EAS-CON AEG-ALB WES-MAR LYO-ROM LYO-TUN TYS-PIE TYS-APU NTH-SWE NTH-PIC NTH-CLY BAR-FIN NWG-SWE BAL-FIN
     BOT-PRU ADR-NAP MAO-LON MAO-PIC MAO-WAL LON-BEL LON-PIC ROM-APU
     """),
    ((False, None), """
     APU-ALB ROM-PIE CLY-YOR CLY-WAL EDI-LON LON-LVP LON-EDI DEN-NWY DEN-HOL DEN-BER SPA-NAF SPA-BUR TUN-NAP CON-GRE
     SMY-SEV MUN-VIE MUN-PIE MAR-TYR BOH-BUD GAL-SER PRU-MOS SIL-UKR RUH-PIC RUH-BER HOL-BUR BEL-PAR BRE-BUR TRI-BOH
     TRI-GRE VEN-NAP FIN-MOS FIN-LVN STP-SWE STP-SEV SEV-GAL BUD-BUL WAR-BOH UKR-BUD
     """),
]  # fmt: skip
"""Whether an army and a fleet pass between two places, None where that is not asked, and the pairs."""


@pytest.mark.parametrize(("passes", "pairs"), PASSAGES, ids=range(len(PASSAGES)))
def test_published_adjacencies_of_armies_and_fleets(passes, pairs):
    for pair in pairs.split():
        for unit, passage in zip((ARMY, FLEET), passes, strict=True):
            assert passage is None or touching(unit, pair) == passage, (unit, pair)


# Names


def test_every_location_is_found_by_its_names():
    for index, code in enumerate(BOARD.locations):
        assert location_name(index) == code
        assert find_location(code) == find_location(code.lower()) == find_location(f" {code} ") == index
    assert [find_location(name) for name in BOARD.names] == list(range(75))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *(("stp(nc)", "STP/NC"), ("STP (SC)", "STP/SC"), ("Spa/sc", "SPA/SC"), ("BUL ec", "BUL/EC"),
         ("BUL ECS", "BUL/EC")),
        *(("St. Petersburg (north coast)", "STP/NC"), ("spain, South Coast", "SPA/SC"), ("St Petersburg", "STP")),
        *(("GOL", "LYO"), ("tyn", "TYS"), ("mid", "MAO"), ("NRG", "NWG"), ("nor", "NWY"), ("ECH", "ENG"),
         ("gob", "BOT")),
        *(("english channel", "ENG"), ("Mid-Atlantic", "MAO"), ("mid atlantic ocean", "MAO"), ("Romania", "RUM")),
        *(("Gulf of Lyons", "LYO"), ("Heligoland Bight", "HEL"), ("NORTH AFRICA", "NAF"), ("North Sea", "NTH")),
    ],
)  # fmt: skip
def test_alternative_location_spellings_are_read(text, code):
    assert location_name(find_location(text)) == code


def test_locations_share_no_spelling():
    words = [*BOARD.provinces, *BOARD.names, *(word for aliases in module.ALIASES.values() for word in aliases)]
    assert len({module._key(word) for word in words}) == len(words)
    assert set(module.ALIASES) <= set(BOARD.provinces)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MRA", "unknown province 'MRA': write a code or a name, as in PAR, STP/NC, North Sea; did you mean 'MAR'?"),
        ("Edinburg", "did you mean 'EDI'?"),
        ("Spain nort coast", "did you mean 'SPA/NC'?"),
        ("STP/EC", "unknown coast 'STP/EC': choose from STP/NC, STP/SC"),
        ("bul(nc)", "unknown coast 'bul(nc)': choose from BUL/EC, BUL/SC"),
        ("MAR/SC", "unknown coast 'MAR/SC': choose from MAR alone"),
        ("", "unknown province ''"),
        ("/", "unknown province '/'"),
        ("PAR\nMUN", "unknown province 'PAR\\nMUN'"),
    ],
)
def test_unknown_location_is_rejected_in_one_line(text, said):
    with pytest.raises(UnknownNameError) as caught:
        find_location(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("location", [-1, 81])
def test_name_of_invalid_location_is_rejected(location):
    with pytest.raises(InputError, match=f"location {location}: must be in \\[0, 80\\]"):
        location_name(location)


@pytest.mark.parametrize("text", ["garbage", "hello", "xyz", "move"])
def test_dissimilar_text_matches_no_location(text):
    with pytest.raises(UnknownNameError, match=r"STP/NC, North Sea$"):
        find_location(text)
