"""A fixed minibatch for the actor-critic: every kind of operation of a PPO update, on made-up observations."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.run.fidelity import minibatch_sha256

ROWS = 128
"""Rows of the minibatch: enough that the sums over it are split as in training; milliseconds."""


def actor_critic_sha256(network: ActorCritic, context: AbstractContextManager[object]) -> str:
    """Return the hash of the loss and gradients of `network`, whose forward passes run in `context` (autocast)."""

    def loss(generator: torch.Generator) -> torch.Tensor:
        device = network.log_std.device
        # Features in {0, 1}, as in one-hot observations, times noise, as in physical ones.
        obs = torch.randn(ROWS, network.obs_dim, generator=generator)
        obs = (obs * torch.randint(2, obs.shape, generator=generator)).to(device)
        advantage = torch.randn(ROWS, generator=generator).to(device)
        with context:
            actions, _ = network.act(obs, deterministic=True)
            log_prob, entropy = network.evaluate(obs, actions)
            value = network.value(obs)
        policy = -(log_prob * advantage).mean() - entropy.mean()
        return policy + (value - advantage).square().mean()

    return minibatch_sha256(loss, network.parameters())
