"""The league: initial agents, results of games, new members, and decay of earlier results."""

import numpy as np
import pytest

from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.configs.games import DIPLOMACY_BOTS, SEED_BOTS
from sparring.curriculum.league.league import (
    CHALLENGER,
    KINDS,
    STARTING_ELO,
    decayed,
    enter,
    enter_checkpoint,
    known_win_rates,
    leave,
    new_league,
    record,
    win_rates,
)
from sparring.curriculum.league.league import win_rates as rates
from sparring.curriculum.ratings import Belief, GameResult, beliefs_after, elo_after, head_to_head
from tests.curriculum.league.small_league import small_league

SEVEN = (CHALLENGER, "base_model", "random", "chaos", "dumbbot", "dumbbot", "defensive")


def test_initial_elo_ratings():
    league = new_league(DIPLOMACY_BOTS, "tiny", initial_elo=1200.0)
    elos = {name: agent.elo for name, agent in league.agents.items()}
    assert elos.pop(CHALLENGER) == 1200.0
    assert elos.pop("base_model") == 1000.0
    assert elos.keys() == set(DIPLOMACY_BOTS) == STARTING_ELO["measured"].keys() == STARTING_ELO["original"].keys()
    assert min(elos.values()) == 900.0
    assert max(elos, key=elos.get) == "dumbbot"
    assert elos["dumbbot"] == 1000.0
    assert {agent.kind for agent in league.agents.values()} <= set(KINDS)


def test_every_game_updates_both_ratings_of_all_players():
    before = new_league(DIPLOMACY_BOTS, "tiny")
    game = GameResult(SEVEN, (1, 2, 3, 4, 5, 6, 7))
    after = record(before, [game])
    for name, agent in after.agents.items():
        played = name in SEVEN
        assert (agent.elo != before[name].elo) == played
        assert (agent.belief != before[name].belief) == played
        assert agent.games == played
        assert agent.start_elo == before[name].start_elo
    elos = elo_after({name: agent.elo for name, agent in before.agents.items()}, [game])
    assert {name: after[name].elo for name in set(SEVEN)} == elos
    beliefs = beliefs_after({name: agent.belief for name, agent in before.agents.items()}, [game])
    assert {name: after[name].belief for name in set(SEVEN)} == beliefs


def test_update_is_independent_of_game_and_agent_order():
    rng = np.random.default_rng(1)
    names = list(small_league().agents)
    games = [GameResult(tuple(rng.choice(names, 7)), tuple(rng.permutation(7) + 1)) for _ in range(40)]
    one = record(small_league(), games)
    turned = small_league()
    turned = record(type(turned)(dict(reversed(turned.agents.items())), {}), games[::-1])
    assert dict(one.agents) == dict(turned.agents)
    assert dict(one.records) == dict(turned.records)


def test_results_accumulate_over_batches():
    league = small_league()
    for ranks in ((1, 2), (2, 1), (1, 2), (1, 1)):
        league = record(league, [GameResult((CHALLENGER, "chaos"), ranks)])
    assert league.records[CHALLENGER, "chaos"].total == (2, 1, 1)
    assert league["chaos"].games == league[CHALLENGER].games == 4


def test_empty_batch_changes_nothing():
    assert record(small_league(), []) == small_league()


def test_recent_results_outweigh_earlier_results():
    """600 lost games, then 600 won: even in total, recently 7/8, since 200 decayed games keep the old 150."""
    league = record(small_league(), 600 * [GameResult((CHALLENGER, "chaos"), (2, 1))])
    league = record(league, 600 * [GameResult((CHALLENGER, "chaos"), (1, 2))])
    assert league.records[CHALLENGER, "chaos"].total == (600, 0, 600)
    (rate,) = rates(league, CHALLENGER, ["chaos"])
    assert rate == pytest.approx((600 + 1) / (600 + 600 * 200 / 800 + 2))
    (theirs,) = rates(league, "chaos", [CHALLENGER])
    assert theirs == pytest.approx(1.0 - rate)


def test_unmet_pair_has_even_win_rate():
    assert rates(small_league(), CHALLENGER, ["chaos", "base_model"]).tolist() == [0.5, 0.5]
    assert rates(small_league(), CHALLENGER, []).shape == (0,)


def test_checkpoint_copies_challenger_ratings_and_keeps_them():
    league = record(small_league(0), [GameResult(SEVEN, (1, 2, 3, 4, 5, 6, 7))])
    league = enter_checkpoint(league, step=20, path="step_20/adapter")
    entered = league["checkpoint_000020"]
    assert (entered.kind, entered.step, entered.path, entered.games) == ("checkpoint", 20, "step_20/adapter", 0)
    assert entered.elo == entered.start_elo == league[CHALLENGER].elo > 1000.0
    assert entered.belief == league[CHALLENGER].belief != Belief()
    league = record(league, [GameResult((CHALLENGER, "chaos"), (1, 2))])
    assert league["checkpoint_000020"] == entered
    assert league[CHALLENGER].elo > entered.elo


def test_duplicate_and_unknown_agents_are_rejected():
    league = small_league()
    with pytest.raises(InputError, match="'checkpoint_000010': is in the league already"):
        enter(league, league["checkpoint_000010"])
    with pytest.raises(UnknownNameError, match=r"unknown agent 'dumbot'.*did you mean 'dumbbot'"):
        record(league, [GameResult((CHALLENGER, "dumbot"), (1, 2))])


def test_original_initial_ratings():
    league = new_league(DIPLOMACY_BOTS, "tiny", initial_elo=1200.0, ratings="original")
    assert {name: agent.elo for name, agent in league.agents.items()} == {
        "base_model": 1000,
        "coordinated": 1000,
        "defensive": 950,
        "territorial": 950,
        "chaos": 900,
        "random": 900,
        "dumbbot": 850,
        "challenger": 1200,
    }
    assert (league["challenger"].belief.mu, league["dumbbot"].belief.mu) == (30.0, 21.25)
    assert all(agent.belief.sigma == 25 / 3 for agent in league.agents.values())


def test_bot_variants_start_with_bot_ratings():
    league = new_league(SEED_BOTS, "tiny", ratings="original")
    assert [league[name].elo for name in SEED_BOTS] == [900, 1000, 950, 850]


def league_after(**results):
    league = new_league(["ace", "brawler"])
    games = [game for name, result in results.items() for game in head_to_head(CHALLENGER, name, result)]
    return record(league, games)


def test_earlier_results_decay_by_number_of_new_games():
    """A hundred games halve the weight: 20 + 100 wins in 150. With memory 30, ten games keep 30 / 40 = 3/4."""
    assert decayed((40, 0, 60), (100, 0, 0), memory=100).tolist() == [120.0, 0.0, 30.0]
    assert decayed((8, 4, 12), (5, 3, 2), memory=30).tolist() == [11.0, 6.0, 11.0]
    assert decayed((0, 0, 0), (5, 3, 2)).tolist() == [5.0, 3.0, 2.0]


def test_effective_memory_converges():
    seen = (0.0, 0.0, 0.0)
    for _ in range(100):
        seen = decayed(seen, (0, 0, 50), memory=100)
    won, _, lost = decayed(seen, (50, 0, 0), memory=100)
    assert (won, lost) == (50.0, pytest.approx(100.0))


def test_win_rates_count_draws_half_and_need_minimum_games():
    league = league_after(ace=(0, 98, 0), brawler=(19, 0, 0))
    assert known_win_rates(league, CHALLENGER) == {"ace": 0.0}
    assert win_rates(league, CHALLENGER, ["ace", "brawler"]) == pytest.approx([0.5, 20 / 21])
    assert known_win_rates(league_after(brawler=(20, 0, 0)), CHALLENGER) == {"brawler": 1.0}
    assert known_win_rates(league_after(ace=(5, 10, 25)), "ace") == {CHALLENGER: 0.625}  # seen by the other


def test_removed_agent_is_forgotten():
    league = leave(league_after(ace=(30, 0, 0), brawler=(0, 0, 30)), ["ace", "never met"])
    assert known_win_rates(league, CHALLENGER) == {"brawler": 0.0}
    assert list(league.agents) == ["brawler", CHALLENGER]
    assert list(league.records) == [("brawler", CHALLENGER)]
