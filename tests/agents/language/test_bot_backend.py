"""Bot backends give the orders of the same bots in the kernels, and cannot be trained on."""

import pytest

from sparring.agents.language.backend import BotBackend
from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import BOTS, FALL, PHASES, SPRING
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.rollouts.demonstrations import BotGames
from sparring.envs.text import Prompt


@pytest.fixture(scope="module")
def asked():
    """Return requests of 16 games in all kinds of phases."""
    games = BotGames(16, bot="dumbbot", last_year=1908, seed=4)
    decisions = [one for _ in range(6) for game in games.next() for one in game]
    games.close()
    return [Prompt("", one.menu, seed, one.row) for seed, one in enumerate(decisions)]


def told(decisions):
    return [decision.text for decision in decisions]


@pytest.mark.parametrize("bot", BOTS)
def test_every_power_gets_complete_legal_answer(asked, bot):
    decisions = BotBackend(bot, game="diplomacy").decide(asked)
    assert [len(decision.chosen) for decision in decisions] == [request.menu.lines for request in asked]
    assert {int(request.position["phase"]) for request in asked} == set(range(len(PHASES)))
    assert not any(decision.exact or len(decision.token_ids) for decision in decisions)


def test_decision_depends_on_its_own_request_only(asked):
    whole = BotBackend("random", game="diplomacy").decide(asked)
    assert told(BotBackend("random", game="diplomacy").decide(asked[5:9])) == told(whole[5:9])
    other = [Prompt("", request.menu, request.seed + 10**6, request.position) for request in asked]
    assert told(BotBackend("random", game="diplomacy").decide(other)) != told(whole)


def test_backend_plays_named_bot(asked):
    """A defensive bot never moves; a chaos bot does wherever it can."""
    moves = {
        bot: [
            " - " in option.text and " S " not in option.text
            for request, decision in zip(asked, BotBackend(bot, game="diplomacy").decide(asked), strict=True)
            for option in decision.chosen
            if int(request.position["phase"]) in (SPRING, FALL)
        ]
        for bot in ("defensive", "chaos")
    }
    assert not any(moves["defensive"])
    assert sum(moves["chaos"]) > 0.95 * len(moves["chaos"])


def test_missing_position_is_reported(asked):
    bot, power = BotBackend("dumbbot", game="diplomacy"), asked[0].menu.power
    with pytest.raises(InputError, match=rf"a request for {POWERS[power]} without its position: .*row"):
        bot.decide([Prompt("a prompt", asked[0].menu, 1)])
    assert bot.decide([Prompt("", Choices(0, (), (), 0), 1)])[0].chosen == ()
    with pytest.raises(UnknownNameError, match="did you mean 'dumbbot'"):
        BotBackend("dumbot", game="diplomacy")
