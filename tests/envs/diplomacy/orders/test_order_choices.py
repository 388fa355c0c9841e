"""Choices and packed orders: one is read back from the other."""

import torch

from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import SIDES, read_choices, rows_of, units_of, write_orders

GAMES = 300


def test_written_orders_are_read_back():
    state = {name: values.repeat(GAMES, *[1] * (values.dim() - 1)) for name, values in opening().items()}
    rows = rows_of(observe(state, torch.arange(GAMES) % codes.NUM_POWERS, last_year=1910))
    drawn = torch.randint(1 + 3 * SIDES, (GAMES, codes.SLOTS), generator=torch.Generator().manual_seed(0))
    orders, again = torch.zeros(2, GAMES, codes.NUM_PROVINCES, dtype=torch.int32)
    write_orders(drawn, rows, orders)
    choices = read_choices(orders, rows)
    _, present = units_of(rows)
    assert not choices[~present].any()
    assert {int(kind) for kind in (choices[present] + SIDES - 1) // SIDES} == {0, 1, 2, 3}
    write_orders(choices, rows, again)
    assert torch.equal(again, orders)


def test_orders_outside_the_choices_have_no_index():
    """Austria in the opening: a convoy, a move by convoy, and support of an Italian unit."""
    state = opening()
    rows = rows_of(observe(state, torch.tensor([0]), last_year=1910))
    places, present = units_of(rows)
    foreign = int(torch.nonzero((rows[0] < 0) & (state["units"][0] > 0))[0])
    for order in (
        codes.pack(codes.CONVOY, 3, int(places[0, 0])),
        codes.pack(codes.MOVE, 3) | 1 << codes.VIA_SHIFT,
        codes.pack(codes.SUPPORT, foreign),
        codes.pack(codes.SUPPORT_MOVE, 3, foreign),
    ):
        orders = torch.zeros(1, codes.NUM_PROVINCES, dtype=torch.int32)
        orders[0, places[0, : int(present.sum())]] = order
        assert (read_choices(orders, rows)[present] == -1).all()
