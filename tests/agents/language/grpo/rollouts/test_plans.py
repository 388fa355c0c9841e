"""Rollout plans: who plays, where games start and how long they last, for every option."""

from collections import Counter
from dataclasses import replace

import pytest

from sparring.agents.language.grpo.matchmaking import Opponents
from sparring.agents.language.grpo.rollouts import rollout
from sparring.agents.language.grpo.rollouts.rollout import draw_plan
from sparring.configs.language import GRPOConfig
from sparring.curriculum.league.league import CHALLENGER, enter_checkpoint, new_league

CONFIG = GRPOConfig(groups=4, rollout_warmup_phases=3, rollout_horizon_years=2, rollout_long_horizon_years=5)
MET = ("chaos", "random", "dumbbot", "checkpoint_000001", "random", "dumbbot")


def met(rng):
    return Opponents(MET, ("baseline",) * 6)


def refuse(rng):
    raise AssertionError("self-play draws no opponent")


def groups(*, steps=1, draw=met, **options):
    """Return all groups of the first steps."""
    league = enter_checkpoint(new_league(("random", "chaos", "dumbbot"), "toy"), step=1, path="step_000001.pt")
    given = {"seats": 7, "policy_version": 0, "seed": 3, "draw": draw, "league": league}
    return [g for step in range(steps) for g in draw_plan(replace(CONFIG, **options), step=step, **given).groups]


def test_heroes_rotate_over_powers():
    """Three per step: after seven steps each power has learned three times, never twice in a row."""
    found = [group.heroes for group in groups(groups=3, steps=7)]
    assert found == [(power,) for _ in range(3) for power in range(7)]


def test_opponents_sit_around_hero_with_own_ratings():
    for group in groups(steps=7):
        (hero,) = group.heroes
        assert group.players[hero] == CHALLENGER
        assert group.players[:hero] + group.players[hero + 1 :] == MET
        elo = {"chaos": 980, "random": 920, "dumbbot": 1000, CHALLENGER: 1000}
        rated = [(name, value) for name, value in zip(group.players, group.ratings, strict=True) if name in elo]
        assert rated == [(name, elo[name]) for name, _ in rated]
        assert len(rated) == 6


def test_opponents_have_current_ratings():
    league = new_league(("random", "chaos", "dumbbot"), "toy")
    league = enter_checkpoint(league, step=1, path="step_000001.pt")
    risen = replace(league, agents=league.agents | {"chaos": replace(league["chaos"], elo=1234.5)})
    given = {"seats": 7, "policy_version": 0, "seed": 3, "step": 0, "draw": met, "league": risen}
    for group in draw_plan(CONFIG, **given).groups:
        assert {group.ratings[seat] for seat, name in enumerate(group.players) if name == "chaos"} == {1234.5}


def test_self_play_trains_all_seven_without_opponents():
    for group in groups(play="self_play", draw=refuse, steps=2):
        assert group.heroes == (0, 1, 2, 3, 4, 5, 6)
        assert group.players == (CHALLENGER,) * 7
        assert group.categories == ()
        assert group.ratings == (1000.0,) * 7


def at_opening(monkeypatch, *chances):
    """Start games at the opening with one probability after the other."""
    for chance in chances:
        monkeypatch.setattr(rollout, "AT_OPENING", chance)
        yield


@pytest.mark.parametrize("most", [1, 3])
def test_fork_phase_is_uniform_unless_game_starts_at_opening(most, monkeypatch):
    """With probability 0 every number of phases is equally likely, with 1 there are none."""
    many = {"groups": 200, "rollout_warmup_phases": most}
    never, always, half = (
        Counter(group.warmup_phases for group in groups(**many)) for _ in at_opening(monkeypatch, 0.0, 1.0, 0.5)
    )
    assert sorted(never) == list(range(most + 1))
    assert max(never.values()) - min(never.values()) < 40
    assert always == {0: 200}
    expected = 200 * (0.5 + 0.5 / (most + 1))
    assert expected - 30 < half[0] < expected + 30
    assert set(half) == {*range(most + 1)}


def test_default_opening_probability_is_0_289():
    """0.2 + 0.8 / 9, to five standard deviations of 4,000 groups."""
    found = groups(groups=4000, rollout_warmup_phases=GRPOConfig().rollout_warmup_phases)
    assert max(group.warmup_phases for group in found) == 8
    assert sum(group.warmup_phases == 0 for group in found) == pytest.approx(4000 * 0.289, abs=5 * 29)


@pytest.mark.parametrize(("chance", "years"), [(0.0, {2}), (1.0, {5}), (0.5, {2, 5})])
def test_long_horizon_is_drawn_at_configured_rate(chance, years):
    found = Counter(group.years for group in groups(groups=200, rollout_long_horizon_chance=chance))
    assert set(found) == years
    assert len(years) == 1 or 70 < found[5] < 130


def test_groups_have_own_draws_and_plans_are_reproducible():
    seeds = [group.seed for group in groups(groups=20, steps=3)]
    assert len(set(seeds)) == 60
    assert groups(groups=20, steps=3) == groups(groups=20, steps=3)
