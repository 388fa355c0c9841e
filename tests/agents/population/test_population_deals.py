"""Opponent allocation of a population and initial weights of exploiters, without matches."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import MatchTally
from sparring.agents.policies.actor_critic import MIXTURE, ActorCritic
from sparring.agents.policies.styles import plain_shape, style_weights
from sparring.agents.population.exploiters import Exploiters
from sparring.agents.population.population import Population
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.configs.resume import moved_by_length
from sparring.configs.schema import (
    NetworkConfig,
    PhaseConfig,
    PPOConfig,
    PPORunConfig,
    SelfPlayConfig,
    StageConfig,
)
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.pool import Pool
from sparring.curriculum.schedule import Schedule

STYLES, SLOTS, MATCHES = 3, 6, 9000
BOTS = ("ace", "brawler")
PHASE = PhaseConfig("selfplay", 40, stages=[StageConfig(bots=[*BOTS])], scripted_start=0.2, scripted_end=0.2)


class Deals:
    """An environment that records what it is told to play."""

    bots, slots, style_count, device = BOTS, SLOTS, STYLES, torch.device("cpu")

    def __init__(self):
        self.opponents, self.styles = np.zeros((2, MATCHES), dtype=np.int64)
        self.loaded, self.restarted = {}, {}

    def assign(self, opponents, styles):
        self.opponents, self.styles = opponents, styles

    def load_slot(self, slot, weights, *, restart=True):
        self.loaded[slot], self.restarted[slot] = deepcopy(weights), restart

    def shares(self):
        """Return shares of all matches by style and opponent, [K, O]."""
        table = np.zeros((STYLES, len(BOTS) + SLOTS))
        np.add.at(table, (self.styles, self.opponents), 1.0 / MATCHES)
        return table


def network(seed=0, mixture=(0.2, 0.3, 0.5)):
    styled = ActorCritic(4, 1, 1, NetworkConfig(hidden=4, styles=STYLES), seed=seed)
    styled.get_buffer(MIXTURE).copy_(torch.tensor(mixture))
    return styled


@pytest.fixture
def population(tmp_path):
    config = SelfPlayConfig(snapshot_every=3, deal_every=2, slots=SLOTS, pool_size=8)
    pool = Pool(tmp_path / "pool", config.pool_size, shape=network().shape)
    return Population(Deals(), pool, LeagueFile(tmp_path), config, seed=1)


def plan(update):
    return Schedule([PHASE]).plan(update, {})


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_every_style_gets_share_of_bots_lower_styles_and_pool(population):
    population.game.record(1, 0, np.array([9000, 0, 0]))
    for _ in range(60):
        population.game.solve(np.random.default_rng(0))
    population.deal(plan(0), network())
    # 0.2 against bots; of the rest style 0 has the pool alone, others 0.6 below. Style 2 meets style 1, which beats
    # style 0, in 0.8 + 0.1 and style 0 in 0.1 of these; four slots are the pool's.
    of_style = np.array(
        [
            [0.1, 0.1, 0.0, 0.0, *[0.8 / 4] * 4],
            [0.1, 0.1, 0.48, 0.0, *[0.32 / 4] * 4],
            [0.1, 0.1, 0.048, 0.432, *[0.32 / 4] * 4],
        ]
    )
    assert population.env.shares() == pytest.approx(of_style / 3, abs=2e-3)


def test_first_slots_are_current_lower_styles(population):
    for update, learner in ((0, network(0)), (1, network(1))):
        population.deal(plan(update), learner)
        for style in range(STYLES - 1):
            assert equal(population.env.loaded[style], style_weights(learner.state_dict(), style))
            assert population.env.restarted[style] is (update == 0)
    assert population.slots[:2] == ["style_0", "style_1"]
    assert population.slots[2:] == ["snapshot_000000"] * 4


def test_snapshot_draws_style_by_its_own_probabilities(population):
    alone = network(5, mixture=(0.0, 1.0, 0.0))
    population.pool.add(0, alone.state_dict())
    population.deal(plan(1), network())
    for slot in range(STYLES - 1, SLOTS):
        assert equal(population.env.loaded[slot], style_weights(alone.state_dict(), 1))


def test_exploiters_get_up_to_half_of_pool_slots(population):
    population.deal(plan(0), network())
    for update in (5, 9, 13):
        population.begin_exploiter(network(update).state_dict(), 1)
        population.end_exploiter(update, network(update).state_dict())
    population.deal(plan(14), network())
    kinds = [name.partition("_")[0] for name in population.slots]
    assert [kinds.count(kind) for kind in ("style", "exploiter", "snapshot")] == [2, 2, 2]


def test_lower_style_results_count_for_style_that_played(population):
    by_style = np.zeros((STYLES, len(BOTS) + SLOTS, 3))
    by_style[2, len(BOTS)] = (5, 1, 2)  # style 2 against style 0
    by_style[1, len(BOTS)] = (0, 3, 4)
    by_style[2, len(BOTS) + 3] = (7, 7, 7)  # against the pool
    wins, draws, losses = np.moveaxis(by_style.sum(0), -1, 0)
    population.deal(plan(0), network())
    population.record(MatchTally(wins, draws, losses, {}, wins, by_style))
    assert population.game.results[2, 0].tolist() == [5, 1, 2]
    assert population.game.results[1, 0].tolist() == [0, 3, 4]
    assert population.game.results.sum() == 15


def test_exploiter_meets_mixture_only_and_joins_with_its_style(population):
    population.deal(plan(0), network())
    population.begin_exploiter(network(3).state_dict(), 1)
    population.deal(plan(3), network(4))
    shares = np.zeros((STYLES, len(BOTS) + SLOTS))
    shares[1, 2:5] = (0.2, 0.3, 0.5)
    assert population.env.shares() == pytest.approx(shares, abs=2e-3)
    for style in range(STYLES):
        assert equal(population.env.loaded[style], style_weights(network(3).state_dict(), style))
    assert population.game.results.sum() == 0
    population.end_exploiter(5, network(4).state_dict())
    kept = population.pool.load("exploiter_000005")
    assert equal(dict(kept), network(4, mixture=(0.0, 1.0, 0.0)).state_dict())
    assert plain_shape(population.pool.shape).keys() == population.pool.shape.keys() - {"styles"}
    population.deal(plan(5), network())
    assert population.env.restarted[0]
    assert population.env.shares()[:, :2].sum() == pytest.approx(0.2, abs=2e-3)


def test_exploiters_start_from_release_or_lineage():
    learner = PPOLearner(network(1), PPOConfig(average_decay=0.5), Autocast("fp32", "cpu"), seed=0)
    for seed in (2, 3):
        learner.average.follow(network(seed))
    released, other = deepcopy(learner.released.state_dict()), network(9).state_dict()
    before = deepcopy(learner.state_dict())
    exposed = []
    stub = SimpleNamespace(
        begin_exploiter=lambda weights, style: exposed.append((weights, style)), end_exploiter=lambda *_: None
    )
    config = SelfPlayConfig(exploiter_every=3, exploiter_updates=2)
    exploiters = Exploiters(config, learner, stub, {"other": other}, updates=40)
    for update, begins in ((3, released), (8, other)):
        assert exploiters.turn(update)
        assert equal(learner.network.state_dict(), dict(begins))
        assert equal(exposed[-1][0], released)
        assert exposed[-1][1] == 2
        assert equal(exploiters.released.state_dict(), released)
        assert not learner.optimizer.state
        with torch.no_grad():
            learner.network.log_std.add_(1.0)
        assert exploiters.turn(update + 1) == ""
        assert exploiters.turn(update + 2)
        assert equal(learner.network.state_dict(), before["network"])
        assert equal(learner.average.state_dict(), before["average"])
    assert exploiters.turn(38) == ""  # it would not end before the run


def exploiter_starts(config, updates, length):
    """Return the updates below `updates` at which exploiters start in a schedule of `length`."""
    learner = PPOLearner(network(1), PPOConfig(), Autocast("fp32", "cpu"), seed=0)
    stub = SimpleNamespace(begin_exploiter=lambda *_: None, end_exploiter=lambda *_: None)
    exploiters = Exploiters(config, learner, stub, {}, updates=length)
    return [update for update in range(updates) if "begins" in exploiters.turn(update)]


@pytest.mark.parametrize("length", range(4, 17))
def test_extended_run_reports_exploiter_skipped_before_old_end(length):
    config = SelfPlayConfig(exploiter_every=3, exploiter_updates=2)
    longer = PPORunConfig(
        ppo=PPOConfig(final_learning_rate_fraction=1.0, final_entropy_fraction=1.0),
        phases=[PhaseConfig("selfplay", 20, scripted_start=0.2, scripted_end=0.2)],
        self_play=config,
    )
    skipped = exploiter_starts(config, length, length) != exploiter_starts(config, length, 20)
    reasons = moved_by_length(longer, {"phases.0.updates": (length, 20)})
    assert reasons == ["the exploiters"] * skipped
