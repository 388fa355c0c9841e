"""One interface for the networks of all games: memory, masks, roles, and families found by name."""

import pytest
import torch

from sparring.agents.policies import networks
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.networks import NetworkFamily, build_network, check_shape, check_weights, shape_for
from sparring.configs.core.typed import ContentError
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.movement_batch import movement_contract
from sparring.envs.game import Game

ROWS = 6
SMALL = {"hidden": 8, "blocks": 1}
PLAIN = {"id": "x", "version": 1, "obs_dim": 5, "continuous": 2, "binary": 1}
SEATS = {"id": "x", "version": 1, "obs_dim": 9, "continuous": 0, "binary": 0, "categorical": 3, "masked": True}
NETWORKS = {
    "numbers": (PLAIN, {}),
    "numbers with memory": (PLAIN, {"memory": "gru"}),
    "masks and roles": (SEATS | {"roles": [0, 1]}, {}),
    "masks and memory": (SEATS, {"memory": "lstm"}),
    "orders": (movement_contract(1901, all_phases=False), {}),
}


@pytest.fixture(params=NETWORKS)
def network(request):
    contract, options = NETWORKS[request.param]
    return build_network(shape_for(contract, NetworkConfig(**SMALL, **options)), seed=1)


def observations(network):
    rows = torch.rand(ROWS, network.obs_dim, generator=torch.Generator().manual_seed(2)).round()
    return network.plausible(rows)


def test_all_networks_share_act_evaluate_and_value_methods(network):
    obs, memory = observations(network), torch.zeros(ROWS, network.memory_size)
    actions, log_prob, after = network.step(obs, memory, generator=torch.Generator().manual_seed(3))
    assert (actions.shape, after.shape) == ((ROWS, network.action_size), (ROWS, network.memory_size))
    seen = obs
    if network.memory_size:
        fresh = torch.ones(1, ROWS, dtype=torch.bool)
        seen = Sequences(obs.unsqueeze(0), memory, fresh, torch.arange(ROWS))
    else:
        acted, _ = network.act(obs, generator=torch.Generator().manual_seed(3))
        assert torch.equal(acted, actions)
    evaluated, entropy = network.evaluate(seen, actions)
    torch.testing.assert_close(evaluated, log_prob, atol=1e-5, rtol=0)
    assert entropy.shape == network.value(seen).shape == (ROWS,)


class Doubled(ActorCritic):
    """A third-party network whose values are twice those of the common one."""

    @property
    def shape(self):
        return super().shape | {"family": "doubled"}

    @classmethod
    def from_shape(cls, shape, *, seed=0):
        return super().from_shape({key: value for key, value in shape.items() if key != "family"}, seed=seed)

    def value(self, obs):
        return 2.0 * super().value(obs)


FAMILY = NetworkFamily(
    "doubled",
    Doubled.from_shape,
    lambda contract, config: shape_for(contract | {"id": "other"}, config) | {"family": "doubled"},
    lambda shape: networks.load(networks.PLAIN).sizes(shape),
)


def test_game_record_names_network_family(monkeypatch):
    game = Game("g", "x", "a game", 2, (), "", network=f"{__name__}:FAMILY")
    monkeypatch.setattr(networks, "games", lambda: (game,))
    monkeypatch.setattr(networks, "game_of", {"x": game}.get)
    shape = shape_for(PLAIN, NetworkConfig(**SMALL))
    network = build_network(shape, seed=1)
    check_shape(shape)
    check_weights(shape, network.state_dict())
    common = build_network({key: value for key, value in shape.items() if key != "family"}, seed=1)
    obs = torch.rand(3, 5)
    assert torch.equal(network.value(obs), 2.0 * common.value(obs))
    assert network.shape == shape
    with pytest.raises(ContentError, match=r"^family='orders': must be 'doubled'"):
        check_shape(shape | {"family": "orders"})
    with pytest.raises(ContentError, match=r"^memory: not a key of this network family"):
        check_shape(shape | {"memory": "gru"})
