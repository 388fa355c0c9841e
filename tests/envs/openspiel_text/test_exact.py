"""Exact policies in text: published figures, hand calculation, and OpenSpiel's algorithms."""

import numpy as np
import pytest

pytest.importorskip("pyspiel")

import pyspiel

from sparring.configs.core.errors import InputError
from sparring.envs.openspiel_text.config import REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.exact import SampledAnswers, TextDecisions, figures, worst_decisions
from sparring.envs.text_moves import CUT, STOP

MENU = OpenSpielAnswerConfig()
THINKING = OpenSpielAnswerConfig(REASONING, 8)
KUHN, LEDUC = ("kuhn_poker", {}, MENU), ("leduc_poker", {}, MENU)
PUBLISHED = [(KUHN, 12, 12, 0.458333), (LEDUC, 936, 288, 2.373611)]


class Said:
    """A text as an answer."""

    def __init__(self, text, finish_reason=STOP):
        self.text, self.finish_reason, self.chosen = text, finish_reason, ()


def by_name(weigh):
    """Return action probabilities from `weigh(prompt text, name)`."""

    def policies(prompts):
        rows = [np.array([weigh(p.text, option.text) for option in p.menu.options], dtype=float) for p in prompts]
        return [row / row.sum() for row in rows]

    return policies


def uniform(text, name):
    return 1.0


@pytest.mark.parametrize(
    ("game", "states", "prompts", "published"), [(KUHN, 12, 12, 0.458333), (LEDUC, 936, 288, 2.373611)]
)
def test_uniform_answers_have_published_exploitability(game, states, prompts, published):
    decisions = TextDecisions.of(*game)
    assert (len(decisions.asked), len(decisions.prompts)) == (states, prompts)
    table = decisions.exact(by_name(uniform))
    assert figures(decisions.tree, table)["exploitability"] == pytest.approx(published, abs=1e-6)
    referee = pyspiel.exploitability(pyspiel.load_game(game[0]), as_spiel(decisions, table))
    assert figures(decisions.tree, table)["exploitability"] == pytest.approx(referee, abs=1e-9)


def as_spiel(decisions, table):
    """Return the table as an OpenSpiel policy."""
    tree = decisions.tree
    rows = {
        name: [(int(action), float(row[action])) for action in np.flatnonzero(legal)]
        for name, row, legal in zip(tree.names, table, tree.legal, strict=True)
    }
    return pyspiel.TabularPolicy(rows)


def test_always_betting_in_kuhn_poker_by_hand():
    """All bet and call for 2 chips. A response folds the jack and calls with queen and king, in either seat.

    Jack loses 1 in place of 2, queen wins and loses 2 equally, king wins 2: (-1 + 0 + 2) / 3 = 1/3 against 0. The first
    player with a jack may also pass and fold, for the same -1. So both seats gain 1/3, which is the exploitability.
    """
    decisions = TextDecisions.of(*KUHN)
    table = decisions.exact(by_name(lambda text, name: name == "Bet"))
    found = figures(decisions.tree, table)
    assert found["values"] == pytest.approx([0.0, 0.0])
    assert found["best_responses"] == pytest.approx([1 / 3, 1 / 3])
    assert found["exploitability"] == pytest.approx(1 / 3)
    assert found["nash_conv"] == pytest.approx(2 / 3)


def test_always_passing_in_kuhn_poker_by_hand():
    """Nobody bets or calls, so a bet always wins the ante: gain 1 with each card, in both seats."""
    decisions = TextDecisions.of(*KUHN)
    table = decisions.exact(by_name(lambda text, name: name == "Pass"))
    found = figures(decisions.tree, table)
    assert found["best_responses"] == pytest.approx([1.0, 1.0])
    assert found["exploitability"] == pytest.approx(1.0)


def test_losses_of_always_passing_by_hand():
    """A first player with a jack (1/3) wins 1 by a bet and loses 1 by passing: 2/3. A queen gains 1 on average, 1/3.

    A king wins 1 either way. The same holds for the second player after a pass.
    """
    decisions = TextDecisions.of(*KUHN)
    table = decisions.exact(by_name(lambda text, name: name == "Pass"))
    worst = worst_decisions(decisions, table)
    assert [(row.player, row.loss) for row in worst] == [
        (0, pytest.approx(2 / 3)), (1, pytest.approx(2 / 3)), (0, pytest.approx(1 / 3)), (1, pytest.approx(1 / 3)),
    ]  # fmt: skip
    assert worst[0].state == "Your card: Jack; Moves so far: none; You are player 0 of 2."
    assert worst[0].policy == {"Pass": 1.0, "Bet": 0.0}


@pytest.mark.parametrize(
    "game", [KUHN, LEDUC, ("kuhn_poker", {"players": 3}, MENU), ("goofspiel", {"num_cards": 3, "imp_info": True}, MENU)]
)
def test_losses_sum_to_nash_conv_and_are_non_negative(game):
    decisions, random = TextDecisions.of(*game), np.random.default_rng(3)
    tree = decisions.tree
    for power in (1, 6):
        drawn = np.where(tree.legal, random.random(tree.legal.shape) ** power, 0.0)
        table = drawn / drawn.sum(1, keepdims=True)
        losses = tree.losses(table)
        assert losses.min() > -1e-12
        assert losses.sum() == pytest.approx(tree.nash_conv(table), abs=1e-9)


def test_equilibrium_losses_are_zero():
    decisions = TextDecisions.of(*KUHN)
    bets = {"0": 0.25, "1": 0.0, "2": 0.75, "0pb": 0.0, "1pb": 0.25 + 1 / 3, "2pb": 1.0}
    bets |= {"0p": 1 / 3, "1p": 0.0, "2p": 1.0, "0b": 0.0, "1b": 1 / 3, "2b": 1.0}
    table = np.array([[1 - bets[name], bets[name]] for name in decisions.tree.names])
    assert decisions.tree.losses(table) == pytest.approx(0, abs=1e-12)


def test_too_large_game_is_rejected_in_one_line():
    with pytest.raises(InputError) as refused:
        TextDecisions.of("connect_four", {}, MENU)
    assert str(refused.value) == (
        "connect_four: has too many positions for an exact policy; choose a smaller game, such as kuhn_poker, or play "
        "matches, with sparring eval without --exact"
    )


def test_free_text_is_counted_by_kind_with_uniform_fallbacks():
    """Of four answers one bets, one passes in other words, one is truncated and one illegal: 1 + 2/2 of 4 bet."""
    decisions = TextDecisions.of("kuhn_poker", {}, THINKING)
    texts = [Said("I have a card.\n**Bet**"), Said("Move: pass."), Said("Pass", CUT), Said("Perhaps.")]
    sampled = decisions.sampled(lambda requests: [texts[place % 4] for place in range(len(requests))], 4, seed=0)
    assert sampled.kinds() == {"illegal": 12, "cut": 12, "missing": 0}
    assert sampled.table() == pytest.approx(0.5)
    silent = decisions.sampled(lambda requests: [Said("<think>never ends"), Said(" \n")] * 12, 2, seed=0)
    assert silent.kinds() == {"illegal": 0, "cut": 12, "missing": 12}


def test_samples_of_prompt_have_own_seeds():
    decisions, seeds = TextDecisions.of("kuhn_poker", {}, THINKING), []

    def decide(requests):
        seeds.extend(request.seed for request in requests)
        return [Said("Pass")] * len(requests)

    decisions.sampled(decide, 5, seed=1)
    assert len(set(seeds)) == 60
    first = [*seeds]
    decisions.sampled(decide, 5, seed=1)
    assert seeds[60:] == first


def counted(decisions, counts):
    """Return answers with these counts of passes and bets [12, 2]."""
    return SampledAnswers(decisions, np.hstack([counts, np.zeros((12, 3), dtype=np.int64)]))


def test_few_samples_overstate_exploitability_as_corrected():
    """Exploitability is convex in the strategy, so sampled shares overestimate it (Jensen)."""
    decisions, random = TextDecisions.of(*KUHN), np.random.default_rng(7)
    truth = decisions.exact(by_name(lambda text, name: 2.0 if name == "Bet" else 1.0))
    exact = decisions.tree.exploitability(truth)
    drawn = [counted(decisions, random.multinomial(np.full(12, 4), truth)) for _ in range(300)]
    estimates = [decisions.tree.exploitability(answers.table()) for answers in drawn]
    assert np.mean(estimates) > exact + 0.02
    low, high = drawn[0].interval(decisions.tree.exploitability, seed=1)
    assert 0.0 <= low < high
    assert (low + high) / 2 < estimates[0]


def test_identical_answers_have_zero_width_interval():
    decisions = TextDecisions.of(*KUHN)
    answers = counted(decisions, np.tile([[0, 32]], (12, 1)))
    assert answers.interval(decisions.tree.exploitability, seed=0) == pytest.approx((1 / 3, 1 / 3))
