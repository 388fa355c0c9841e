"""The league: when snapshots are taken and drawn, who gets how many matches, and where results end up."""

import errno
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agents.checkpoint import load_checkpoint
from agents.duel import FIRST_SLOT, Duel, Tally
from agents.matches import Setting
from agents.ppo.network import ActorCritic
from agents.ppo.promotion import Promotion
from agents.ppo.selfplay import League, keep_places
from configs.schema import NetworkConfig, PhaseConfig, SelfPlayConfig, StageConfig
from curriculum.pool import Pool
from curriculum.schedule import Schedule
from envs.dogfight.batch import DogfightBatch
from envs.dogfight.rules import ranges

RELEASED = Path(__file__).resolve().parents[3] / "checkpoints" / "released"
N = 20
PHASE = PhaseConfig("selfplay", 20, stages=[StageConfig(bots=["ace", "brawler"])], scripted_start=0.2, scripted_end=0.2)
BOTS_ONLY = PhaseConfig("curriculum", 20, stages=PHASE.stages)


def network(seed=0):
    return ActorCritic(59, 2, 1, NetworkConfig(hidden=4), seed=seed)


@pytest.fixture
def duel():
    batch = DogfightBatch(N, threads=1)
    yield Duel(batch, slots=2, network_shape=network().shape, seed=0)
    batch.close()


def make_league(duel, folder, promotion=None, **options):
    config = SelfPlayConfig(**{"snapshot_every": 3, "deal_every": 2, "slots": 2, "pool_size": 2, **options})
    return League(
        duel,
        Pool(folder, config.pool_size, config.eviction, shape=network().shape),
        config,
        seed=1,
        promotion=promotion,
    )


def plan(update, phase=PHASE):
    schedule = Schedule([phase])
    return schedule.plan(schedule.position_at(update), {})


def counts(duel):
    return np.bincount(duel.opponents, minlength=FIRST_SLOT + 2).tolist()


def tally(results):
    """Results by opponent index, everything else zero."""
    table = np.zeros((FIRST_SLOT + 2, 6))
    for opponent, result in results.items():
        table[opponent, :3] = result
    return Tally(*table.T)


def test_without_self_play_there_are_only_bots(duel, tmp_path):
    league = make_league(duel, tmp_path)
    league.deal(plan(0, BOTS_ONLY), network())
    assert counts(duel) == [0, 0, 0, 10, 10, 0, 0]
    assert len(league.pool) == 0
    assert league.slots == ["", ""]


def test_self_play_begins_against_oneself(duel, tmp_path):
    league = make_league(duel, tmp_path)
    league.deal(plan(4), network())
    assert counts(duel) == [0, 0, 0, 2, 2, 8, 8]
    assert league.slots == ["snapshot_000004"] * 2


def test_a_full_disk_is_said_once_and_forgets_nothing(duel, tmp_path, monkeypatch):
    league, said = make_league(duel, tmp_path), []
    league.alert = said.append
    league.deal(plan(4), network())

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("curriculum.pool.write_atomically", full)
        for _ in range(2):
            league.record(tally({FIRST_SLOT: (3, 1, 0)}))
        league.deal(plan(7), network(1))
    index = "the pool's index is not saved (No space left on device); training goes on"
    assert said == [index, "no snapshot is taken (No space left on device); the pool stays as it is"]
    assert [snapshot.name for snapshot in league.pool.snapshots] == ["snapshot_000004"]
    league.record(tally({FIRST_SLOT: (1, 0, 0)}))
    assert Pool(tmp_path, 2, shape=network().shape)["snapshot_000004"].wins == 7


def test_snapshots_are_taken_and_drawn_at_their_intervals(duel, tmp_path, monkeypatch):
    league = make_league(duel, tmp_path, pool_size=9)
    drawn = []
    draw = league._draw
    monkeypatch.setattr(league, "_draw", lambda update: drawn.append(update) or draw(update))
    for update in range(8):
        league.deal(plan(update), network(update))
    assert [snapshot.update for snapshot in league.pool.snapshots] == [0, 3, 6]
    assert drawn == [0, 2, 4, 6]


def test_an_evicted_opponent_is_met_no_longer(duel, tmp_path):
    league = make_league(duel, tmp_path, snapshot_every=1, deal_every=1000)
    for update in range(4):
        league.deal(plan(update), network(update))
        names = {snapshot.name for snapshot in league.pool.snapshots}
        assert set(league.slots) <= names
        assert league.ratings.opponents.keys() == names


def test_slots_hold_the_weights_of_their_names(duel, tmp_path):
    league = make_league(duel, tmp_path, snapshot_every=1, deal_every=1)
    for update in range(3):
        league.deal(plan(update), network(update))
    assert sorted(league.slots) == ["snapshot_000001", "snapshot_000002"]
    for slot, name in enumerate(league.slots):
        expected = network(int(name[-1])).state_dict()["actor.0.bias"], network(int(name[-1])).actor[0].weight
        stored = duel._actors.weights["actor.0.weight"][slot]
        assert (stored == expected[1].T).all()


def test_opponents_drawn_again_keep_their_slots():
    assert keep_places(["b", "c"], ["a", "b"]) == ["c", "b"]
    assert keep_places(["a", "a"], ["a", "b"]) == ["a", "a"]
    assert keep_places(["c", "a", "b"], ["a", "b", "c"]) == ["a", "b", "c"]
    assert keep_places(["a", "b"], ["", ""]) == ["a", "b"]


def test_results_move_ratings_scores_and_totals(duel, tmp_path):
    league = make_league(duel, tmp_path)
    league.deal(plan(0), network())
    league.record(tally({3: (4, 0, 0), FIRST_SLOT: (1, 2, 1), FIRST_SLOT + 1: (0, 0, 4)}))
    assert league.ratings.opponents["ace"] == pytest.approx(1000 - 16)
    snapshot = league.pool["snapshot_000000"]
    assert (snapshot.wins, snapshot.draws, snapshot.losses) == (1, 2, 5)  # both slots hold the same snapshot
    assert snapshot.rating == league.ratings.opponents["snapshot_000000"] > 1000
    assert sum(league.ratings.opponents.values()) + league.ratings.learner == pytest.approx(3000)
    assert league.scores.guesses(["ace", "snapshot_000000", "brawler"]) == pytest.approx([5 / 6, 3 / 10, 0.5])


def test_a_snapshot_one_loses_to_is_drawn_more_often(duel, tmp_path):
    league = make_league(duel, tmp_path, snapshot_every=1, pool_size=3)
    for update in range(3):
        league.deal(plan(update), network(update))
    easy, hard, other = (snapshot.name for snapshot in league.pool.snapshots)
    league.scores.add({easy: (98, 0, 0), hard: (0, 0, 98), other: (98, 0, 0)})
    met = []
    for update in range(100):
        league._draw(update)
        met += league.slots
    assert met.count(hard) > 80  # of 100; its weight is 1.09, the others' 0.11
    assert met.count(easy) > 0


class Judge:
    """A promotion test whose verdicts are given."""

    def __init__(self, *verdicts):
        self.verdicts, self.asked = list(verdicts), []

    def test(self, candidate, champion, update, ranges):
        self.asked.append((update, torch.equal(champion["log_std"], candidate.log_std), ranges.shape))
        return SimpleNamespace(accepted=self.verdicts.pop(0))


def test_a_snapshot_has_to_earn_its_place(duel, tmp_path):
    judge = Judge(None, "H0", "H1", "H0")
    league = make_league(duel, tmp_path, judge, snapshot_every=3)
    taken = []
    for update in range(14):
        league.deal(plan(update), network())
        taken.append([snapshot.update for snapshot in league.pool.snapshots][-1])
    assert [update for update, *_ in judge.asked] == [3, 6, 9, 12]  # and not again before it is due
    assert taken == [0] * 9 + [9] * 5
    assert league.refused == 3
    assert judge.asked[0][1:] == (True, (13, 2))
    again = make_league(duel, tmp_path, judge)
    again.load_state_dict(league.state_dict())
    assert again.refused == 3


def test_the_test_tells_a_strong_learner_from_an_equal_one():
    strong = load_checkpoint(RELEASED / "dogfight_quickstart.pt")
    weak = ActorCritic.from_shape(strong.network.shape, seed=1)
    promotion = Promotion(SelfPlayConfig(promotion_games=128), Setting(threads=1), strong.contract, seed=3)
    verdict = promotion.test(strong.network, weak.state_dict(), 5, ranges("none"))
    assert verdict.accepted == "H1"
    assert sum(verdict.pairs) == 32  # it stopped as soon as it knew
    assert promotion.test(weak, strong.network.state_dict(), 5, ranges("none")).accepted == "H0"
    even = promotion.test(strong.network, strong.network.state_dict(), 5, ranges("none"))
    assert even.accepted != "H1"
    assert promotion.test(strong.network, strong.network.state_dict(), 5, ranges("none")) == even
