"""A custom PettingZoo game, valid or with one fault, as a user might write it.

Two players choose a card in each of three rounds; the larger one takes a point. A card is played once, and the mask
says which are left.
"""

import random
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import ParallelEnv

CARDS = 4
SHARED = dict.fromkeys(["player_0", "player_1"], Discrete(CARDS))


class Duel(ParallelEnv):
    metadata: ClassVar = {"name": "duel_v0", "render_modes": ["ansi"]}

    def __init__(self, fault="", rounds=3, render_mode=None):
        self.fault, self.rounds, self.render_mode = fault, rounds, render_mode
        self.possible_agents = ["player_0", "player_1"]
        inside = {"observation": Box(-1, 1, (2 * CARDS + 1,), np.float32), "action_mask": Box(0, 1, (CARDS,), np.int8)}
        self.observation_spaces = dict.fromkeys(self.possible_agents, Dict(inside))
        self.action_spaces = SHARED if fault == "shared" else dict.fromkeys(self.possible_agents, Discrete(CARDS))

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.left = np.ones((2, CARDS), dtype=np.int8)
        self.round = 0
        self.luck = (random if self.fault == "seed" else random.Random(seed)).random()
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        cards = [int(actions[agent]) for agent in self.possible_agents]
        for seat, card in enumerate(cards):
            if not self.left[seat, card] or (self.fault == "mask" and card == CARDS - 1):
                raise ValueError(f"card {card} is played already")
            self.left[seat, card] = 0
        self.round += 1
        ahead = float(np.sign(cards[0] - cards[1]))
        rewards = [ahead, -ahead]
        if self.fault == "seats":
            rewards = [1.0, -1.0]
        if self.fault == "scale":
            rewards = [500 * one for one in rewards]
        if self.fault == "sum":
            rewards = [max(one, 0.0) for one in rewards]
        if self.fault == "team":
            rewards = [float(cards[0] == cards[1])] * 2
        over = self.round == self.rounds
        seen = self._seen()
        named = dict(zip(self.possible_agents, rewards, strict=True))
        ends, cuts = dict.fromkeys(self.possible_agents, over), dict.fromkeys(self.possible_agents, False)
        self.agents = [] if over else self.agents
        return seen, named, ends, cuts, {agent: {} for agent in self.possible_agents}

    def render(self):
        return f"round {self.round}: {self.left.tolist()}"

    def _seen(self):
        rows = [np.r_[self.left[seat], self.left[1 - seat], self.luck].astype(np.float32) for seat in range(2)]
        if self.fault == "outside":
            rows = [2 * row for row in rows]
        if self.fault.startswith("blank"):
            rows = [np.full_like(row, float(self.fault == "blank_seats") * seat) for seat, row in enumerate(rows)]
        if self.fault == "one_blind":
            rows[1] = np.zeros_like(rows[1])
        shown = zip(self.possible_agents, rows, self.left, strict=True)
        return {agent: {"observation": row, "action_mask": mask.copy()} for agent, row, mask in shown}


def parallel_env(**options):
    return Duel(**options)


class Highest:
    """Play the largest remaining card."""

    def act(self, obs, mask):
        return np.where(mask, np.arange(CARDS), -1).argmax(1)


class FirstLeft:
    """Play the smallest remaining card, with access to the match."""

    def choose(self, match, seat):
        return int(np.flatnonzero(match.mask(seat))[0])
