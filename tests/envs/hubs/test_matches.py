"""Text matches: equal to direct play, seeded, all seats; illegal, missing and truncated answers."""

import random

import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.map_file import POWERS
from sparring.envs.diplomacy.interfaces.text_match import DiplomacyMatch
from sparring.envs.diplomacy.rewards.scoring import sum_of_squares
from sparring.envs.hubs.matches import open_match


def written(lines):
    return "".join(f"{line}\n" for line in lines) + "</orders>"


def first_orders(turn):
    """Return the first legal line of each unit, and in winter as many distinct ones as are due."""
    used = []
    for options in turn.legal:
        used.append(next((line for line in options if line not in used or line == "WAIVE"), options[0]))
    return written(used)


def played(match, seed, answer=first_orders):
    turns = [match.start(seed)]
    while not turns[-1].done:
        turns.append(match.answer(answer(turns[-1])))
    return turns


def test_match_equals_direct_play():
    """The batch plays one holder against six DumbBots with the same seeds."""
    match = open_match("diplomacy", power="france", opponents="dumbbot", last_year=1902)
    turns = played(match, 5)
    match.close()
    batch = DiplomacyBatch(1, last_year=1902, threads=1)
    batch.players.fill_(codes.BOTS.index("dumbbot"))
    batch.players[0, 2] = codes.ACTIONS
    batch.game_id[0] = 5
    answers = iter(turns)
    turn = next(answers)
    while not int(batch.done[0]):
        from sparring.envs.diplomacy.orders.completion import parse
        from sparring.envs.diplomacy.prompts.prompts import PromptRules
        from sparring.envs.diplomacy.prompts.requests import pending_requests, written_orders

        prompts = pending_requests(batch, [["dumbbot"] * 2 + ["me"] + ["dumbbot"] * 4], PromptRules(compact=False))
        if prompts:
            batch.orders.copy_(written_orders(batch, [(prompts[0], parse(first_orders(turn), prompts[0].menu))]))
            turn = next(answers)
        batch.draw_orders(5)
        batch.process()
    assert turn.done
    assert list(turn.facts["centres"].values()) == torch.stack([(batch.owner[0] == p).sum() for p in range(7)]).tolist()
    assert turn.reward == pytest.approx(float(sum_of_squares(batch.owner, solo_takes_all=True)[0, 2]), abs=1e-12)
    assert sum(one.reward for one in turns[:-1]) == 0
    batch.close()


def test_equal_seeds_repeat_games_despite_other_matches():
    one, two = (DiplomacyMatch(last_year=1901, reward="dense") for _ in range(2))
    draws = [random.Random(3), random.Random(3)]

    def drawn(turn, draw):
        return written([draw.choice(options) for options in turn.legal])

    first, second = one.start(8), two.start(8)
    assert first.seat == 1  # seeds in sequence rotate the seats
    while not first.done:
        assert first == second
        first, second = one.answer(drawn(first, draws[0])), two.answer(drawn(second, draws[1]))
    assert first == second
    one.close()
    two.close()


def test_one_player_orders_for_all_seven_seats():
    match = DiplomacyMatch(power="all", last_year=1901, reward="centres")
    turns = played(match, 0)
    match.close()
    assert [turn.seat for turn in turns[:8]] == [0, 1, 2, 3, 4, 5, 6, 0]
    assert sorted(turns[-1].rewards) == list(range(7))
    assert turns[-1].rewards[5] == pytest.approx(turns[-1].facts["centres"]["RUSSIA"] / 34)
    assert turns[-1].reward == pytest.approx(sum(turns[-1].facts["centres"].values()) / 34 / 7)


@pytest.mark.parametrize(
    ("answer", "status", "cut"),
    [
        ("A PAR H\nA MAR H\nF BRE H\n</orders>", "read", None),
        ("A PAR - MOS\nA MAR H\nF BRE H\n</orders>", "illegal", None),
        ("A PAR H\n</orders>", "incomplete", None),
        ("A PAR H\nA MA", "truncated", None),
        ("A PAR H\nA MAR H\nF BRE H", "read", None),  # complete without the closing tag
        ("A PAR H\n", "incomplete", False),
        ("A PAR H\n</orders>", "truncated", True),
        ("", "truncated", None),
    ],
)
def test_answer_outcomes_are_distinguished(answer, status, cut):
    match = DiplomacyMatch(power="FRANCE", last_year=1901)
    turn = match.start(1)
    assert (len(turn.legal), "A PAR - BUR" in {line for unit in turn.legal for line in unit}) == (3, True)
    after = match.answer(answer, cut=cut)
    match.close()
    assert after.answer == status
    assert bool(after.problems) == (status == "illegal" or answer.endswith("MA"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"game": "go"}, "unknown game 'go': choose from diplomacy"),
        ({"game": "diplomacy", "power": "spain"}, "unknown power 'SPAIN'"),
        ({"game": "diplomacy", "opponents": "dumbot"}, "dumbbot"),
        ({"game": "diplomacy", "opponents": ["hold"] * 5}, "5 are named; give one bot for all, or six"),
        ({"game": "diplomacy", "last_year": 1900}, "last_year"),
        ({"game": "diplomacy", "reward": "fame"}, "unknown reward 'fame'"),
        ({"game": "diplomacy", "colour": "red"}, "unknown option of diplomacy 'colour'"),
    ],
)
def test_bad_input_gives_one_line_error(options, said):
    with pytest.raises(InputError, match=said) as error:
        open_match(**options)
    assert "\n" not in str(error.value)


def test_order_of_calls_is_enforced():
    match = DiplomacyMatch(last_year=1901)
    with pytest.raises(InputError, match="has not started"):
        match.answer("A PAR H")
    with pytest.raises(InputError, match=r"seed=-1: must be a whole number in \[0, 2147483647\]"):
        match.start(-1)
    match.close()
    assert len(POWERS) == codes.NUM_POWERS


def test_chess_arbiter_task_is_scored():
    pytest.importorskip("chess")
    from sparring.envs.chess.arbiter import score_transition

    match = open_match("chess_arbiter", positions=20)
    turn = match.start(11)
    assert turn.prompt == match.start(11).prompt
    answer = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1+0.5+0+0"
    after = match.answer(answer)
    assert (after.done, after.reward) == (True, score_transition(turn.prompt, answer).total)
