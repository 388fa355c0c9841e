"""A batch of matches of a small game, with the attributes of `envs.imported.batch.MatchBatch`.

S seats take turns, three alternatives each, of which one is forbidden in every round. Match i ends after 2 S + i % 3
moves; the seat with the largest sum of alternatives wins. A row shows how many moves were made, whose turn it is, and
the mask.
"""

from types import SimpleNamespace

import gymnasium
import torch

CONTRACT = {
    "id": "pettingzoo:toy",
    "version": 1,
    "obs_dim": 5,
    "continuous": 0,
    "binary": 0,
    "categorical": 3,
    "masked": True,
    "picture": [],
    "kwargs": {},
}


class ToyBatch:
    def __init__(self, num_envs, seats=2):
        self.num_envs, self.seats, self.action_size = num_envs, seats, 1
        self.contract = CONTRACT | {"roles": [0] * seats}
        self.lasts = 2 * seats + torch.arange(num_envs) % 3
        self.t, self.total = torch.zeros(num_envs, dtype=torch.int64), torch.zeros(num_envs, seats)
        self.length = torch.zeros(num_envs, dtype=torch.int64)
        self.outcome = torch.full((num_envs,), -1)
        self.obs = torch.zeros(num_envs, seats, 5)
        self.deciding = torch.zeros(num_envs, seats, dtype=torch.bool)
        self.history = [[] for _ in range(num_envs)]
        self._show()

    def _show(self):
        self.deciding[:] = torch.arange(self.seats) == (self.t % self.seats).unsqueeze(1)
        self.obs[..., 0], self.obs[..., 1] = self.t.unsqueeze(1), torch.arange(self.seats)
        self.obs[..., 2:] = (torch.arange(3) != (self.t // self.seats % 3).unsqueeze(1)).unsqueeze(1)

    def restart(self, mask):
        self.t[mask], self.total[mask] = 0, 0.0
        self._show()

    def step(self, actions):
        chosen = actions[..., 0] * self.deciding
        assert not self.obs[..., 2:].gather(-1, actions.long())[self.deciding].eq(0).any(), "illegal"
        self.reward = chosen
        self.total += chosen
        self.t += 1
        for match in range(self.num_envs):
            self.history[match].append(float(chosen[match].sum()))
        ended = self.t >= self.lasts
        lead = (self.total == self.total.max(1, keepdim=True).values).long()
        bits = (lead << torch.arange(self.seats)).sum(1) * (lead.sum(1) < self.seats)
        self.outcome, self.length = torch.where(ended, bits, -1), torch.where(ended, self.t, 0)
        self.restart(ended)

    def match(self, i):
        return SimpleNamespace(
            action_spaces=[gymnasium.spaces.Discrete(3)] * self.seats, mask=self.obs[i, 0, 2:].bool().numpy()
        )
