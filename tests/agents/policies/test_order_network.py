"""The order network with units in turn: what a unit knows, and that both ways of computing it agree."""

import pytest
import torch

from sparring.agents.policies.order_network import (
    ENTERS,
    ENTRY_HELPED,
    LEAVES,
    STAY_HELPED,
    STAYS,
    OrderNetwork,
    events_of,
    order_weight_sizes,
)
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import SIDES

UNITS = 3
"""Of Austria, and of all powers but Russia, in the opening."""


@pytest.fixture(scope="module")
def obs():
    state = {name: values.repeat(7, *[1] * (values.dim() - 1)) for name, values in opening().items()}
    return observe(state, torch.arange(7), last_year=1910).flatten(1)


def network(**options):
    made = OrderNetwork(NetworkConfig(hidden=8, blocks=1, **options), seed=1)
    with torch.no_grad():  # so that what a unit is told matters from the start
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())))
    return made


@pytest.mark.parametrize("deterministic", [True, False])
def test_orders_drawn_in_turn_have_the_probability_that_is_computed_at_once(obs, deterministic):
    policy = network(in_turn=True)
    choices, log_prob = policy.act(obs, deterministic=deterministic, generator=torch.Generator().manual_seed(0))
    again, entropy = policy.evaluate(obs, choices)
    assert torch.allclose(log_prob, again, atol=1e-5)
    assert (entropy > 0).all()


def test_a_unit_sees_the_orders_before_its_own_and_no_others(obs):
    policy = network(in_turn=True)
    choices = policy.act(obs, deterministic=True)[0].long()
    before, _ = policy.log_probs(obs, choices)
    legal = before[0, 1] > -1e8
    other = next(choice for choice in range(len(legal)) if legal[choice] and choice != choices[0, 1])
    changed = choices.clone()
    changed[0, 1] = other
    after, _ = policy.log_probs(obs, changed)
    same = (before == after).all(-1)
    assert same[1:].all()
    assert same[0, :2].all()
    assert not same[0, 2]
    apart, _ = network().log_probs(obs, choices)
    assert torch.equal(apart, network().log_probs(obs, changed)[0])


def test_the_events_of_orders():
    """Units in 2 and 5: a move 2 - 7 with the support of 5, then two that stay, one in support of the other."""
    places = torch.tensor([[2, 5], [2, 5]])
    targets = torch.zeros(2, 2, 2 * SIDES, dtype=torch.long)
    targets[0, 0, 3], targets[0, 1, SIDES + 4], targets[1, 1, SIDES + 1] = 7, 7, 2
    choices = torch.tensor([[1 + 3, 1 + 2 * SIDES + 4], [0, 1 + SIDES + 1]])
    events = events_of(choices, places, targets, torch.ones(2, 2, dtype=torch.bool))
    expected = torch.zeros_like(events)
    for game, unit, province, event in (
        *((0, 0, 7, ENTERS), (0, 0, 2, LEAVES), (0, 1, 7, ENTRY_HELPED), (0, 1, 5, STAYS)),
        *((1, 0, 2, STAYS), (1, 1, 2, STAY_HELPED), (1, 1, 5, STAYS)),
    ):
        expected[game, unit, province, event] = 1
    assert torch.equal(events, expected)
    assert not events_of(choices, places, targets, torch.zeros(2, 2, dtype=torch.bool)).any()


def test_weights_of_a_network_without_turns_are_what_they_were(obs):
    plain, turning = (OrderNetwork(NetworkConfig(hidden=8, blocks=2, in_turn=on), seed=3) for on in (False, True))
    assert all(torch.equal(turning.state_dict()[name], weight) for name, weight in plain.state_dict().items())
    assert "in_turn" not in plain.shape
    assert turning.shape["in_turn"] is True
    sizes = {name: tuple(weight.shape) for name, weight in turning.state_dict().items()}
    assert dict(order_weight_sizes(8, 2, in_turn=True)) == sizes
