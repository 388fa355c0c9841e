"""Seven players in one game of Diplomacy: which player gives which orders."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.movement_batch import MovementBatch
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.phase_choices import may_decide
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.rollouts.games import in_order, play_to_end
from sparring.envs.diplomacy.training.opponents import PolicyOrders
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.diplomacy.training.task import play_against

FRANCE, GERMANY = POWERS.index("FRANCE"), POWERS.index("GERMANY")
MOVEMENT = (codes.SPRING, codes.FALL)


def policy(seed, *, gain=300.0, bot="defensive"):
    """Return an untrained network; this gain keeps it far from holding, a gain of 1 is nearly uniform."""
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1), seed=seed)
    with torch.no_grad():
        network.actor.ask.weight.mul_(gain)
    return PolicyOrders(network.eval(), bot=bot)


def played(seats):
    """Return the phases of a game of seven players."""
    batch = WatchedBatch(1, threads=1, last_year=1908)
    play_to_end(batch, in_order(seats), seed=9)
    batch.close()
    return batch.past()


def phase_of(record):
    return int(record.position["phase"])


def test_policy_orders_as_in_training():
    """The learner plays France in game 2; equal seed, power and game give equal orders here."""
    player, seed = policy(8, bot="dumbbot"), 5
    learner = WatchedBatch(7, watched=FRANCE, threads=1, last_year=1901)
    env = LearnerEnv(MovementBatch(learner, seed=seed, autoreset=False), bots=codes.BOTS, seed=0)
    env.assign(np.full(7, codes.BOTS.index("dumbbot")))
    env.step(player.network.act(env.obs, deterministic=True)[0])
    (first, *_) = learner.past()
    alone = WatchedBatch(1, threads=1, last_year=1901)
    alone.game_id.fill_(FRANCE)
    seats = [player if power == FRANCE else "dumbbot" for power in range(codes.NUM_POWERS)]
    play_to_end(alone, in_order(seats), seed=seed + 1_000_003)
    assert np.array_equal(alone.past()[0].orders, first.orders)
    own = codes.power_of(first.position["units"][0].numpy()) == FRANCE
    assert set(first.orders[own].tolist()) - {codes.HOLD}
    learner.close()
    alone.close()


@pytest.fixture(scope="module")
def game():
    """Return a game of two policies and five bots with retreats and disbands."""
    seats = ["chaos", "random", policy(2), policy(3), "dumbbot", "random", "coordinated"]
    return seats, played(seats)


def test_every_seat_orders_its_own_units(game):
    seats, records = game
    assert {phase_of(record) for record in records} == set(range(5))
    batch = DiplomacyBatch(1, threads=1, last_year=1908)
    for record, _ in pairwise(records):
        batch.set_position(0, record.position)
        batch.players[0] = torch.tensor([codes.BOTS.index(s if isinstance(s, str) else "defensive") for s in seats])
        batch.draw_orders(9)
        drawn = batch.orders[0].numpy().copy()
        batch.orders.zero_()
        for power in (FRANCE, GERMANY):
            seats[power].write(batch, torch.arange(codes.NUM_POWERS).unsqueeze(0) == power)
        moved = batch.orders[0].numpy()
        owners = codes.power_of(record.position["units"][0].numpy())
        mine = np.isin(owners, (FRANCE, GERMANY)) & (phase_of(record) in MOVEMENT)
        assert np.array_equal(record.orders, np.where(mine, moved, drawn))
        assert not moved[~mine].any()
    batch.close()


def test_same_seed_plays_same_game(game):
    seats, records = game
    again = played(seats)
    assert len(again) == len(records)
    assert all(torch.equal(a.position["units"], b.position["units"]) for a, b in zip(again, records, strict=True))


@pytest.mark.parametrize("alone", [True, False], ids=["against six bots", "in any seats"])
def test_evaluated_policy_does_not_sample(alone):
    """Games do not depend on torch's global generator, which unseeded sampling would use."""
    ends = []
    for state in (0, 1):
        torch.manual_seed(state)
        batch = DiplomacyBatch(2, threads=1, last_year=1902)
        if alone:
            play_against(batch, policy(4, gain=1.0).network, "defensive", seed=3)
        else:
            play_to_end(batch, in_order([policy(4, gain=1.0), *["defensive"] * 6]), seed=3)
        ends.append({name: values.clone() for name, values in batch.state.items()})
        batch.close()
    assert all(torch.equal(values, ends[1][name]) for name, values in ends[0].items())


def test_sampled_orders_differ():
    torch.manual_seed(0)
    batch = DiplomacyBatch(2, threads=1, last_year=1902)
    batch.reset()
    obs = observe(batch.state, torch.zeros(2, dtype=torch.int64), last_year=1902).flatten(1)
    batch.close()
    first, again = (policy(4, gain=1.0).network.act(obs)[0] for _ in range(2))
    assert not torch.equal(first, again)


def test_all_phase_policy_orders_in_every_phase():
    """Its bot decides nothing: the policy writes all orders of its power."""
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1, all_phases=True), seed=2)
    with torch.no_grad():
        network.actor.ask.weight.mul_(300.0)
    player, phases = PolicyOrders(network.eval(), bot="defensive"), set()
    assert player.bot == ""
    batch = DiplomacyBatch(7, threads=1, last_year=1906)
    own = torch.eye(codes.NUM_POWERS, dtype=torch.bool)
    while not bool(batch.done.all()):
        batch.players.copy_(torch.where(own, codes.ACTIONS, codes.BOTS.index("dumbbot")))
        batch.draw_orders(4)
        before, deciding = batch.orders.clone(), own & may_decide(batch.state) & (batch.done == 0).unsqueeze(1)
        player.write(batch, own & (batch.done == 0).unsqueeze(1))
        written = (batch.orders != before).any(1)
        assert not written[~deciding.any(1)].any()
        phases |= set(batch.phase[written].tolist())
        batch.process()
    batch.close()
    assert phases >= {codes.SPRING, codes.FALL, codes.FALL_RETREATS, codes.WINTER}
