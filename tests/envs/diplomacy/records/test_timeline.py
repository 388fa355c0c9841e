"""Recorded games, their order outcomes, and the log."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import find_location
from sparring.envs.diplomacy.records.game_log import game_log, result
from sparring.envs.diplomacy.records.history import PhaseRecord, WatchedBatch
from sparring.envs.diplomacy.records.timeline import (
    END,
    centre_counts,
    counts_by_year,
    order_outcomes,
    phases_of,
    winner,
)
from tests.envs.diplomacy.scenes import drawn_game, play


@pytest.fixture(scope="module")
def random_game():
    return drawn_game(last_year=1904, games=2, game=1)


def notes(phases, number=0):
    return {outcome.text: outcome.note for outcome in order_outcomes(phases[number], phases[number + 1])}


# ---- recording


def test_recording_is_plain_data_from_opening_to_end(random_game):
    assert json.loads(json.dumps(random_game)) == random_game
    names = [phase["name"] for phase in random_game]
    assert names[0] == "S1901M"
    assert names[-1] == END
    assert {name[1:-1] for name in names[:-1]} == {"1901", "1902", "1903", "1904"}
    assert all(len(phase["units"]) == 75 and len(phase["owner"]) == 34 for phase in random_game)
    assert sum(random_game[-1]["orders"]) == 0


def test_recording_matches_played_game(random_game):
    batch = DiplomacyBatch(2, threads=1, last_year=1904)
    for phase, after in pairwise(random_game):
        assert batch.units[1].tolist() == phase["units"]
        batch.orders[1].numpy()[:] = phase["orders"]
        batch.process()
        assert batch.results[1].tolist() == phase["results"]
        assert batch.units[1].tolist() == after["units"]
        assert batch.owner[1].tolist() == after["owner"]
    batch.close()


def test_only_current_phase_lacks_orders_and_results():
    orders, results = np.zeros(75, dtype=np.int32), np.zeros(75, dtype=np.uint8)
    whole, orderless, silent = (
        PhaseRecord(opening(), orders, results),
        PhaseRecord(opening()),
        PhaseRecord(opening(), orders),
    )
    assert len(phases_of([whole, whole, orderless])) == 3
    with pytest.raises(InputError, match=r"phases\[1\]: orders missing; only the last phase"):
        phases_of([whole, orderless, orderless])
    with pytest.raises(InputError, match=r"phases\[0\]: results missing; only the last phase"):
        phases_of([silent, orderless])
    with pytest.raises(InputError, match=r"phases\[1\]: has orders; the last phase is where the game stands"):
        phases_of([whole, PhaseRecord(opening(), orders + 1, results)])


def test_centres_are_counted_after_every_year(random_game):
    years = counts_by_year(random_game)
    assert sorted(years) == [1900, 1901, 1902, 1903, 1904]
    assert years[1900] == [3, 3, 3, 3, 3, 4, 3]
    assert years[1904] == centre_counts(random_game[-1])
    assert counts_by_year(random_game[-1:]) == {}


# ---- outcomes of orders


def test_failed_orders_state_reason():
    units = {
        "Austria": "A VIE, A TRI, A BUD",
        "Italy": "A VEN, A TYR, F ADR",
        "Turkey": "A SMY",
        "England": "A LON, F YOR",
        "Germany": "A MUN",
    }
    orders = {
        "Austria": "A VIE - TYR, A TRI S A VIE - TYR, A BUD S A GAL",
        "Italy": "A VEN - TRI, A TYR H, F ADR S A TYR - TRI",
        "Turkey": "A SMY - LON",
        "England": "A LON - NWY, F YOR S A LON - NWY",
        "Germany": "A MUN S A TYR - TRI",
    }
    assert notes(play(units, orders)) == {
        "A BUD S GAL": "void",
        "A TRI S VIE - TYR": "cut",
        "A VIE - TYR": "bounced",
        "A LON - NWY": "void",
        "F YOR S LON - NWY": "void",
        "A MUN S TYR - TRI": "void",
        "F ADR S TYR - TRI": "no effect",
        "A TYR H": "",
        "A VEN - TRI": "bounced",
        "A SMY - LON": "void",
    }


def test_dislodged_unit_appears_in_movement_and_retreat_phase():
    units = {"France": "A MAR, A BUR", "Germany": "A MUN, A RUH"}
    attack = {"Germany": "A MUN - BUR, A RUH S A MUN - BUR", "France": "A MAR H, A BUR H"}
    phases = play(units, attack, {}, {})
    assert notes(phases)["A BUR H"] == "dislodged"
    assert notes(phases, 1) == {"A BUR D": "not ordered"}
    for retreat in ("A BUR R PAR", "A BUR - PAR"):
        assert notes(play(units, attack, {"France": retreat}, {}), 1) == {"A BUR R PAR": ""}


def test_unit_without_retreat_is_listed_as_removed():
    units = {"Italy": "A NAP, F ION", "Austria": "A APU, A ROM, F TYS"}
    orders = {"Austria": "A APU - NAP, A ROM S A APU - NAP, F TYS - ION", "Italy": "A NAP H"}
    told = notes(play(units, orders))
    assert (told["A NAP H"], told["F ION H"]) == ("dislodged and disbanded", "not ordered")


def test_two_retreats_to_one_place():
    units = {"France": "A BUR", "Italy": "A PIC", "Germany": "A MUN, A RUH, A BEL", "England": "A BRE, F ENG"}
    attack = {"Germany": "A MUN - BUR, A RUH S A MUN - BUR", "England": "A BRE - PIC, F ENG S A BRE - PIC"}
    phases = play(units, attack, {"France": "A BUR R PAR", "Italy": "A PIC R PAR"}, {})
    assert set(notes(phases, 1).values()) == {"another went there too, disbanded"}


def test_winter_lists_builds_disbands_and_civil_disorder():
    units = {"France": "A GAS", "Russia": "A MOS, A SEV, A WAR, F BAL, F BOT"}
    orders = {"France": "A PAR B, F BRE B, A BRE B", "Russia": ""}
    phases = play(units, orders, owner={"France": "PAR, BRE, MAR"}, phase=codes.WINTER)
    told = notes(phases)
    assert {text: told[text] for text in told if text.endswith(" B")} == {"A PAR B": "", "F BRE B": ""}
    assert [note for text, note in told.items() if text.endswith(" D")] == ["civil disorder"]


def test_convoy_lists_its_seas():
    units = {"England": "A LON, F NTH, F NWG, F ENG", "France": "A PIC"}
    orders = {
        "England": "A LON - STP, F NTH C A LON - STP, F NWG C A LON - STP, F ENG C A PIC - WAL",
        "France": "A PIC - BEL",
    }
    units["England"] += ", F BAR"
    orders["England"] += ", F BAR C A LON - STP"
    phases = play(units, orders)
    by_text = {outcome.text: outcome for outcome in order_outcomes(phases[0], phases[1])}
    seas = tuple(find_location(sea) for sea in ("NTH", "NWG", "BAR"))
    assert by_text["A LON - STP"].by_sea == seas
    assert by_text["A LON - STP"].fine
    assert by_text["A PIC - BEL"].by_sea is None
    assert not by_text["F ENG C A PIC - WAL"].fine


NO_ORDERS = (12, codes.pack(codes.MOVE, 100), codes.pack(codes.CONVOY, 3, 81), codes.pack(codes.BUILD, 46, 2), -1)


@pytest.mark.parametrize("order", NO_ORDERS)
def test_integer_outside_orders_is_void_hold(order):
    batch = WatchedBatch(1, threads=1, last_year=1901)
    batch.orders.fill_(order)
    batch.process()
    phases = phases_of(batch.past())
    batch.close()
    told = notes(phases)
    assert len(told) == 22
    assert set(told.values()) == {"void"}
    assert all(text.endswith(" H") for text in told)
    assert "France   F BRE H (void); A MAR H (void); A PAR H (void)" in game_log(phases)


@pytest.mark.parametrize("order", NO_ORDERS)
def test_integer_outside_orders_is_omitted_in_winter(order):
    winter = play({"France": "A BUR"}, {"France": "A PAR B"}, phase=codes.WINTER)
    for name in ("BUR", "GAS", "LON"):
        winter[0]["orders"][find_location(name)], winter[0]["results"][find_location(name)] = order, codes.VOID
    assert notes(winter) == {"A PAR B": ""}


def test_build_outside_home_is_counted_for_unit_there():
    winter = play({"France": "A BUR"}, {}, phase=codes.WINTER)
    for name in ("BUR", "GAS"):
        place = find_location(name)
        winter[0]["orders"][place], winter[0]["results"][place] = codes.pack(codes.BUILD, place), codes.VOID
    (outcome,) = order_outcomes(*winter)
    assert (outcome.power, outcome.text, outcome.note, outcome.start) == (2, "A BUR B", "void", find_location("BUR"))


# ---- the log


def test_log_has_every_order_and_centres(random_game):
    text = game_log(random_game, players=['"bot"\n'] * 7)
    assert text.startswith('[Austria "\\"bot\\""]\n')
    for phase, after in pairwise(random_game):
        block = re.search(rf"^{phase['name']}  .*?(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE)[0]
        for outcome in order_outcomes(phase, after):
            assert outcome.text in block
    assert re.findall(r"Centres after (\d+)", text) == ["1901", "1902", "1903", "1904"]


def test_log_states_custom_start(random_game):
    assert "Start" not in game_log(random_game)
    units = {"France": "A BUR, F SPA/SC", "Germany": "A MUN, A RUH"}
    phases = play(units, {"Germany": "A MUN - BUR, A RUH S A MUN - BUR"}, owner={"Germany": "MAR"})
    told = game_log(phases)
    assert "Start\n  Austria  no units; centres BUD TRI VIE\n" in told
    assert "\n  France   A BUR, F SPA/SC; centres BRE PAR\n" in told
    assert "\n  Germany  A MUN, A RUH; centres BER KIE MAR MUN\n" in told
    assert "  France   A BUR, F SPA/SC; centres" not in game_log(phases[1:])
    assert "\n  France   F SPA/SC, A BUR (dislodged); centres BRE PAR\n" in game_log(phases[1:])
    assert told.startswith('[Result "unfinished"]\n')
    assert told.endswith("\n\nS1901R  Spring 1901, retreats\n  is next\n")


def test_game_starting_in_winter_has_centres_of_its_year():
    phases = play({"France": "A GAS"}, {"France": "A PAR B"}, phase=codes.WINTER)
    assert list(counts_by_year(phases)) == [1901]


def test_saved_winner_is_kept():
    """It is also kept if the others have no units left."""
    last = {**opening(), "done": torch.ones(1), "winner": torch.full((1,), 2)}
    assert result(phases_of([PhaseRecord(last)])) == "France wins with 3 centres"


def test_timeline_ends_with_solo():
    board = "ANK, BEL, BER, BRE, BUD, BUL, CON, DEN, EDI, GRE, HOL, KIE, LON, LVP, MAR, MOS"
    units = {"France": "A BUR, A RUM", "Italy": "A ROM"}
    phases = play(units, {"France": "A RUM H"}, owner={"France": board}, phase=codes.FALL)
    assert phases[-1]["name"] == END
    assert winner(phases) == 2
    assert result(phases) == "France wins with 18 centres"
    assert '[Result "France wins with 18 centres"]' in game_log(phases)


def test_draw_names_survivors(random_game):
    assert winner(random_game) == -1
    assert result(random_game) == "draw of all seven"
    units = {"France": "A PAR", "Italy": "A ROM"}
    owned = "ANK, CON, SMY, SEV, MOS, WAR, STP, BUD, TRI, VIE, EDI, LON, LVP"
    owner = {"France": owned, "Italy": "BER, KIE, MUN"}
    phases = play(units, {}, {}, owner=owner, phase=codes.FALL, last_year=1901)
    assert result(phases) == "draw of 2: France, Italy"


def test_convoy_of_stationary_army_is_not_successful():
    """The chain's other fleet is dislodged; by another route the army sails, and both have convoyed."""
    units = {"England": "A LON, F NTH, F NWG", "Russia": "F BAR, F NWY"}
    for goal, note in (("CLY", "the army did not sail"), ("EDI", "")):
        chain = f"A LON - {goal} VIA, F NTH C A LON - {goal}, F NWG C A LON - {goal}"
        phases = play(units, {"England": chain, "Russia": "F BAR - NWG, F NWY S F BAR - NWG"})
        outcomes = {outcome.text[:5]: outcome for outcome in order_outcomes(phases[0], phases[1])}
        assert outcomes["F NTH"].note == note
        assert outcomes["F NTH"].fine == (not note)
        assert outcomes["F NWG"].note == ", ".join(filter(None, [note, "dislodged"]))
