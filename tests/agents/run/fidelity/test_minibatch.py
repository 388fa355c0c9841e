"""The fixed minibatch: it repeats, it follows the weights, and it leaves network and generators as they were."""

from contextlib import nullcontext

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.order_network import OrderNetwork
from sparring.agents.ppo.start import actor_critic_sha256
from sparring.configs.schema import NetworkConfig

SMALL = NetworkConfig(hidden=8, blocks=1)
NETWORKS = {
    "continuous and binary": lambda seed: ActorCritic(5, 2, 1, SMALL, seed=seed),
    "a choice": lambda seed: ActorCritic(5, 0, 0, SMALL, categorical=4, seed=seed),
    "orders": lambda seed: OrderNetwork(SMALL, seed=seed),
}


def actor_critic(network):
    return actor_critic_sha256(network, nullcontext())


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_repeats_and_notices_the_last_bit_of_a_weight(kind):
    network = NETWORKS[kind](0)
    before = actor_critic(network)
    assert actor_critic(network) == before == actor_critic(NETWORKS[kind](0))
    with torch.no_grad():
        head = network.critic.head if kind == "orders" else network.critic[-1]
        head.weight.copy_(torch.nextafter(head.weight, torch.ones_like(head.weight)))
    assert actor_critic(network) != before


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_leaves_gradients_and_generators_alone(kind):
    network = NETWORKS[kind](0)
    for number, parameter in enumerate(network.parameters()):
        parameter.grad = torch.full_like(parameter, number)
    state = torch.get_rng_state()
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    actor_critic(network)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert all(bool((parameter.grad == number).all()) for number, parameter in enumerate(network.parameters()))


def test_a_language_model_too_with_its_dropout_off_and_its_mode_kept():
    pytest.importorskip("transformers")
    from sparring.agents.llm.models.adapters import Adapters
    from sparring.agents.llm.models.fixed_minibatch import language_model_sha256
    from sparring.agents.llm.models.lora import LoraShape
    from tests.agents.llm.toys import llama, word_tokenizer

    model = llama(word_tokenizer())
    model.config.attention_dropout = 0.5
    model.train()
    state = torch.get_rng_state()
    before = language_model_sha256(model, model.parameters())
    assert language_model_sha256(model, model.parameters()) == before
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())
    adapters = Adapters(llama(word_tokenizer()), LoraShape(2, 4.0))
    found = [language_model_sha256(adapters.model, adapters.parameters().values()) for _ in range(2)]
    assert found[0] == found[1] != before
