"""Every joint order has exactly one sequence of lines, which the adjudicator carries out."""

import numpy as np
import torch

from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices, choices
from sparring.envs.diplomacy.orders.order_choices import SIDES, read_choices, rows_of, units_of, write_orders
from sparring.envs.text import Option


def sequences(asked: Choices) -> list[tuple[str, ...]]:
    """Return all complete answers by walking the menus."""
    found = [((), -1)]
    for line in range(asked.lines):
        found = [((*texts, option.text), option.slot) for texts, last in found for option in asked.menu(line, last)]
    return [texts for texts, _ in found]


def winter(kinds: list[list[str]], lines: int, sign: int) -> Choices:
    options = tuple(tuple(Option(text, 1, slot) for text in texts) for slot, texts in enumerate(kinds))
    return Choices(0, tuple(range(len(kinds))), options, lines, sign)


def test_each_set_of_builds_has_one_sequence():
    found = sequences(winter([["A BUD B"], ["A TRI B", "F TRI B"], ["A VIE B"]], 2, 1))
    one = [("A BUD B", WAIVE), ("A TRI B", WAIVE), ("F TRI B", WAIVE), ("A VIE B", WAIVE)]
    two = [("A BUD B", "A TRI B"), ("A BUD B", "F TRI B"), ("A BUD B", "A VIE B")]
    two += [("A TRI B", "A VIE B"), ("F TRI B", "A VIE B")]
    assert sorted(found) == sorted([(WAIVE, WAIVE), *one, *two])


def test_disbands_cover_sets_of_due_size_without_repeats():
    found = sequences(winter([["A BUD D"], ["A TRI D"], ["A VIE D"], ["A ROM D"]], 3, -1))
    assert len(found) == len(set(found)) == 4
    assert all(len(set(texts)) == 3 for texts in found)


def test_random_answers_are_adjudicated_as_written():
    batch, rng, phases = DiplomacyBatch(12, last_year=1905, threads=1), np.random.default_rng(1), set()
    while not bool(batch.done.all()):
        batch.orders.zero_()
        before = [{name: getattr(batch, name)[game].numpy().copy() for name in STATE} for game in range(12)]
        for game, row in enumerate(before):
            if not row["done"]:
                phases.add(int(row["phase"]))
                batch.orders[game] = batch.orders.new_tensor(random_orders(row, batch.legal_orders(game), rng))
        batch.process()
        batch.check()
        check_winters(before, batch.units.numpy())
    batch.close()
    assert phases == {codes.SPRING, codes.SPRING_RETREATS, codes.FALL, codes.FALL_RETREATS, codes.WINTER}


def random_orders(row: dict, listed: dict, rng: np.random.Generator) -> np.ndarray:
    """Return orders [75] of all powers, each line drawn from its menu."""
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    for power in range(codes.NUM_POWERS):
        asked, chosen, last = choices(row, listed, power), [], -1
        for line in range(asked.lines):
            menu = asked.menu(line, last)
            chosen.append(menu[rng.integers(len(menu))])
            last = chosen[-1].slot
        asked.write(chosen, orders)
        row.setdefault("built", {})[power] = sum(option.text != WAIVE for option in chosen) * asked.winter
    return orders


def check_winters(before: list[dict], after: np.ndarray) -> None:
    """Check that every power's units change by its number of lines in winter."""
    for row, units in zip(before, after, strict=True):
        if not row["done"] and int(row["phase"]) == codes.WINTER:
            for power, built in row["built"].items():
                old, new = ((codes.power_of(board) == power).sum() for board in (row["units"], units))
                assert new - old == built


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


def test_unlisted_orders_have_no_index():
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
