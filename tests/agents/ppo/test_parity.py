"""One complete update against a plain implementation that shares no code with it."""

import numpy as np
import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.agents.ppo.losses import Samples
from sparring.configs.schema import NetworkConfig, PPOConfig
from tests.agents.ppo import plain_ppo

TOTAL, EPOCHS, MINIBATCH = 192, 3, 64


def network():
    net = ActorCritic(6, 2, 1, NetworkConfig(hidden=32, log_std_min=-1.01, log_std_max=2.0), seed=4)
    with torch.no_grad():
        net.actor[-1].weight.mul_(50.0)  # so that no probability is near 1/2
    return net


def some_samples(net):
    """Return samples of a slightly different policy, so some ratios are clipped from the start."""
    generator = torch.Generator().manual_seed(7)
    obs = torch.randn(TOTAL, 6, generator=generator)
    actions, log_prob = net.act(obs, generator=generator)
    log_prob += 0.3 * torch.randn(TOTAL, generator=generator)
    advantage, noise, drift = torch.randn(3, TOTAL, generator=generator)
    value = net.value(obs).detach() + 0.3 * drift
    return Samples(obs, actions, log_prob, value, advantage, value + noise)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value_clip", [0.0, 0.2])
def test_update_matches_plain_implementation(value_clip, threads):
    net = network()
    samples = some_samples(net)
    before = {name: weight.numpy().astype(np.float64) for name, weight in net.state_dict().items()}
    config = PPOConfig(
        epochs=EPOCHS, minibatch_size=MINIBATCH, value_clip=value_clip, target_kl=0.0, max_grad_norm=0.5, clip=0.2
    )
    learner = PPOLearner(net, config, Autocast("fp32", "cpu"), seed=11, threads=threads)
    metrics = learner.update(samples, number=0, learning_rate=3e-4, entropy_coefficient=0.01)
    learner.close()
    assert metrics["train/epochs_completed"] == EPOCHS
    assert metrics["train/grad_norm"] > config.max_grad_norm
    assert 0.1 < metrics["train/clip_fraction"] < 0.9

    shuffle = torch.Generator().manual_seed(11)
    orders = [torch.randperm(TOTAL, generator=shuffle).numpy() for _ in range(EPOCHS)]
    options = {"clip": 0.2, "entropy": 0.01, "value_clip": value_clip, "value_coefficient": 0.5, "max_grad_norm": 0.5}
    options |= {"minibatch_size": MINIBATCH, "learning_rate": 3e-4, "log_std": (-1.01, 2.0)}
    plain = {name: values.numpy().astype(np.float64) for name, values in samples._asdict().items()}
    after = plain_ppo.update({name: w.copy() for name, w in before.items()}, plain, orders, options)
    for name, weight in net.state_dict().items():
        assert np.abs(after[name] - before[name]).max() > 1e-4, name
        np.testing.assert_allclose(weight.numpy(), after[name], rtol=0, atol=1e-6, err_msg=name)
