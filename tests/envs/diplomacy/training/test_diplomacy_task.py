"""Diplomacy as a task: legal choices, consistent densities, and bit-for-bit resuming."""

import json

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.networks import build_network
from sparring.agents.ppo.tasks.task import SEEDS
from sparring.agents.run.folder import RunFolder
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.curriculum.schedule import Schedule
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.movement_batch import MovementBatch
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import CHOICES
from sparring.envs.diplomacy.orders.phase_choices import may_decide
from sparring.envs.diplomacy.rewards.scoring import sum_of_squares
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.diplomacy.training.task import DiplomacyTask, play_against
from tests.agents.ppo.small_run import flat, untimed

SMALL = (
    *("+run=diplomacy_ppo", "env.num_envs=14", "env.last_year=1902", "ppo.rollout_steps=4", "ppo.minibatch_size=28"),
    *("network.hidden=8", "network.blocks=1", "device=cpu", "threads=1", "logger.progress=false", "name=small"),
)


@pytest.fixture(scope="module")
def network():
    return OrderNetwork(NetworkConfig(hidden=16, blocks=2), seed=1)


POWER = torch.arange(28) % 7


def learner_env(batch):
    return LearnerEnv(MovementBatch(batch, seed=3), bots=codes.BOTS, seed=0)


@pytest.fixture
def batch():
    batch = DiplomacyBatch(28, last_year=1906, threads=1)
    yield batch
    batch.close()


@pytest.fixture
def table(batch):
    return learner_env(batch)


def scores(batch):
    """Return the learner's share of the score [28]."""
    return sum_of_squares(batch.owner)[torch.arange(28), POWER]


class Watch:
    """Replace a batch's `process`: record units, orders and results of the first phase after `clear`."""

    def __init__(self, batch):
        self.batch, self.process = batch, batch.process
        self.clear()

    def clear(self):
        self.kept = None

    def __call__(self):
        units, orders = self.batch.units.clone(), self.batch.orders.clone()
        self.process()
        if self.kept is None:
            self.kept = units.long(), orders, self.batch.results.clone() % codes.DISLODGED_FLAG


def test_choices_are_legal_and_supports_match(table, batch, network, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    watch, given = Watch(batch), 0
    monkeypatch.setattr(batch, "process", watch)
    for _ in range(8):
        watch.clear()
        table.step(network.act(table.obs, generator=generator)[0])
        units, orders, results = watch.kept
        mine = (units > 0) & ((units - 1) % 7 == POWER.unsqueeze(1))
        kinds = orders & codes.KIND_MASK
        assert (kinds[mine] > 0).all()
        assert not torch.isin(results[mine], torch.tensor([codes.VOID, codes.FAILED])).any()
        given += int(((kinds == codes.SUPPORT_MOVE) & (results == codes.DONE) & mine).sum())
    assert given > 0


def test_densities_match_independent_choices(table, network):
    generator = torch.Generator().manual_seed(0)
    actions, log_prob = network.act(table.obs, generator=generator)
    again, entropy = network.evaluate(table.obs, actions)
    torch.testing.assert_close(again, log_prob)
    assert actions.shape == (28, codes.SLOTS)
    log_probs, present = network.log_probs(table.obs, actions.long())
    assert log_probs.shape == (28, codes.SLOTS, CHOICES)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(28, codes.SLOTS))
    units = present.sum(1)
    assert sorted(set(units.tolist())) == [3, 4]  # Russia has four
    assert ((entropy > 0) & (entropy <= units * np.log(CHOICES))).all()


def test_likeliest_choice_is_deterministic_choice(table, network):
    actions, _ = network.act(table.obs, deterministic=True)
    log_probs, _ = network.log_probs(table.obs, actions.long())
    assert torch.equal(actions.long(), log_probs.argmax(-1))


def test_rewards_are_score_shares_and_every_power_is_played(table, batch, network):
    start = scores(batch).clone()
    rewards, over = torch.zeros(28), torch.zeros(28, dtype=torch.bool)
    while not over.any():
        obs, reward, over, truncated = table.step(network.act(table.obs, deterministic=True)[0])
        rewards += reward
        assert not truncated.any()
    now = scores(batch)
    torch.testing.assert_close((start + rewards)[~over], now[~over], atol=1e-5, rtol=0.0)
    assert (batch.players == 0).all()
    assert torch.equal(obs, table.obs)


def test_observations_are_current_and_final_ones_of_ended_games(network):
    batch = DiplomacyBatch(14, last_year=1902, threads=1)
    games = learner_env(batch)
    opening = games.obs.clone()
    for step in range(1, 5):
        obs, _, over, _ = games.step(network.act(games.obs, deterministic=True)[0])
        seen = observe(batch.state, POWER[:14], last_year=1902).flatten(1)
        assert torch.equal(obs, seen)
        assert bool(over.all()) == (step == 4)  # four movement phases in two years
    assert torch.equal(obs, opening)
    assert (games.final_obs != opening).any(1).all()
    batch.close()


LEAGUE = (
    *("phases.0.scripted_start=0.5", "phases.0.scripted_end=0.5", "self_play.snapshot_every=1", "self_play.slots=2"),
    *("self_play.deal_every=1", "self_play.pool_size=2", "env.last_year=1901", "evaluation.every=0"),
)


def test_self_play_meets_pool_and_resumes_bit_for_bit(tmp_path):
    whole = train(load([*SMALL, *LEAGUE, "max_updates=4", f"checkpoint_dir={tmp_path / 'whole'}"]))
    parts = [*SMALL, *LEAGUE, f"checkpoint_dir={tmp_path / 'parts'}"]
    train(load([*parts, "max_updates=3"]))
    resumed = train(load([*parts, "max_updates=4"]))
    first, second = (load_checkpoint(path) for path in (whole, resumed))
    assert flat(first.network.state_dict()) == flat(second.network.state_dict())
    rows = [untimed(read(path.parent)) for path in (whole, resumed)]
    assert rows[0] == rows[1]
    last = rows[0][-1]
    assert last["rollout/selfplay/centres"] > 0
    assert last["league/pool_size"] == 2
    assert last["curriculum/scripted_share"] == 0.5
    agents = json.loads((whole.parent / "league.json").read_text())["agents"]
    assert {"snapshot_000002", "snapshot_000003"} <= {agent["name"] for agent in agents}


EVERY = [*SMALL, *LEAGUE, "env.last_year=1902", "self_play.slots=1", "network.all_phases=true"]


def test_all_phase_run_resumes_bit_for_bit(tmp_path):
    """Its snapshots decide in all phases too, and updates end in the middle of years."""
    whole = train(load([*EVERY, "max_updates=3", f"checkpoint_dir={tmp_path / 'whole'}"]))
    parts = [*EVERY, f"checkpoint_dir={tmp_path / 'parts'}"]
    train(load([*parts, "max_updates=2"]))
    resumed = train(load([*parts, "max_updates=3"]))
    first, second = (load_checkpoint(path) for path in (whole, resumed))
    assert flat(first.network.state_dict()) == flat(second.network.state_dict())
    rows = [untimed(read(path.parent)) for path in (whole, resumed)]
    assert rows[0] == rows[1]
    assert (first.contract["version"], first.contract["all_phases"]) == (2, True)
    told = r"init_from=.*: was trained with network\.all_phases=true, this run has network\.all_phases=false;"
    with pytest.raises(ConfigError, match=told):
        train(load([*SMALL, f"init_from={whole}", "max_updates=1", f"checkpoint_dir={tmp_path / 'other'}"]))


def test_all_phase_steps_are_decisions_and_rewards_add_up(batch):
    """Games reach different phases; bots play all other powers."""
    policy = OrderNetwork(NetworkConfig(hidden=16, blocks=2, all_phases=True), seed=1)
    env = LearnerEnv(MovementBatch(batch, seed=3, all_phases=True), bots=codes.BOTS, seed=0)
    generator, start = torch.Generator().manual_seed(0), scores(batch).clone()
    earned, over, phases = torch.zeros(28), torch.zeros(28, dtype=torch.bool), set()
    own = (torch.arange(28), POWER)
    for _ in range(12):
        assert may_decide(batch.state)[own][~over].all()
        assert (policy._units(env.obs).present.any(1))[~over].all()
        phases |= set(batch.phase.tolist())
        _, reward, ended, truncated = env.step(policy.act(env.obs, generator=generator)[0])
        assert not truncated.any()
        earned += torch.where(over, 0.0, reward)
        over |= ended
        now = scores(batch)
        torch.testing.assert_close((start + earned)[~over], now[~over], atol=1e-5, rtol=0.0)
    assert phases >= {codes.SPRING, codes.FALL, codes.SPRING_RETREATS, codes.WINTER}
    assert len(set(batch.phase.tolist())) > 1
    assert (batch.players[own] == codes.ACTIONS).all()


def test_all_phase_games_do_not_depend_on_batch():
    policy = OrderNetwork(NetworkConfig(hidden=8, blocks=1, all_phases=True), seed=2)
    owners = []
    for games in (7, 14):
        batch = DiplomacyBatch(games, last_year=1903, threads=1)
        play_against(batch, policy, "chaos", seed=5)
        assert (batch.done == 1).all()
        owners.append(batch.owner[:7].tolist())
        batch.close()
    assert owners[0] == owners[1]


@pytest.fixture
def task(tmp_path):
    config = load([*SMALL, *LEAGUE])
    task = DiplomacyTask(config, torch.device("cpu"), 1, seeds=dict.fromkeys(SEEDS, 1))
    task.open(RunFolder(tmp_path), print, lambda name, draw: None)
    yield task
    task.env.close()


def test_slot_plays_loaded_weights_and_restarts_games(task):
    plan = Schedule(task.config.phases).plan(0, {})
    learner = build_network(task._shape, seed=5)
    task.prepare(plan, learner)
    assert task.self_play.slots == ["snapshot_000000"] * 2
    assert all(flat(one.network.state_dict()) == flat(learner.state_dict()) for one in task._snapshots)
    against = task.env.opponents - len(task._seats.bots)
    assert sorted(against.tolist())[-7:] == [0] * 7, "one of two sets of seven games, one for each power"
    task.env.step(learner.act(task.env.obs, deterministic=True)[0])
    task._seats.load_slot(0, build_network(task._shape, seed=6).state_dict())
    assert ((task.games.length == 0).numpy() == (against == 0)).all()


def test_progress_lines_use_diplomacy_terms(tmp_path, capsys):
    """No physics terms, explicit shares, and a check line that matches its logged numbers."""
    options = ["evaluation.games=7", "evaluation.every=2", "max_updates=8", "logger.progress=true"]
    path = train(load([*SMALL, *options, f"checkpoint_dir={tmp_path}"]))
    out, bar = capsys.readouterr()
    assert "phase curriculum, update 0: random\n" in out
    assert "physics" not in out + bar
    assert "(none)" not in bar
    assert "most centres: random" in out + bar
    rates = [row["eval/random/win_rate"] for row in read(path.parent) if "eval/random/win_rate" in row]
    said = [line for line in out.splitlines() if line.startswith("check")]
    updates = (1, 3, 5, 7)
    assert said == [
        f"check after update {number}, most centres: random {rate:.0%}"
        for number, rate in zip(updates, rates, strict=True)
    ]


def read(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_games_against_bots_are_reproducible_and_finish(network):
    owners = []
    for games in (14, 28):
        batch = DiplomacyBatch(games, last_year=1903, threads=1)
        play_against(batch, network, "random", seed=5)
        assert (batch.done == 1).all()
        owners.append(batch.owner[:14].tolist())
        batch.close()
    assert owners[0] == owners[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["env.num_envs=15"], r"env\.num_envs=15: must be a multiple of 7"),
        (["env.rules=challenge"], r"env\.rules=challenge: is an option of sparring/Dogfight-v1"),
        (["phases.0.stages=[{bots:[ace]}]"], r"phases\.0\.stages\.0\.bots\.0=ace: choose from random"),
        (["phases.0.randomization=[{level:full}]"],
         r"phases\.0\.randomization=\[.*\]: is an option of sparring/Dogfight-v1"),
        (["network.activation=tanh"], r"network\.activation=tanh: is an option of sparring/Dogfight-v1"),
        (["network.log_std_init=-0.5"], r"network\.log_std_init=-0\.5: is an option of sparring/Dogfight-v1"),
        (["env.reward.win=9"], r"^env\.reward\.win=9: is an option of sparring/Dogfight-v1"),
        (["evaluation.games=10"], r"evaluation\.games=10: must be a multiple of 7, .*; try 14$"),
        (["evaluation.check_bot=dumbbot"], r"evaluation\.check_bot=dumbbot: is an option of sparring/Dogfight-v1"),
        (["evaluation.check_every=5"], r"evaluation\.check_every=5: is an option of sparring/Dogfight-v1"),
        (["evaluation.regimes_every=5"], r"evaluation\.regimes_every=5: is an option of sparring/Dogfight-v1"),
        (["self_play.promotion_games=9"], r"self_play\.promotion_games=9: is an option of sparring/Dogfight-v1"),
        (["self_play.both_seats=true"], r"self_play\.both_seats=True: is an option of games of PettingZoo"),
        (["phases.0.events=[{at:1,log_std:-1.0}]"],
         r"phases\.0\.events\.0\.log_std=-1\.0: is an option of sparring/Dogfight-v1"),
    ],
)  # fmt: skip
def test_options_of_other_games_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        load(["+run=diplomacy_ppo", *options])


def test_network_of_other_version_is_rejected(network):
    assert build_network(network.shape).shape == network.shape
    with pytest.raises(ValueError, match="observations of 5 numbers"):
        build_network(network.shape | {"obs_dim": 5})


def test_step_after_close_is_rejected():
    games = MovementBatch(DiplomacyBatch(1, threads=1), seed=3)
    games.close()
    with pytest.raises(RuntimeError, match="the games are closed: make a new batch to play on"):
        games.step(torch.zeros(1, codes.NUM_POWERS, codes.SLOTS))
