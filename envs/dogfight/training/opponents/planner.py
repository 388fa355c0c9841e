"""A planner that uses its opponent's frozen policy and the start state to search for a winning match.

For every start it samples K matches in a copy of the simulator, all starts and samples in one batch. One side samples
its actions from the opponent's policy with its exploration noise. The other side is the opponent as it will play. The
best of the K is kept: a win before a draw before a loss, then by hp. Its actions are replayed open loop in the real
match. The simulator is deterministic, so the plan works against a deterministic policy. It is fragile: if the opponent
samples actions or a style, or its actions are perturbed, it soon flies elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sparring.agents.opponents.duelists import PythonPolicy
from sparring.agents.play.duel_matches import LOOK_EVERY, Contestant
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.envs.batched import ACTIONS
from sparring.envs.dogfight.training.matches import MatchSettings

_HP_BELOW = 100.0
"""Larger than the hp of any match: the result takes precedence over hp."""
_SAMPLER, _TARGET = 0, 1
_SEEDS = 1 << 32
"""First seed of the rollouts, outside the range of real matches: the plan does not know their random numbers."""


class PlannerPlayer(PythonPolicy):
    """Player `planner:k=K`; `against` gives the policy that plays one batch of matches."""

    def __init__(self, samples: int, *, name: str, device: str | torch.device = "cpu") -> None:
        self.samples = samples
        super().__init__(PlannedActions(torch.zeros(1, 1, 3)), name=name, device=device)

    def against(
        self, opponent: Contestant, *, games: int, seed: int, setting: MatchSettings, left: bool = True
    ) -> Policy:
        """Plan the `games` matches that `duel_matches.play` plays from `seed`, as its left or right contestant.

        Raises `PolicyError` for an opponent without a network: the planner needs its weights.
        """
        if not isinstance(opponent, Policy) or not opponent.learned:
            name = opponent.name if isinstance(opponent, Policy) else opponent
            raise PolicyError(
                f"{self.name} plans against the weights of a checkpoint, but {name} is not one; name a policy"
            )
        actions = plan(opponent, samples=self.samples, games=games, seed=seed, setting=setting, left=left)
        return PythonPolicy(PlannedActions(actions), name=self.name, device=actions.device)


class PlannedActions:
    """Actions [T, N, 3] of N matches, played in order; the last is repeated."""

    def __init__(self, actions: Tensor) -> None:
        self.actions, self._step = actions, 0

    def reseed(self, seed: int) -> None:
        """Begin again."""
        self._step = 0

    def act(self, obs: Tensor) -> Tensor:
        """Return the next actions [N, 3] and ignore the observations."""
        step = min(self._step, len(self.actions) - 1)
        self._step += 1
        return self.actions[step]


class DisturbedActions:
    """A policy with Gaussian noise of standard deviation `noise` on turn and throttle in every decision."""

    def __init__(self, policy: Policy, noise: float) -> None:
        self.policy, self.noise = policy, noise
        self._generator = torch.Generator(policy.device)
        self._memory = torch.zeros(0)

    def reseed(self, seed: int) -> None:
        """Reset the noise, the policy's random numbers and its memory."""
        self._generator.manual_seed(seed)
        self.policy.reseed(seed)
        self._memory = torch.zeros(0)

    def act(self, obs: Tensor) -> Tensor:
        """Return noisy actions [N, 3] for N matches that started together; the simulator clamps them."""
        if not len(self._memory):
            self._memory = obs.new_zeros(len(obs), self.policy.memory_size)
        actions, self._memory = self.policy.step(obs, self._memory)
        actions = actions.clone()
        shape = (len(actions), 2)
        actions[:, :2] += self.noise * torch.randn(shape, generator=self._generator, device=actions.device)
        return actions


def plan(target: Policy, *, samples: int, games: int, seed: int, setting: MatchSettings, left: bool = True) -> Tensor:
    """Return the actions [T, games, 3] of the best of `samples` rollouts of each match against `target`."""
    batch = replace(setting, trace=0).batch(games * samples)
    try:
        match = torch.arange(games, device=batch.device).repeat(samples)  # row c * games + g
        seat = (match >= games // 2).long() if left else (match < games // 2).long()
        row = torch.arange(len(match), device=batch.device)
        learner, opponent = 2 * row + seat, 2 * row + 1 - seat
        batch.bots.fill_(ACTIONS)
        batch.match_id.copy_(match % (games // 2))
        batch.reset(seed)
        sampler = target.sampling()
        for index, policy in ((_SAMPLER, sampler), (_TARGET, target)):
            policy.check(batch.contract)
            policy.reseed(_SEEDS + 2 * seed + index)
        memories = [row.new_zeros(len(row), policy.memory_size, dtype=torch.float32) for policy in (sampler, target)]
        score = torch.full((len(match),), float("nan"), device=batch.device)
        flown = []
        for step in range(-(-setting.max_ticks // setting.action_repeat)):
            obs, actions = batch.obs.flatten(0, 1), torch.zeros(2 * len(match), 3, device=batch.device)
            actions[learner], memories[_SAMPLER] = sampler.step(obs[learner], memories[_SAMPLER])
            actions[opponent], memories[_TARGET] = target.step(obs[opponent], memories[_TARGET])
            flown.append(actions[learner])
            batch.step(actions.view(-1, 2, 3))
            score = torch.where(
                score.isnan() & (batch.outcome >= 0), _score(batch.outcome, batch.final_hp, seat), score
            )
            if step % LOOK_EVERY == 0 and not bool(score.isnan().any()):
                break
        best = score.view(samples, games).argmax(dim=0)
        chosen = best * games + torch.arange(games, device=batch.device)
        return torch.stack([actions[chosen] for actions in flown])
    finally:
        batch.close()


def _score(outcome: Tensor, hp: Tensor, seat: Tensor) -> Tensor:
    """Return the score [N] of matches that ended: outcome 0 is a draw, 1 a win of seat 0, 2 of seat 1."""
    result = torch.where(outcome == 0, 0.0, torch.where(outcome - 1 == seat, 1.0, -1.0))
    margins = hp.float().gather(1, torch.stack([seat, 1 - seat], dim=1))
    return _HP_BELOW * result + margins[:, 0] - margins[:, 1]
