"""PPO in the manner of well-known single-file implementations: the reference for the trainer's speed.

Plain PyTorch, written for this comparison: `torch.distributions`, actor and critic evaluated in every step, a Python
loop for the advantages, one joint loss for every minibatch. It plays the same matches through the same environment.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal

from sparring.agents.ppo.tasks.task import TrainingEnv
from sparring.configs.schema import PPOConfig


class Agent(nn.Module):
    """Two layers each for policy and value, Gaussian turn and throttle, Bernoulli shoot."""

    def __init__(self, obs_dim: int, hidden: int) -> None:
        super().__init__()
        trunk = lambda out: nn.Sequential(  # noqa: E731
            nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out)
        )
        self.actor, self.critic = trunk(3), trunk(1)
        self.log_std = nn.Parameter(torch.full((2,), -1.0))

    def forward(self, obs: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return action [B, 3], its log-probability [B], entropy [B] and value [B] for observations [B, D]."""
        output = self.actor(obs)
        steering, trigger = Normal(output[:, :2], self.log_std.exp()), Bernoulli(logits=output[:, 2:])
        if action is None:
            action = torch.cat([steering.sample(), trigger.sample()], dim=1)
        log_prob = steering.log_prob(action[:, :2]).sum(1) + trigger.log_prob(action[:, 2:]).sum(1)
        return action, log_prob, steering.entropy().sum(1) + trigger.entropy().sum(1), self.critic(obs)[:, 0]


class PlainTrainer:
    """The training loop: `update` plays T steps of N matches and learns from them; returns the seconds of each part."""

    def __init__(self, env: TrainingEnv, config: PPOConfig, hidden: int) -> None:
        self.env, self.config = env, config
        self.agent = Agent(env.obs.shape[1], hidden)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=config.learning_rate, eps=1e-5)

    def update(self) -> tuple[float, float, float]:
        """Do one update; return the seconds of simulating, acting and learning."""
        self.env.simulator_seconds = 0.0
        started = time.perf_counter()
        batch = self._collect()
        collected = time.perf_counter()
        self._learn(*batch)
        simulating = self.env.simulator_seconds
        return simulating, collected - started - simulating, time.perf_counter() - collected

    @torch.no_grad()
    def _collect(self) -> tuple[Tensor, ...]:
        T, obs = self.config.rollout_steps, self.env.obs
        rows: list[tuple[Tensor, ...]] = []
        for _ in range(T):
            seen = obs.clone()
            action, log_prob, _, value = self.agent(seen)
            obs, reward, terminated, truncated = self.env.step(action)
            rows.append((seen, action, log_prob, value, reward.clone(), (terminated | truncated).float()))
        seen, action, log_prob, value, reward, done = (torch.stack(column) for column in zip(*rows, strict=True))
        advantage, last = torch.zeros_like(reward), torch.zeros_like(reward[0])
        following = self.agent(obs)[3]
        for t in reversed(range(T)):
            delta = reward[t] + self.config.gamma * following * (1 - done[t]) - value[t]
            last = delta + self.config.gamma * self.config.gae_lambda * (1 - done[t]) * last
            advantage[t], following = last, value[t]
        columns = (seen, action, log_prob, value, advantage, advantage + value)
        return tuple(column.flatten(0, 1) for column in columns)

    def _learn(self, obs: Tensor, action: Tensor, old: Tensor, value: Tensor, adv: Tensor, returns: Tensor) -> None:
        config = self.config
        for _ in range(config.epochs):
            for index in torch.randperm(len(obs)).split(config.minibatch_size):
                _, log_prob, entropy, v = self.agent(obs[index], action[index])
                ratio = (log_prob - old[index]).exp()
                a = (adv[index] - adv[index].mean()) / (adv[index].std() + 1e-8)
                clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
                near = value[index] + (v - value[index]).clamp(-config.clip, config.clip)
                value_loss = torch.max((v - returns[index]) ** 2, (near - returns[index]) ** 2).mean()
                loss = -torch.min(ratio * a, clipped * a).mean() + config.value_coefficient * value_loss
                loss = loss - config.entropy_coefficient * entropy.mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), config.max_grad_norm)
                self.optimizer.step()
