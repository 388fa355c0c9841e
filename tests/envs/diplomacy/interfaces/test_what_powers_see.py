"""The batched observation: own slots, one shared board, and independent games."""

import numpy as np
import pytest
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.board.tensors import board_tensors
from sparring.envs.diplomacy.observation import AT, COLUMNS, SHAPE, observe
from sparring.envs.diplomacy.orders.order_choices import rows_of

GAMES, LAST_YEAR = 14, 1904
BOARD = standard_board()
BY_POWER = ("unit_power", "dislodged_power", "home", "builds", "disbands")
"""Columns of one for each power."""


@pytest.fixture(scope="module")
def phases():
    """Return snapshots of bot games with listed orders, covering all phases."""
    batch = DiplomacyBatch(GAMES, last_year=LAST_YEAR, threads=1)
    batch.players.copy_(torch.tensor([1, 3, 4, 0, 1, 3, 4]).expand(GAMES, -1))
    found = []
    while not found or not batch.done.all():
        found.append((batch.snapshot(), [batch.legal_orders(game) for game in range(GAMES)]))
        batch.draw_orders(5)
        batch.process()
    found.append((batch.snapshot(), [{}] * GAMES))
    batch.close()
    assert {phase for state, _ in found for phase in state["phase"].tolist()} == set(range(5))
    return found


def all_seen(state, power):
    return observe(state, torch.full((GAMES,), power), last_year=LAST_YEAR)


def test_slots_are_provinces_with_orders_in_alphabetical_order(phases):
    for state, listed in phases:
        retreating = (state["dislodged"] > 0).any(1, keepdim=True)
        owned = torch.where(retreating, state["dislodged"], state["units"]).numpy()
        whose = np.where(owned > 0, codes.power_of(owned), BOARD.home)
        for power in range(codes.NUM_POWERS):
            expected = np.zeros((GAMES, codes.NUM_PROVINCES), dtype=np.float32)
            for game, orders in enumerate(listed):
                mine = sorted(province for province in orders if whose[game, province] == power)
                expected[game, mine] = np.arange(1, len(mine) + 1) / 17
            np.testing.assert_allclose(all_seen(state, power)[..., AT["slot"]].squeeze(-1), expected)


def test_powers_see_same_board_from_their_side(phases):
    for state, _ in phases:
        first = all_seen(state, 0)
        for power in range(1, codes.NUM_POWERS):
            seen = all_seen(state, power)
            for name, _ in COLUMNS:
                theirs, ours = first[..., AT[name]], seen[..., AT[name]]
                if name in BY_POWER:
                    theirs = theirs.roll(-power, dims=-1)
                elif name == "owner":
                    theirs = torch.cat([theirs[..., :7].roll(-power, dims=-1), theirs[..., 7:]], dim=-1)
                assert name == "slot" or torch.equal(ours, theirs), name


def test_game_observations_do_not_depend_on_batch(phases):
    powers = torch.arange(GAMES) % codes.NUM_POWERS
    for state, _ in phases[:: len(phases) // 8]:
        together = observe(state, powers, last_year=LAST_YEAR)
        assert together.shape == (GAMES, *SHAPE)
        assert together.dtype == torch.float32
        assert 0.0 <= float(together.min()) <= float(together.max()) <= 1.0
        for game in range(GAMES):
            row = slice(game, game + 1)
            alone = observe({name: values[row] for name, values in state.items()}, powers[row], last_year=LAST_YEAR)
            assert torch.equal(alone, together[row])


def test_own_unit_rows_state_location_and_kind():
    seen = observe(
        {name: rows.expand(7, *rows.shape[1:]) for name, rows in opening().items()}, torch.arange(7), last_year=1910
    )
    rows = rows_of(seen)
    russia = {code: int(rows[POWERS.index("RUSSIA"), find_location(code)]) for code in ("MOS", "WAR", "SEV", "STP")}
    fleets = {"SEV": 81 + find_location("SEV"), "STP": 81 + find_location("STP/SC")}
    assert russia == {code: find_location(code) for code in ("MOS", "WAR")} | fleets
    assert (rows >= 0).sum(1).tolist() == [3, 3, 3, 3, 3, 4, 3]


def test_neighbours_are_reachable_by_army_or_fleet():
    near = board_tensors(torch.device("cpu")).near

    def neighbours(code):
        return {BOARD.provinces[place] for place in near[find_location(code)].nonzero().flatten().tolist()}

    assert neighbours("POR") == {"SPA", "MAO"}
    assert neighbours("STP") == {"NWY", "FIN", "LVN", "MOS", "BAR", "BOT"}  # from either coast
    assert neighbours("TYS") == {"LYO", "WES", "TUN", "ION", "NAP", "ROM", "TUS"}
    assert near[find_location("POR"), find_location("SPA")] == 0.5
