"""Rollout rewards: each decision is paid for its own phase, game and power, under the configured rules.

The games are recorded by the simulator itself while they are played, all seven powers by a bot that is asked like a
language model; what they should have been paid is then worked out from the recording.
"""

from itertools import pairwise
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
import torch

from sparring.agents.language.backend import BotBackend
from sparring.agents.language.grpo.rollouts.rollout import Rollouts
from sparring.configs.language import GRPOConfig
from sparring.curriculum.league.league import CHALLENGER
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board.codes import FALL, PHASES, SPRING
from sparring.envs.diplomacy.rewards.sample_rewards import sample_rewards
from sparring.envs.diplomacy.rewards.scoring import Scorer, first_influence, influence_after
from sparring.envs.diplomacy.rollouts.task import DiplomacyTextTask
from sparring.envs.text import GroupPlan, RolloutPlan
from tests.agents.language.grpo.rollouts.small_games import small_config

SAMPLES = 2
RATINGS = ((700.0, 800.0, 900.0, 1000.0, 1100.0, 1200.0, 1300.0), (1500.0, 1400.0, 900.0, 700.0, 1000.0, 600.0, 1100.0))
PLAIN = {
    "use_position_scoring": False,
    "win_bonus": 10.0,
    "winner_threshold_sc": 3,
    "reward_discount_gamma": 0.0,
    "use_strategic_step_scoring": False,
    "use_trajectory_level_rewards": False,
    "use_elo_conditioned_rewards": False,
}
"""None is what it is by default where it matters, so that an option that goes nowhere shows."""
ELO = {"use_elo_conditioned_rewards": True}
SWITCHED = [
    {"use_position_scoring": True},
    {"win_bonus": 20.0},
    {"winner_threshold_sc": 18},
    {"reward_discount_gamma": 0.9},
    {"use_strategic_step_scoring": True},
    {"use_trajectory_level_rewards": True},
    ELO,
]


def group(warmup_phases, years, *, seed, ratings=RATINGS[0]):
    return GroupPlan((CHALLENGER,) * 7, tuple(range(7)), (), ratings, warmup_phases, years, seed)


def plan(*groups):
    return RolloutPlan(0, 0, SAMPLES, groups)


PLAN = plan(group(0, 1, seed=1, ratings=RATINGS[0]), group(11, 1, seed=2, ratings=RATINGS[1]))


@pytest.fixture
def recorded(monkeypatch):
    """The phases of the forked games as (position before, position after, results), as long as they are played.

    And (position before, units [2, 75] after) of each phase before the fork, which say whose every province was.
    """
    found, process = SimpleNamespace(phases=[], masters=[]), DiplomacyBatch.process

    def process_and_record(batch):
        before = batch.snapshot()
        process(batch)
        if batch.num_games == 2 * SAMPLES:
            found.phases.append((before, batch.snapshot(), batch.results.clone()))
        if batch.num_games == 2:
            found.masters.append((before, batch.units.clone()))

    monkeypatch.setattr(DiplomacyBatch, "process", process_and_record)
    return found


def scored(recorded, kind):
    """Return the earnings of every phase of the forked games, [G, 7] each."""
    influence = first_influence(opening()["units"]).repeat(2, 1)
    for before, units in recorded.masters:
        influence = influence_after(influence, before, units)
    scorer = Scorer({kind: 1.0})
    scorer.begin(recorded.phases[0][0], influence.repeat_interleave(SAMPLES, dim=0))
    return [scorer.score(*phase) for phase in recorded.phases]


def played(rules, to_play=PLAN, *, bot="dumbbot"):
    options = [f"grpo.{name}={str(value).lower()}" for name, value in rules.items()]
    rollouts = Rollouts(
        DiplomacyTextTask(small_config(f"grpo.samples_per_group={SAMPLES}", *options)),
        lambda name: BotBackend(bot, game="diplomacy"),
    )
    batch = rollouts.play(to_play)
    rollouts.close()
    return batch


def worked_out(recorded, rules, turns):
    """Return what the recorded games pay for the decisions under the given rules."""
    steps = torch.stack(scored(recorded, "strategic" if rules["use_strategic_step_scoring"] else "dense"))
    ratings = torch.tensor([RATINGS[game // SAMPLES] for game in range(2 * SAMPLES)])
    paid = sample_rewards(steps, recorded.phases[-1][1], GRPOConfig(**rules), ratings=ratings)
    return np.array([float(paid[turn.step, turn.game, turn.seat]) for turn in turns])


@pytest.mark.parametrize("switched", [{}, *SWITCHED], ids=lambda rules: "-".join(rules) or "plain")
def test_every_reward_option_changes_rewards(switched, recorded):
    """Each option changes the pay of decisions."""
    batch = played(PLAIN | switched)
    own = worked_out(recorded, PLAIN | switched, batch.turns)
    assert len(own) > 50
    assert batch.rewards == pytest.approx(own, abs=1e-9)
    if switched:
        assert np.abs(own - worked_out(recorded, PLAIN, batch.turns)).max() > 0.1


def test_decision_is_paid_for_its_own_phase(recorded):
    """Without discounting, two decisions of a power differ by exactly 0.8 of their phases' difference."""
    batch = played(PLAIN)
    earned = scored(recorded, "dense")
    by_seat = {}
    for turn, reward in zip(batch.turns, batch.rewards, strict=True):
        own = float(earned[turn.step][turn.game, turn.seat])
        by_seat.setdefault((turn.game, turn.seat), []).append((reward - 0.8 * own, own))
    assert len(by_seat) == 2 * SAMPLES * 7
    for rest in by_seat.values():
        assert np.ptp([left for left, _ in rest]) == pytest.approx(0, abs=1e-9)
    assert np.mean([np.ptp([own for _, own in rest]) > 0.5 for rest in by_seat.values()]) > 0.5


def test_bonus_is_paid_to_sole_leader_only():
    """Ten more for a win adds a fifth of that to the winner's decisions, and nothing to others."""
    batches = [played(PLAIN | {"win_bonus": bonus}) for bonus in (10.0, 20.0)]
    more = batches[1].rewards - batches[0].rewards
    centres = {number: ending.scores for number, ending in enumerate(batches[0].endings)}
    first = [
        centres[turn.game][turn.seat] == max(centres[turn.game])
        and centres[turn.game].count(max(centres[turn.game])) == 1
        for turn in batches[0].turns
    ]
    assert 0 < sum(first) < len(first)
    assert more == pytest.approx(2.0 * np.array(first), abs=1e-9)


def test_trajectory_rewards_pay_every_turn_equally():
    batch = played(PLAIN | {"use_trajectory_level_rewards": True})
    by_seat = {}
    for turn, reward in zip(batch.turns, batch.rewards, strict=True):
        by_seat.setdefault((turn.game, turn.seat), set()).add(float(reward))
    assert {len(paid) for paid in by_seat.values()} == {1}
    assert len(set.union(*by_seat.values())) > 7


def test_placement_bonus_uses_each_players_own_rating():
    """By hand: 2 x 0.5 x (7 - probabilities of beating each of six others - place)."""
    batches = [played(PLAIN), played(PLAIN | ELO)]
    expected = []
    for turn in batches[0].turns:
        elo, own = RATINGS[turn.game // SAMPLES], RATINGS[turn.game // SAMPLES][turn.seat]
        beaten = sum(1 / (1 + 10 ** ((other - own) / 400)) for other in elo) - 0.5
        held = batches[0].endings[turn.game].scores
        place = 1 + sum(other > held[turn.seat] for other in held)
        expected.append(7 - beaten - place)
    assert batches[1].rewards - batches[0].rewards == pytest.approx(np.array(expected), abs=1e-9)


def year(turn, season=SPRING):
    """A fact counts the phases since the fork, which was in a `season` of 1901."""
    return 1901 + (turn.before.step + season) // len(PHASES)


@pytest.mark.parametrize(
    ("warmup", "years", "season", "ends"),
    [(0, 1, SPRING, 1902), (0, 2, SPRING, 1903), (1, 1, FALL, 1903), (1, 2, FALL, 1904)],
)
def test_games_last_full_years_after_fork_year(warmup, years, season, ends, recorded):
    """They stop in the following spring, without further decisions."""
    batch = played(PLAIN, plan(group(warmup, years, seed=1), group(warmup, years, seed=2)), bot="defensive")
    start, end = recorded.phases[0][0], recorded.phases[-1][1]
    assert (start["year"].tolist(), start["phase"].tolist()) == ([1901] * 2 * SAMPLES, [season] * 2 * SAMPLES)
    assert end["year"].tolist() == [ends] * 2 * SAMPLES
    assert end["phase"].tolist() == [SPRING] * 2 * SAMPLES
    assert {year(turn, season) for turn in batch.turns} == set(range(1901, ends))
    assert batch.years == (ends - 1901) * 2 * SAMPLES


@pytest.mark.parametrize(("warmup", "years", "ends"), [(0, 1, 1902), (1, 1, 1902), (1, 2, 1903)])
def test_fork_year_can_count_as_first(warmup, years, ends, recorded):
    options = PLAIN | {"count_fork_year": True}
    played(options, plan(group(warmup, years, seed=1), group(warmup, years, seed=2)), bot="defensive")
    end = recorded.phases[-1][1]
    assert end["year"].tolist() == [ends] * 2 * SAMPLES
    assert end["phase"].tolist() == [SPRING] * 2 * SAMPLES


def test_discount_counts_own_decisions(recorded):
    """A decision gets its own phase's pay and 0.9 of the same power's next decision's pay."""
    batch = played(PLAIN | {"reward_discount_gamma": 0.9, "reward_discount_per": "decision"})
    plain = played(PLAIN)
    earned = scored(recorded, "dense")[: len(recorded.phases) // 2]
    own = {}
    for turn, reward, without in zip(batch.turns, batch.rewards, plain.rewards, strict=True):
        step = float(earned[turn.step][turn.game, turn.seat])
        own.setdefault((turn.game, turn.seat), []).append((turn.step, (reward - without) / 0.8 + step, step))
    for decisions in own.values():
        decisions.sort()
        for (_, total, step), (_, later, _) in pairwise(decisions):
            assert total == pytest.approx(step + 0.9 * later, abs=1e-9)
        assert decisions[-1][1] == pytest.approx(decisions[-1][2], abs=1e-9)


def test_players_are_rated_by_final_scores():
    (ending, *_) = played(PLAIN | {"use_position_scoring": True}).endings
    assert len(ending.finals) == 7
    best = max(range(7), key=ending.finals.__getitem__)
    assert ending.scores[best] == max(ending.scores)
    assert ending.finals[best] > 50  # with the bonus of the first place


@pytest.mark.parametrize("strategic", [True, False])
def test_stopped_game_earns_nothing_while_others_continue(strategic):
    """A group's pay does not depend on how long another group plays."""
    rules = PLAIN | {"use_strategic_step_scoring": strategic, "reward_discount_gamma": 0.9}
    batches = [played(rules, plan(group(0, 1, seed=1), group(0, years, seed=2)), bot="defensive") for years in (1, 2)]
    paid = [
        {
            (turn.game, turn.step, turn.seat): float(reward)
            for turn, reward in zip(batch.turns, batch.rewards, strict=True)
            if turn.game < SAMPLES
        }
        for batch in batches
    ]
    assert paid[0] == pytest.approx(paid[1], abs=1e-9)
    assert len(paid[0]) > 20


def test_group_facts_are_positions_before_orders(recorded):
    """Centres, year and units are those shown in the prompt, also where the phase changed them."""
    batch = played(PLAIN, plan(group(0, 3, seed=1), group(3, 3, seed=2)))
    before = [facts_of(recorded.phases[turn.step][0], turn) for turn in batch.turns]
    after = [facts_of(recorded.phases[turn.step][1], turn) for turn in batch.turns]
    assert [(turn.before.stratum, turn.before.position) for turn in batch.turns] == before
    assert sum(old[0] != new[0] for old, new in zip(before, after, strict=True)) > 10  # so that a leak would show
    assert sum(old[1] != new[1] for old, new in zip(before, after, strict=True)) > len(before) / 2


def facts_of(positions, turn):
    """Return the stratum of a decision's power and the checksum of the position, by hand."""
    row = {name: values[turn.game].numpy() for name, values in positions.items()}
    centres, year = int((row["owner"] == turn.seat).sum()), int(row["year"])
    size = 0 if centres <= 3 else 1 if centres <= 5 else 2
    age = 0 if year <= 1902 else 1 if year <= 1905 else 2
    return (size, age), crc32(b"".join(row[name].tobytes() for name in ("units", "dislodged", "origin", "owner")))
