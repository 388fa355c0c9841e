"""Self-play: snapshot schedule, allocation of matches, and results."""

import errno
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import LearnerEnv, MatchTally
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.self_play import Promotion, SelfPlay, keep_places
from sparring.agents.ppo.tasks.duel import network_duel
from sparring.configs.schema import NetworkConfig, PhaseConfig, SelfPlayConfig, StageConfig
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER, record, win_rates
from sparring.curriculum.pool import Pool, PoolError
from sparring.curriculum.ratings import head_to_head
from sparring.curriculum.schedule import Schedule
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import BOTS, ranges
from sparring.envs.dogfight.training.matches import MatchSettings, play

RELEASED = Path(__file__).resolve().parents[3] / "checkpoints" / "released"
N = 20
FIRST_SLOT = len(BOTS)
PHASE = PhaseConfig("selfplay", 20, stages=[StageConfig(bots=["ace", "brawler"])], scripted_start=0.2, scripted_end=0.2)
BOTS_ONLY = PhaseConfig("curriculum", 20, stages=PHASE.stages)


def network(seed=0):
    return ActorCritic(59, 2, 1, NetworkConfig(hidden=4), seed=seed)


@pytest.fixture
def env():
    batch = DogfightBatch(N, threads=1)
    yield LearnerEnv(batch, bots=BOTS, slots=2, network_shape=network().shape, seed=0)
    batch.close()


def make_self_play(env, folder, promotion=None, **options):
    config = SelfPlayConfig(**{"snapshot_every": 3, "deal_every": 2, "slots": 2, "pool_size": 2, **options})
    return SelfPlay(
        env,
        Pool(folder / "pool", config.pool_size, shape=network().shape),
        LeagueFile(folder),
        config,
        seed=1,
        promotion=promotion,
    )


def plan(update, phase=PHASE):
    schedule = Schedule([phase])
    return schedule.plan(update, {})


def counts(env):
    return np.bincount(env.opponents, minlength=FIRST_SLOT + 2).tolist()


def tally(results):
    """Return results by opponent index, everything else zero."""
    table = np.zeros((FIRST_SLOT + 2, 4))
    for opponent, result in results.items():
        table[opponent, :3] = result
    wins, draws, losses, returns = table.T
    return MatchTally(wins, draws, losses, {}, returns)


def test_without_self_play_only_bots_are_met(env, tmp_path):
    self_play = make_self_play(env, tmp_path)
    self_play.deal(plan(0, BOTS_ONLY), network())
    assert counts(env) == [0, 0, 0, 10, 10, 0, 0]
    assert len(self_play.pool) == 0
    assert self_play.slots == ["", ""]


def test_self_play_starts_against_current_policy(env, tmp_path):
    self_play = make_self_play(env, tmp_path)
    self_play.deal(plan(4), network())
    assert counts(env) == [0, 0, 0, 2, 2, 8, 8]
    assert self_play.slots == ["snapshot_000004"] * 2


def test_full_disk_is_alert_and_pool_keeps_snapshots(env, tmp_path, monkeypatch):
    self_play, said = make_self_play(env, tmp_path), []
    self_play.alert = said.append
    self_play.deal(plan(4), network())

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("sparring.curriculum.pool.write_atomically", full)
        disk.setattr("sparring.curriculum.league.file.write_atomically", full)
        for _ in range(2):
            self_play.record(tally({FIRST_SLOT: (3, 1, 0)}))
        self_play.save_league()
        self_play.deal(plan(7), network(1))
    league = "the league was not saved (No space left on device); training continues"
    assert said == [league, "no snapshot was taken (No space left on device); the pool is unchanged"]
    assert [snapshot.name for snapshot in self_play.pool.snapshots] == ["snapshot_000004"]
    self_play.record(tally({FIRST_SLOT: (1, 0, 0)}))
    self_play.save_league()
    on_disk = LeagueFile(tmp_path).read()
    assert on_disk == self_play.league
    assert on_disk.records[(CHALLENGER, "snapshot_000004")].total == (7, 2, 0)


def test_league_is_restored_from_state_and_written_to_disk(env, tmp_path):
    self_play = make_self_play(env, tmp_path)
    self_play.deal(plan(4), network())
    self_play.record(tally({3: (15, 10, 5), FIRST_SLOT: (3, 1, 0)}))
    state, league = json.loads(json.dumps(self_play.state_dict())), self_play.league
    self_play.record(tally({3: (0, 0, 30)}))
    again = make_self_play(env, tmp_path)
    again.load_state_dict(state)
    assert again.league == LeagueFile(tmp_path).read() == league
    assert again.win_rates() == {"ace": 0.5}


def test_opponent_removed_from_league_is_not_rated(env, tmp_path, monkeypatch):
    """An unreadable snapshot leaves its slot to the previous one, which may have left the pool."""
    self_play = make_self_play(env, tmp_path, pool_size=1)
    self_play.alert = lambda text: None
    self_play.deal(plan(4), network())

    def unreadable(name, device):
        raise PoolError("unreadable")

    monkeypatch.setattr(self_play.pool, "load", unreadable)
    self_play.deal(plan(7), network(1))
    assert self_play.slots == ["snapshot_000004"] * 2
    self_play.record(tally({FIRST_SLOT: (1, 0, 0), 3: (1, 0, 0)}))
    assert list(self_play.league.records) == [("ace", CHALLENGER)]


def test_snapshots_are_taken_and_drawn_at_intervals(env, tmp_path, monkeypatch):
    self_play = make_self_play(env, tmp_path, pool_size=9)
    drawn = []
    draw = self_play._draw
    monkeypatch.setattr(self_play, "_draw", lambda update: drawn.append(update) or draw(update))
    for update in range(8):
        self_play.deal(plan(update), network(update))
    assert [snapshot.update for snapshot in self_play.pool.snapshots] == [0, 3, 6]
    assert drawn == [0, 2, 4, 6]


def test_evicted_opponent_is_no_longer_met(env, tmp_path):
    self_play = make_self_play(env, tmp_path, snapshot_every=1, deal_every=1000)
    for update in range(4):
        self_play.deal(plan(update), network(update))
        names = {snapshot.name for snapshot in self_play.pool.snapshots}
        assert set(self_play.slots) <= names
        assert {agent.name for agent in self_play.league.of_kind("checkpoint")} == names


def test_slots_hold_weights_of_their_names(env, tmp_path):
    self_play = make_self_play(env, tmp_path, snapshot_every=1, deal_every=1)
    for update in range(3):
        self_play.deal(plan(update), network(update))
    assert sorted(self_play.slots) == ["snapshot_000001", "snapshot_000002"]
    for slot, name in enumerate(self_play.slots):
        expected = network(int(name[-1])).state_dict()["actor.0.bias"], network(int(name[-1])).actor[0].weight
        stored = env.opponent_seats._actors.weights["actor.0.weight"][slot]
        assert (stored == expected[1].T).all()


def test_repeated_opponents_keep_their_slots():
    assert keep_places(["b", "c"], ["a", "b"]) == ["c", "b"]
    assert keep_places(["a", "a"], ["a", "b"]) == ["a", "a"]
    assert keep_places(["c", "a", "b"], ["a", "b", "c"]) == ["a", "b", "c"]
    assert keep_places(["a", "b"], ["", ""]) == ["a", "b"]


def test_results_update_ratings_scores_and_totals(env, tmp_path):
    self_play = make_self_play(env, tmp_path)
    self_play.deal(plan(0), network())
    self_play.record(tally({3: (4, 0, 0), FIRST_SLOT: (1, 2, 1), FIRST_SLOT + 1: (0, 0, 4)}))
    league = self_play.league
    assert league["ace"].elo == pytest.approx(1000 - 16)
    assert league.records[(CHALLENGER, "snapshot_000000")].total == (1, 2, 5)  # both slots hold the same snapshot
    assert league["snapshot_000000"].elo == pytest.approx(1000 + 32 * (0.5 - 2 / 8))
    assert league[CHALLENGER].elo == pytest.approx(1000 + 16 - 8)
    assert [league[name].games for name in ("ace", "snapshot_000000", CHALLENGER, "brawler")] == [4, 8, 12, 0]
    rates = win_rates(league, CHALLENGER, ["ace", "snapshot_000000", "brawler"])
    assert rates == pytest.approx([5 / 6, 3 / 10, 0.5])
    assert league["ace"].belief.mu < league["brawler"].belief.mu < league[CHALLENGER].belief.mu


def test_stronger_snapshot_is_drawn_more_often(env, tmp_path):
    self_play = make_self_play(env, tmp_path, snapshot_every=1, pool_size=3)
    for update in range(3):
        self_play.deal(plan(update), network(update))
    easy, hard, other = (snapshot.name for snapshot in self_play.pool.snapshots)
    for name, result in {easy: (98, 0, 0), hard: (0, 0, 98), other: (98, 0, 0)}.items():
        self_play.league = record(self_play.league, head_to_head(CHALLENGER, name, result))
    met = []
    for update in range(100):
        self_play._draw(update)
        met += self_play.slots
    assert met.count(hard) > 80  # of 100; its weight is 1.09, the others' 0.11
    assert met.count(easy) > 0


class Judge:
    """A promotion test with given verdicts."""

    def __init__(self, *verdicts):
        self.verdicts, self.asked = list(verdicts), []

    def test(self, candidate, champion, update, ranges):
        self.asked.append((update, torch.equal(champion["log_std"], candidate.log_std), ranges.shape))
        return SimpleNamespace(accepted=self.verdicts.pop(0))


def test_snapshot_must_pass_promotion_test(env, tmp_path):
    judge = Judge(None, "H0", "H1", "H0")
    self_play = make_self_play(env, tmp_path, judge, snapshot_every=3)
    taken = []
    for update in range(14):
        self_play.deal(plan(update), network())
        taken.append([snapshot.update for snapshot in self_play.pool.snapshots][-1])
    assert [update for update, *_ in judge.asked] == [3, 6, 9, 12]  # and not again before it is due
    assert taken == [0] * 9 + [9] * 5
    assert self_play.refused == 3
    assert judge.asked[0][1:] == (True, (13, 2))
    again = make_self_play(env, tmp_path, judge)
    again.load_state_dict(self_play.state_dict())
    assert again.refused == 3


def test_promotion_test_separates_strong_from_equal_learner():
    strong = load_checkpoint(RELEASED / "dogfight_bots_only.pt")
    weak = ActorCritic.from_shape(strong.network.shape, seed=1)
    duel = network_duel(MatchSettings(threads=1), strong.contract)
    promotion, shorter = (Promotion(SelfPlayConfig(promotion_games=games), duel, seed=3) for games in (128, 32))
    verdict = promotion.test(strong.network, weak.state_dict(), 5, ranges("none"))
    assert verdict.accepted == "H1"
    assert sum(verdict.pairs) == 32  # it stopped as soon as it knew
    assert promotion.test(weak, strong.network.state_dict(), 5, ranges("none")).accepted == "H0"
    even = shorter.test(strong.network, strong.network.state_dict(), 5, ranges("none"))
    assert even.accepted != "H1"
    assert shorter.test(strong.network, strong.network.state_dict(), 5, ranges("none")) == even


def test_promotion_test_samples_actions_of_both_players(monkeypatch):
    """As in training: the pool will hold the sampling policy, not a greedy one."""
    strong, met = load_checkpoint(RELEASED / "dogfight_bots_only.pt"), []

    def noted(left, right, **options):
        met.extend([left, right])
        return play(left, right, **options)

    monkeypatch.setattr("sparring.agents.ppo.tasks.duel.play", noted)
    promotion = Promotion(
        SelfPlayConfig(promotion_games=4), network_duel(MatchSettings(threads=1), strong.contract), seed=3
    )
    promotion.test(strong.network, strong.network.state_dict(), 5, ranges("none"))
    obs = torch.randn(64, strong.network.obs_dim, generator=torch.Generator().manual_seed(0))
    assert len(met) == 2
    assert not any(torch.equal(policy.act(obs), policy.act(obs)) for policy in met)
