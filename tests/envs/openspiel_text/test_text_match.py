"""OpenSpiel matches for hubs: seats, seeds, answers, and exploitability from a survey of all states."""

import pytest

pytest.importorskip("pyspiel")

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import SurveyAnswer, open_match

STATES = {"kuhn_poker": 12, "leduc_poker": 936}
UNIFORM = {"kuhn_poker": 11 / 24, "leduc_poker": 2.373611}
"""Exploitability of uniform play, by OpenSpiel's own `exploitability.nash_conv`."""


def played(match, seed, choose):
    turns = [match.start(seed)]
    while not turns[-1].done:
        turns.append(match.answer(choose(turns[-1])))
    return turns


def last_legal(turn):
    return f"I think.\n{turn.legal[0][-1]}"


def test_seats_of_kuhn_poker_see_only_their_card():
    """After a last bet: Bet, then a call, for 2 chips to the higher card."""
    ranks = ("Jack", "Queen", "King")
    seen = set()
    for seed in range(20):
        turns = played(open_match("openspiel_text", seat="all"), seed, last_legal)
        assert [turn.seat for turn in turns] == [0, 1, -1]
        cards = [next(line for line in turn.prompt.splitlines() if "Your card" in line) for turn in turns[:2]]
        first, second = (ranks.index(card.removeprefix("Your card: ")) for card in cards)
        assert all(turn.prompt.count("Your card") == 1 for turn in turns[:2])
        gain = 2.0 if first > second else -2.0
        assert turns[-1].rewards == {0: gain, 1: -gain}
        assert (turns[-1].reward, turns[-1].facts["moves"]) == (0.0, 2)
        seen.add((first, second))
    assert len(seen) == 6


def test_sequential_seeds_rotate_seats_and_repeat_game():
    match = open_match("openspiel_text", id="leduc_poker")
    games = [played(match, seed, last_legal) for seed in (4, 5, 4)]
    assert [game[0].seat for game in games] == [0, 1, 0]
    assert games[0] == games[2]
    assert games[0][-1].reward == games[0][-1].rewards[0] != 0


@pytest.mark.parametrize(
    ("form", "answer", "cut", "status"),
    [
        ("reasoning", "I bluff.\n**bet**", None, "read"),
        ("reasoning", "Bet, since a King is high", None, "illegal"),
        ("reasoning", " \n", None, "incomplete"),
        ("reasoning", "Bet", True, "truncated"),
        ("reasoning", "<think>a King", None, "truncated"),
        ("menu", "Bet\n</move>", None, "read"),
        ("menu", "Bet", None, "read"),
        ("menu", "Fold\n</move>", None, "illegal"),
        ("menu", "\n</move>", None, "incomplete"),
        ("menu", "Be", None, "truncated"),
        ("menu", "Be", False, "illegal"),
        ("menu", "Fold\n</move>", True, "truncated"),
    ],
)
def test_answer_outcomes_are_distinguished(form, answer, cut, status):
    match = open_match("openspiel_text", seat=0, answers=form)
    assert match.start(1).prompt.endswith("<move>\n") == (form == "menu")
    turn = match.answer(answer, cut=cut)
    assert turn.answer == status
    assert bool(turn.problems) == (status == "illegal")


def test_random_action_replaces_illegal_one():
    moves = set()
    for seed in range(30):
        match = open_match("openspiel_text", id="tic_tac_toe", seat="all")
        match.start(seed)
        moves.add(match.answer("none of these").prompt)
    assert len(moves) > 5


@pytest.mark.parametrize("name", STATES)
def test_uniform_actions_have_uniform_play_exploitability(name):
    survey = open_match("openspiel_exploitability", id=name, samples=6)
    count = 0

    def in_turn(turn):
        nonlocal count
        count += 1
        legal = next(line for line in turn.prompt.splitlines() if line.startswith("Legal moves: "))
        actions = legal.removeprefix("Legal moves: ").split(", ")
        return actions[count % len(actions)]

    end = played(survey, 0, in_turn)[-1]
    assert end.facts["information_states"] == STATES[name]
    assert end.facts["exploitability"] == pytest.approx(UNIFORM[name], abs=1e-5)
    assert end.reward == pytest.approx(-UNIFORM[name], abs=1e-5)
    assert sum(end.rewards.values()) == pytest.approx(-end.facts["nash_conv"])
    assert end.facts["exploitability_low"] < end.facts["exploitability_high"]
    assert len(end.facts["worst"]) == 10


def test_batched_and_single_answers_have_same_conclusion():
    survey = open_match("openspiel_exploitability", samples=2)
    answers = ["Bet" if number % 3 else "x" for number in range(len(survey.questions))]
    texts = iter(answers)
    one_by_one = played(survey, 5, lambda turn: next(texts))
    assert [(turn.seat, turn.prompt) for turn in one_by_one[:-1]] == list(survey.questions)
    survey.start(5)
    at_once = survey.conclude([SurveyAnswer(text) for text in answers])
    assert at_once.facts == one_by_one[-1].facts
    assert at_once.facts["answers"] == {"illegal": 8, "truncated": 0, "incomplete": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "tarok"}, "id=tarok: draws chance in the middle of a turn"),
        ({"id": "crazy_eights"}, "id=crazy_eights: has no text of what a player knows"),
        ({"id": "mfg_crowd_modelling"}, "id=mfg_crowd_modelling: is a mean field game"),
        ({"id": "kuhn"}, "id=kuhn: is not a game of OpenSpiel; did you mean 'kuhn_poker'?"),
        ({"id": "kuhn_poker(players=11)"}, "cannot be made"),
        ({"id": "efg_game(filename=/etc/passwd)"}, "names a file of the server"),
        ({"id": ["kuhn_poker"]}, "must be the name of a game of OpenSpiel"),
        ({"seat": 2}, "seat=2: must be a number from 0 to 1, 'all', or empty"),
        ({"seat": True}, "seat=True: must be a number"),
        ({"opponents": "cfr"}, "unknown opponents 'cfr'"),
        ({"answers": "tree"}, "unknown answers 'tree'"),
        ({"game": "openspiel_exploitability", "id": "chess"}, "chess: has too many positions"),
        ({"game": "openspiel_exploitability", "id": "tarok"}, "id=tarok: draws chance"),
        ({"game": "openspiel_exploitability", "samples": 1}, r"samples=1: must be a whole number in \[2, 10000\]"),
        ({"game": "openspiel_exploitability", "id": "leduc_poker", "samples": 9999}, "2,879,712 questions then"),
    ],
)
def test_bad_input_gives_one_line_error(options, message):
    with pytest.raises(InputError, match=message) as error:
        open_match(**{"game": "openspiel_text", **options})
    assert "\n" not in str(error.value)


def test_action_without_name_is_rejected(monkeypatch):
    from sparring.envs.openspiel_text import decisions

    def nameless(state, name=""):
        raise ValueError("action 0 has no name")

    monkeypatch.setattr(decisions, "action_menu", nameless)
    with pytest.raises(InputError, match="id=kuhn_poker: action 0 has no name; choose a game whose actions have names"):
        open_match("openspiel_text")


def test_order_of_calls_is_enforced():
    for game in ("openspiel_text", "openspiel_exploitability"):
        match = open_match(game)
        with pytest.raises(InputError, match="has not started"):
            match.answer("Bet")
        with pytest.raises(InputError, match="seed=-1"):
            match.start(-1)
        match.start(0)
        match.cancel()
        match.close()
    with pytest.raises(InputError, match="was cancelled"):
        match.answer("Bet")
