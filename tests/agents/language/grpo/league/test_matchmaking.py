"""Matchmaking: exact probabilities in every mode, missing categories, schedules, draw frequencies."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sparring.agents.language.grpo.matchmaking import (
    CATEGORIES,
    bucket,
    category_rates,
    draw_opponents,
    seat_draws,
    shares,
)
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.games import DIPLOMACY_BOTS, SEED_BOTS
from sparring.configs.language.league import LeagueConfig
from sparring.configs.load import load
from sparring.curriculum.league.league import CHALLENGER, enter_checkpoint, new_league, record
from sparring.curriculum.ratings import GameResult
from tests.curriculum.league.small_league import rated, small_league

BASELINE = {*DIPLOMACY_BOTS, "base_model"}
SPREAD = {"c10": 850.0, "c20": 899.0, "c30": 900.0, "c40": 1100.0, "c50": 1101.0}
"""Against a challenger of 1000: two that are only exploitable, one that is a peer, too, a peer, and a stronger one."""


def config(**options):
    return LeagueConfig(**{"cold_start_steps": 0, "dumbbot_game_probability": 0.0} | options)


def at(league, step=0, steps=100, **options):
    return chances(league, config(**options), step=step, steps=steps)


def chances(league, options, **position):
    """Return each agent's probability of a seat, in a game that is neither against DumbBots nor a cold start."""
    found = seat_draws(league, options, **position)
    total, chance = math.fsum(draw.weight for draw in found), Counter()
    for draw in found:
        chance[draw.name] += draw.weight / total
    return dict(chance)


def draws(league, games, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [draw_opponents(league, config(**options), step=0, steps=100, rng=rng) for _ in range(games)]


def assert_frequencies(drawn, chance):
    """Every name is drawn as often as expected, to five standard deviations, and no other name."""
    names = [name for game in drawn for name in game.names]
    assert set(names) <= chance.keys()
    for name, p in chance.items():
        deviation = math.sqrt(len(names) * p * (1.0 - p))
        assert names.count(name) == pytest.approx(len(names) * p, abs=5.0 * deviation + 1e-9), name


def test_categories_follow_rating_relative_to_hero():
    """More than 100 above, less than 100 below, less than 200 below, and the rest; a bound is in the lower one."""
    league = small_league(6, c10=1101.0, c20=1100.0, c30=901.0, c40=900.0, c50=801.0, c60=800.0)
    found = [bucket(league, agent.name) for agent in league.of_kind("checkpoint")]
    assert found == ["stronger", "peer", "peer", "weaker", "weaker", "much_weaker"]
    assert bucket(league, CHALLENGER) == "self"
    assert bucket(league, "checkpoint_000010", hero="checkpoint_000060") == "stronger"


def test_category_probabilities_by_hand():
    """Shares 0.30, 0.30, 0.35, 0.05: self, two peers, three weaker ones by their gaps 150, 101, 100, four bots."""
    chance = at(small_league(5, **SPREAD))
    assert chance.pop(CHALLENGER) == pytest.approx(0.30)
    assert chance.pop("checkpoint_000010") == pytest.approx(0.35 * 150 / 351)
    assert chance.pop("checkpoint_000020") == pytest.approx(0.35 * 101 / 351)
    assert chance.pop("checkpoint_000030") == pytest.approx(0.35 * 100 / 351 + 0.15)  # a peer, too
    assert chance.pop("checkpoint_000040") == pytest.approx(0.15)
    assert chance == pytest.approx(dict.fromkeys(("chaos", "defensive", "territorial", "coordinated"), 0.05 / 4))


@pytest.mark.parametrize("mode", ["category", "win_rate", "rating"])
def test_challenger_is_never_drawn_against_other_hero(mode):
    league = small_league(5, **SPREAD)
    found = chances(league, config(matchmaking=mode), step=0, steps=100, hero="checkpoint_000030")
    assert CHALLENGER not in found
    assert sum(found.values()) == pytest.approx(1.0)


def test_peers_fall_back_to_300_points_then_self_play():
    chance = at(small_league(2, c10=1300.0, c20=1301.0), self_play=0.0, peer=1.0, exploitable=0.0, baseline=0.0)
    assert chance == {"checkpoint_000010": 1.0}
    chance = at(small_league(1, c10=1301.0), self_play=0.0, peer=1.0, exploitable=0.0, baseline=0.0)
    assert chance == {CHALLENGER: 1.0}


def test_exploitable_falls_back_to_bot_or_base_model():
    chance = at(small_league(1, c10=950.0), self_play=0.0, peer=0.0, exploitable=1.0, baseline=0.0)
    assert chance == pytest.approx(dict.fromkeys(BASELINE, 1 / 7))
    chance = at(small_league(1, c10=949.0), self_play=0.0, peer=0.0, exploitable=1.0, baseline=0.0)
    assert chance == {"checkpoint_000010": 1.0}


def recorded():
    return json.loads((Path(__file__).parent / "recorded_draws.json").read_text())


NAMES = {"hero": CHALLENGER, "dumb_bot": "dumbbot"}
STARTS = {"chaos": 900.0, "defensive": 950.0, "territorial": 950.0, "coordinated": 1000.0, "dumbbot": 850.0}


@pytest.mark.parametrize("row", recorded(), ids=lambda row: "-".join([row["form"], *row["checkpoints"]]))
def test_draws_match_original_records(row):
    """24,000 seats of every league, of names and of categories, to five standard deviations."""
    league = new_league(STARTS, "tiny", ratings="original")
    for name, elo in row["checkpoints"].items():
        league = rated(enter_checkpoint(league, step=int(name[1:]), path=name), **{name: float(elo)})
    draws = seat_draws(league, config(matchmaking=row["form"]), step=0, steps=100)
    assert math.fsum(draw.weight for draw in draws) == pytest.approx(1.0)
    steps = {f"checkpoint_{int(name[1:]):06d}": name for name in row["checkpoints"]}
    for kind, key in (("drawn", "name"), ("categories", "category")):
        chance = Counter()
        for draw in draws:
            chance[getattr(draw, key)] += draw.weight
        there = {NAMES.get(name, name.removesuffix("_bot")): count for name, count in row[kind].items()}
        found = {steps.get(name, name): p for name, p in chance.items()}
        assert there.keys() <= found.keys()
        for name, p in found.items():
            total = sum(there.values())
            assert there.get(name, 0) == pytest.approx(total * p, abs=5 * math.sqrt(total * p * (1 - p)) + 1e-6), name


def test_shares_interpolate_linearly_and_sum_to_one():
    """The fourth experiment's: 0.3, 0.2, 0.1, 0.4 to 0.4, 0.35, 0.15, 0.1."""
    options = config(self_play=0.3, peer=0.2, exploitable=0.1, baseline=0.4)
    for name, last in {"self_play": 0.4, "peer": 0.35, "exploitable": 0.15, "baseline": 0.1}.items():
        setattr(options, f"final_{name}", last)
    assert shares(options, 0, 251) == {"self_play": 0.3, "peer": 0.2, "exploitable": 0.1, "baseline": 0.4}
    middle = {"self_play": 0.35, "peer": 0.275, "exploitable": 0.125, "baseline": 0.25}
    assert shares(options, 125, 251) == pytest.approx(middle)
    last = {"self_play": 0.4, "peer": 0.35, "exploitable": 0.15, "baseline": 0.1}
    assert shares(options, 250, 251) == shares(options, 900, 251) == pytest.approx(last)
    assert all(sum(shares(options, step, 251).values()) == pytest.approx(1.0) for step in range(251))
    assert shares(config(), 250, 251) == shares(config(), 0, 251)
    assert shares(options, 0, 1) == shares(options, 0, 251)


@pytest.mark.parametrize("mode", ["category", "win_rate", "rating"])
@pytest.mark.parametrize("checkpoints", [0, 1, 5])
def test_probabilities_sum_to_one_over_members(mode, checkpoints):
    league = small_league(checkpoints, **(SPREAD if checkpoints == 5 else {}))
    for step in (0, 50, 99):
        chance = at(league, step, matchmaking=mode, final_self_play=0.05, final_baseline=0.30)
        assert math.fsum(chance.values()) == pytest.approx(1.0)
        assert chance.keys() <= league.agents.keys()
        assert all(p > 0.0 for p in chance.values())


def beaten(**share):
    """Return a league where the challenger took these shares of 98 games per opponent (99 is the prior's)."""
    league = small_league(2)
    games = []
    for name, won in share.items():
        games += [GameResult((CHALLENGER, name), (1, 2) if number < won else (2, 1)) for number in range(98)]
    return record(league, games)


def test_hard_mode_uses_win_rates():
    """(1 - p)^2 with p = 0.9, 0.1 and, never met, 0.5; the learner itself keeps its share."""
    league = beaten(chaos=89, dumbbot=9)
    chance = at(league, matchmaking="win_rate", self_play=0.25)
    assert chance[CHALLENGER] == pytest.approx(0.25)
    assert chance["dumbbot"] / chance["random"] == pytest.approx(0.81 / 0.25, rel=0.01)
    assert chance["chaos"] / chance["random"] == pytest.approx(0.01 / 0.25, rel=0.11)  # the floor is a tenth of it
    assert chance["checkpoint_000010"] == chance["random"]


def test_rating_mode_uses_gaussian():
    """Two checkpoints 150 and 300 away, that is one and two standard deviations."""
    league = rated(small_league(2, c10=850.0, c20=1300.0), **dict.fromkeys(BASELINE, 90_000.0))
    chance = at(league, matchmaking="rating")
    near, far = math.exp(-0.5), math.exp(-2.0)
    total = (near + far) / 0.85
    assert chance == pytest.approx(
        {CHALLENGER: 0.15, "checkpoint_000010": near / total, "checkpoint_000020": far / total}
    )


def test_rating_mode_keeps_self_play_share_exactly():
    league = rated(small_league(20), **dict.fromkeys(BASELINE, 1000.0))  # 27 others, all as strong as the hero
    chance = at(league, matchmaking="rating")
    assert chance.pop(CHALLENGER) == pytest.approx(0.15)
    assert list(chance.values()) == pytest.approx(27 * [0.85 / 27])


@pytest.mark.parametrize("mode", ["category", "win_rate", "rating"])
def test_cold_start_is_three_random_three_chaos_until_checkpoint(mode):
    options = config(matchmaking=mode, cold_start_steps=10)
    for league, step, cold in ((small_league(0), 9, True), (small_league(0), 10, False), (small_league(1), 0, False)):
        rng = np.random.default_rng(1)
        drawn = [draw_opponents(league, options, step=step, steps=100, rng=rng) for _ in range(40)]
        mixed = [sorted(game.names) == 3 * ["chaos"] + 3 * ["random"] for game in drawn]
        assert all(mixed) if cold else not all(mixed)
        assert len({game.names for game in drawn}) > 5


@pytest.mark.parametrize(
    "options", [{}, {"matchmaking": "win_rate"}, {"matchmaking": "rating"}], ids=["category", "win_rate", "rating"]
)
def test_draw_frequencies_match_probabilities(options):
    league = record(small_league(5, **SPREAD), 30 * [GameResult((CHALLENGER, "chaos"), (1, 2))])
    assert_frequencies(draws(league, 3000, **options), at(league, **options))


def test_dumbbot_games_are_drawn_at_configured_rate():
    drawn = draws(small_league(), 4000, dumbbot_game_probability=0.1)
    share = np.mean([game.dumbbot_game for game in drawn])
    assert share == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / 4000))
    assert all(game.names == 6 * ("dumbbot",) for game in drawn if game.dumbbot_game)
    assert {game.categories for game in drawn if game.dumbbot_game} == {6 * ("dumbbot_benchmark",)}
    assert all(game.dumbbot_game for game in draws(small_league(), 50, dumbbot_game_probability=1.0))


def test_rates_are_shares_of_seats():
    drawn = draws(small_league(5, **SPREAD), 50)
    rates = category_rates(drawn)
    counted = Counter(name for game in drawn for name in game.categories)
    assert rates == {name: counted[name] / 300 for name in rates}
    assert sum(rates.values()) == pytest.approx(1.0)
    assert set(rates) == set(CATEGORIES)
    assert rates["stronger"] == 0.0
    assert category_rates([]) == {}


def test_error_names_missing_requested_bots():
    league = new_league([], "tiny")
    with pytest.raises(UnknownNameError, match="unknown bot 'random'"):
        draws(league, 1, cold_start_steps=1)
    with pytest.raises(UnknownNameError, match="unknown bot 'dumbbot'"):
        draws(league, 1, dumbbot_game_probability=1.0)


ORIGINAL = ("random", "chaos_seed", "defensive", "territorial_seed", "coordinated_seed", "dumbbot_seed")


def test_original_bots_replace_own_bots():
    league = new_league(ORIGINAL, "tiny", ratings="original")
    rng = np.random.default_rng(0)
    cold = draw_opponents(league, config(cold_start_steps=5), step=0, steps=9, rng=rng)
    assert sorted(cold.names) == ["chaos_seed"] * 3 + ["random"] * 3
    benchmark = draw_opponents(league, config(dumbbot_game_probability=1.0), step=0, steps=9, rng=rng)
    assert benchmark.names == ("dumbbot_seed",) * 6
    assert benchmark.dumbbot_game
    chance = at(league, self_play=0.0, peer=0.0, exploitable=0.0, baseline=1.0)
    assert chance == dict.fromkeys(("chaos_seed", "defensive", "territorial_seed", "coordinated_seed"), 0.25)


@pytest.mark.parametrize("size", ["", "_quick"])
@pytest.mark.parametrize("number", range(1, 9))
def test_experiments_draw_original_bots_as_original(number, size):
    """By rating in units that made it uniform, with exactly 0.15 self-play; experiment 4 is about the shares."""
    adapter = ["model.adapter=a.pt"] if number == 2 else []
    league = load([f"+run=diplomacy_exp{number}{size}", *adapter]).league
    assert league.bots == "original"
    if number == 4:
        assert league.matchmaking == "category"
        return
    found = new_league(ORIGINAL, "tiny", ratings="original", initial_elo=league.initial_elo)
    chance = chances(enter_checkpoint(found, step=1, path="step_1.pt"), league, step=2, steps=9)
    assert chance.pop(CHALLENGER) == pytest.approx(0.15)
    assert set(SEED_BOTS) < chance.keys()
    assert chance == pytest.approx(dict.fromkeys(chance, 0.85 / len(chance)), rel=2e-3)
