"""Agreement with the `diplomacy` package on the same orders over a few hundred phases."""

from random import Random

import numpy as np
import pytest

pytest.importorskip("diplomacy", reason="the package diplomacy is not installed: pip install -e '.[peers]'")

from benchmarks.diplomacy_peers.match import CROWDS, DRAWN, Crowds, Match, sample
from benchmarks.diplomacy_peers.orders import STYLES
from benchmarks.diplomacy_peers.peer import Games, Peer
from benchmarks.diplomacy_peers.readings import (
    HEAD_ON,
    INTENT,
    NO_FLEET,
    OWN_ATTACK,
    OWN_SUPPORT,
    RETREAT,
    ROUTES,
    SIEGE,
    readings,
)
from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import COAST, INLAND, POWERS, SEA, standard_board
from sparring.envs.diplomacy.orders.notation import read_order, read_unit


@pytest.fixture(scope="module")
def tallies():
    return {style: sample(style, phases=80, games=16, seed=11) for style in (DRAWN, *STYLES, CROWDS)}


def test_every_difference_is_explained(tallies):
    unexplained = [text for tally in tallies.values() for text in tally.unexplained]
    assert not unexplained, "\n".join(unexplained)


def test_every_phase_type_is_compared(tallies):
    phases = sum((tally.phases for tally in tallies.values()), start=type(tallies["drawn"].phases)())
    assert sum(phases.values()) >= 400
    assert set(phases) == {"M", "R", "A"}


def test_most_phases_agree(tallies):
    for style, tally in tallies.items():
        differ = tally.events["differences"] / sum(tally.phases.values())
        assert differ < (0.35 if style in ("drawn", "crowds") else 0.15), style


def test_both_list_same_legal_orders(tallies):
    for style, tally in tallies.items():
        assert tally.events["orders refused by the package"] == 0, style
        assert tally.events["orders void"] == 0 or style == "crowds", style
        assert tally.events["other legal orders listed by one alone"] == 0, style
    assert sum(tally.events["legal orders listed by both"] for tally in tallies.values()) > 10_000


def phase(*lines):
    """Return units and orders from lines such as "FRANCE A PAR - BUR"."""
    units, orders = np.zeros(75, dtype=np.uint8), np.zeros(75, dtype=np.int32)
    for line in lines:
        power, _, text = line.partition(" ")
        place, code = read_unit(" ".join(text.split()[:2]), POWERS.index(power))
        units[place], orders[place] = code, read_order(text).order
    return units, orders


def reasons(*lines):
    return {name for reading in readings(*phase(*lines)) for name in reading.reasons}


def test_reasons_are_searched_only_where_relevant():
    assert reasons("FRANCE A PAR - BUR", "FRANCE A MAR S PAR - BUR") == set()
    assert reasons("FRANCE A BRE - PIC VIA", "FRANCE F ENG H") == {NO_FLEET}
    assert reasons("FRANCE A BRE - PIC", "FRANCE F ENG C A BRE - PIC") == {INTENT}
    attack = ("ITALY A VEN - TRI VIA", "ITALY F ADR C A VEN - TRI", "AUSTRIA A BUD S VEN - TRI", "AUSTRIA F TRI H")
    assert reasons(*attack) == {OWN_SUPPORT}
    crossing = ("ITALY A VEN - TRI", "ITALY A ROM S TRI - VEN", "AUSTRIA F TRI - VEN", "AUSTRIA A BUD S VEN - TRI")
    assert reasons(*crossing) == {HEAD_ON}


EXAMPLES = {
    NO_FLEET: ("FRANCE A BRE - PIC VIA", "FRANCE F ENG H"),
    INTENT: ("FRANCE A BRE - PIC", "FRANCE F ENG C A BRE - PIC", "ENGLAND A PIC - BRE"),
    OWN_SUPPORT: (*("ITALY A VEN - TRI VIA", "ITALY F ADR C A VEN - TRI"),
     *("AUSTRIA A BUD S VEN - TRI", "AUSTRIA F TRI H")),
    OWN_ATTACK: (*("ENGLAND A LON - NWY VIA", "ENGLAND F NTH C A LON - NWY", "ENGLAND F ENG S HOL - NTH"),
     "GERMANY F HOL - NTH"),
    HEAD_ON: (*("ITALY A VEN - TRI", "ITALY F ADR S VEN - TRI", "ITALY A ROM S TRI - VEN"),
     *("AUSTRIA F TRI - VEN", "AUSTRIA A BUD S VEN - TRI")),
    RETREAT: (*("ENGLAND A WAL - POR VIA", "ENGLAND F IRI C A WAL - POR", "ENGLAND F MAO C A WAL - POR"),
     *("ENGLAND F SPA/SC S WAL - POR", "FRANCE A POR H")),
    SIEGE: (*("GERMANY F YOR - NTH", "GERMANY F DEN S YOR - NTH", "AUSTRIA F HEL - NTH", "AUSTRIA F HOL S HEL - NTH"),
     *("ENGLAND F NTH C A BEL - YOR", "ENGLAND A BEL - YOR", "ENGLAND A LON S BEL - YOR")),
    ROUTES: (*("ENGLAND A POR - LVP VIA", "ENGLAND F MAO C A POR - LVP"),
     *("ENGLAND F IRI C A POR - LVP", "ENGLAND F NAO C A POR - LVP"),
     *("FRANCE F ENG - MAO", "FRANCE F NAF S ENG - MAO"),
     *("FRANCE A LON - WAL", "GERMANY A LVP S LON - WAL", "ENGLAND A WAL H")),
}  # fmt: skip
"""The shortest position for each reason, as `docs/results/diplomacy_agreement.md` tells them."""


@pytest.mark.parametrize("reason", EXAMPLES)
def test_every_reason_has_example(reason):
    match = Crowds(1, seed=1)
    units, orders = phase(*EXAMPLES[reason])
    match.play(units[None], orders[None])
    assert dict(match.tally.differences) == {reason: 1}
    assert not match.tally.unexplained
    match.close()


@pytest.mark.parametrize(("coast", "agree"), [("", True), ("/NC", True), ("/SC", False)])
def test_package_ignores_support_naming_other_coast_of_fleet(coast, agree):
    """The fleet is in SPA/NC. By DATC 4.B.5 a wrong coast is ignored, so our adjudicator counts the support."""
    match = Crowds(1, seed=1)
    lines = ("FRANCE F SPA/NC - MAO", f"FRANCE F POR S SPA{coast} - MAO", "ENGLAND F NAO - MAO")
    units, orders = phase(*lines)
    match.play(units[None], orders[None])
    assert bool(match.tally.unexplained) != agree
    match.close()


@pytest.mark.parametrize(("coast", "moved"), [("", 1), ("/NC", 1), ("/SC", 0)])
def test_support_to_other_coast_than_move_fails(coast, moved):
    """DATC 4.B.4 and 6.B.9. Only the package counts the support."""
    match = Crowds(1, seed=1)
    units, orders = phase("FRANCE F MAO - SPA/NC", f"FRANCE F WES S MAO - SPA{coast}", "ITALY F LYO - SPA/SC")
    match.play(units[None], orders[None])
    assert not match.tally.differences
    assert not match.tally.unexplained
    assert match.tally.events["moves made"] == moved
    match.close()


@pytest.mark.parametrize(
    ("support", "moves"),
    [("H", False), ("S F MAO - SPA/NC", True), ("S F MAO - SPA", True), ("S F MAO - SPA/SC", True)],
)
@pytest.mark.parametrize("attack", ["A MAR - SPA", "F LYO - SPA/SC", "F POR - SPA/NC", "F POR - SPA/SC"])
def test_package_ignores_coast_in_support_of_move(attack, support, moves):
    game = pytest.importorskip("diplomacy").Game()
    game.clear_units()
    game.set_units("FRANCE", ["F MAO", "F WES"])
    game.set_units("ITALY", [attack.partition(" -")[0]])
    game.set_orders("FRANCE", ["F MAO - SPA/NC", f"F WES {support}"])
    game.set_orders("ITALY", [attack])
    game.process()
    assert ("F SPA/NC" in game.get_units("FRANCE")) == moves


def test_wrong_adjudicator_is_detected(monkeypatch):
    """It would be reported if a support were lost in our adjudicator."""
    match = Match(8, "supports", seed=2)
    process = match.batch.process

    def forgetful():
        match.batch.orders[:, :38] = 0
        process()

    monkeypatch.setattr(match.batch, "process", forgetful)
    for _ in range(6):
        match.step()
    assert match.tally.unexplained
    match.close()


def test_civil_disorder_disbands_same_units():
    """Random winters without orders, in which most powers have too many units."""
    chance, batch = Random(5), DiplomacyBatch(200, threads=1)
    units, owner = np.zeros((200, 75), dtype=np.uint8), np.full((200, 34), -1)
    for row, centres in zip(units, owner, strict=True):
        for place in chance.sample(range(75), 28):
            row[place] = codes.unit_code(chance.randrange(7), chance.choice(forms(place)))
        centres[:] = [chance.randrange(7) if chance.random() < 0.5 else -1 for _ in centres]
    batch.load(position(units, owner, year=1901, phase=codes.WINTER))
    ours, gone = Games(batch), 0
    peers = [Peer() for _ in range(200)]
    for game, peer in enumerate(peers):
        peer.place(ours.standing(game), ours.centres(game), "W1901A")
    before = [ours.standing(game) for game in range(200)]
    batch.process()
    for game, peer in enumerate(peers):
        assert ours.standing(game) == peer.process().units
        gone += len(before[game] - ours.standing(game))
    batch.close()
    assert gone > 1000


def forms(place):
    """Return the units that can stand in a province."""
    board = standard_board()
    fleets = [codes.FLEET_FORM + 1, codes.FLEET_FORM + 2] if board.coasts_of[place] else [codes.FLEET_FORM]
    return {INLAND: [codes.ARMY_FORM], COAST: [codes.ARMY_FORM, *fleets], SEA: fleets}[int(board.terrain[place])]
