"""Order requests: identical games share their request and trie."""

import torch

from sparring.agents.language.decoding.constraint import Constraint
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.orders.choices import choices
from sparring.envs.diplomacy.prompts.prompts import PromptRules, render
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT, pending_requests
from sparring.envs.text import Prompt
from tests.agents.language.toys import word_tokenizer

PLAYERS = [["model"] * 2 + ["dumbbot"] * 5] * 3


def played_apart():
    """Return three games, the last of which is a phase ahead."""
    batch = DiplomacyBatch(3, threads=1)
    batch.players.fill_(codes.BOTS.index("dumbbot"))
    batch.done.copy_(torch.tensor([1, 1, 0]))
    batch.draw_orders(3)
    batch.process()
    batch.done.zero_()
    return batch


def test_each_seat_gets_request_of_its_own_game():
    batch = played_apart()
    found = pending_requests(batch, PLAYERS, PromptRules())
    assert [(seat.game, seat.seat) for seat in found] == [(game, power) for game in range(3) for power in (0, 1)]
    for seat in found:
        row = {name: tensor[seat.game].numpy() for name, tensor in batch.state.items()}
        asked = choices(row, batch.legal_orders(seat.game), seat.seat)
        assert seat.menu == asked
        assert seat.text == render(row, seat.seat, asked, PromptRules(), last_year=batch.last_year)
        assert all((seat.position[name] == row[name]).all() for name in row)
    batch.close()


def test_identical_games_share_request_and_trie():
    batch = played_apart()
    found = pending_requests(batch, PLAYERS, PromptRules())
    batch.close()
    first, _, again, _, other, _ = (seat.menu for seat in found)
    assert again is first
    assert other != first
    constraint = Constraint(word_tokenizer(), DIPLOMACY_TEXT)
    assert len(constraint.compile([first, again]).options) == len(constraint.compile([first]).options)
    assert Prompt("", first, 1).menu is again
