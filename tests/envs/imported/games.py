"""Small games that exercise PettingZoo's pitfalls, played by random legal actions; not a test."""

import functools
import itertools
from collections import namedtuple

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from pettingzoo import AECEnv, ParallelEnv

from sparring.envs.imported.stepping import SEEDS

Move = namedtuple("Move", "turn observed actions rewards terminated truncated final")
COUNTER = itertools.count()


def seed_of(seed, match, episode):
    block, place = divmod(episode, SEEDS)
    return int(np.random.SeedSequence((seed, match, block)).generate_state(SEEDS)[place] >> 1)


class Fading(ParallelEnv):
    """Runners k = 0, 1, 2 end after 2 + k moves, the last by truncation; the boss has another role and stays."""

    metadata = {"name": "fading"}  # noqa: RUF012
    possible_agents = ["runner_0", "runner_1", "runner_2", "boss"]  # noqa: RUF012

    def observation_space(self, agent):
        return self._spaces(agent)[0]

    def action_space(self, agent):
        return self._spaces(agent)[1]

    @functools.cache  # noqa: B019
    def _spaces(self, agent):
        if agent == "boss":
            return Box(-9, 9, (2,), np.float32), Discrete(2, start=1)
        return Dict({"place": Box(-9, 9, (3,), np.float64), "kind": Discrete(4)}), Discrete(3)

    def _observations(self):
        noise = float(self._random.random())
        shown = {}
        for agent in self.agents:
            one = {"place": np.array([noise, self._move, self._last.get(agent, -1)]), "kind": np.int64(self._move % 4)}
            shown[agent] = one if agent != "boss" else np.array([noise, self._move], np.float32)
        return shown

    def reset(self, seed=None, options=None):
        self.agents, self._move, self._last = self.possible_agents[:], 0, {}
        self._random = np.random.default_rng(seed)
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        assert 1 <= actions["boss"] <= 2
        self._move, self._last = self._move + 1, actions
        ends = {agent: agent == f"runner_{self._move - 2}" for agent in self.agents}
        ends["boss"] = self._move == 4
        shown = self._observations()
        rewards = {agent: 0.1 * action + 0.01 * self._move for agent, action in actions.items()}
        terminated = {agent: end and agent != "runner_2" for agent, end in ends.items()}
        truncated = {agent: end and agent == "runner_2" for agent, end in ends.items()}
        self.agents = [agent for agent in self.agents if not ends[agent]]
        return shown, rewards, terminated, truncated, {agent: {} for agent in shown}


class Shuffled(AECEnv):
    """Three players in a seeded order end at their third turn, truncated or not; all get rewards."""

    metadata = {"name": "shuffled"}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.possible_agents = ["a_0", "a_1", "b"]
        self.observation_spaces = dict.fromkeys(self.possible_agents, Box(-9, 99, (4,), np.float32))
        self.action_spaces = {"a_0": MultiDiscrete([3, 2]), "a_1": MultiDiscrete([3, 2]), "b": Discrete(4)}

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self._random = np.random.default_rng(seed)
        self.agents, self._turns, self._seen = self.possible_agents[:], dict.fromkeys(self.possible_agents, 0), 0.0
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}
        self._draw()

    def _draw(self):
        self.agent_selection = str(self._random.choice(self.agents))
        legal = np.array([1, 1, 0, 1, self._random.integers(2)] if self.agent_selection != "b" else [0, 1, 1, 1])
        self.infos[self.agent_selection] = {"action_mask": legal.astype(np.int8)}

    def observe(self, agent):
        turns = self._turns.get(agent, 0)
        return np.array([self.possible_agents.index(agent), turns, self._seen, len(self.agents)], np.float32)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            self.rewards = dict.fromkeys(self.agents, 0.25)
            self._accumulate_rewards()
            return
        self._cumulative_rewards[agent] = 0
        self._turns[agent] += 1
        self._seen = float(np.sum(action))
        for k, other in enumerate(self.agents):
            self.rewards[other] = self._seen * (k + 1) - (other == agent)
        self._accumulate_rewards()
        if self._turns[agent] == 3:
            (self.truncations if agent == "a_1" else self.terminations)[agent] = True
            live = [one for one in self.agents if one != agent]
            self.agent_selection = live[0] if live else agent
            self.infos[self.agent_selection] = {"action_mask": np.ones(4 if self.agent_selection == "b" else 5)}
            self._deads_step_first()
        else:
            self._draw()


class Faulty(Fading):
    """Break one rule at the second move."""

    def __init__(self, fault="", at=1):
        self._fault, self._at = fault, at

    def observation_space(self, agent):
        space = super().observation_space(agent)
        if not self._fault.startswith("mask"):
            return space
        return Dict({"observation": space, "action_mask": Box(0, 1, (self.action_space(agent).n,), np.int8)})

    def _observations(self):
        shown = super()._observations()
        now, fault = self._move == self._at, self._fault
        if fault.startswith("mask"):
            shown = {agent: {"observation": obs, "action_mask": np.ones(3)} for agent, obs in shown.items()}
            if "boss" in shown:
                shown["boss"]["action_mask"] = np.ones(2)
        if fault == "unrepeatable":
            shown["boss"][0] = next(COUNTER) % 10
        if now and fault == "nan":
            shown["boss"][1] = np.nan
        if now and fault == "missing":
            del shown["boss"]
        if now and fault == "shape":
            shown["boss"] = np.zeros(3, np.float32)
        if now and fault.startswith("mask"):
            masks = {"mask_length": np.ones(4), "mask_empty": np.zeros(3), "mask_values": np.full(3, 0.5)}
            shown["runner_1"]["action_mask"] = masks.get(fault)
            if fault == "mask_none":
                del shown["runner_1"]["action_mask"]
        return shown

    def step(self, actions):
        values = super().step(actions)
        if self._move == self._at:
            if self._fault == "raise":
                raise KeyError("lost\nkeys")
            if self._fault == "reward":
                values[1]["boss"] = float("inf")
            if self._fault == "vanish":
                self.agents = []
            if self._fault == "stranger":
                self.agents.append("stranger")
            if self._fault == "values":
                return values[:4]
        return values


class Empty(Fading):
    """A match that ends immediately."""

    def reset(self, seed=None, options=None):
        values = super().reset(seed, options)
        self.agents = []
        return values


class Two(Fading):
    """Players whose spaces cannot share a network."""

    def __init__(self, observed=None, acted=None):
        self._observed, self._acted = observed, acted

    def observation_space(self, agent):
        pictures = {"two": Dict({k: Box(0, 255, (20, 20, 3), np.uint8) for k in "ab"}), "text": None}
        one = Box(0, 255, (20 if agent == "boss" else 24, 20, 3), np.uint8)
        return {"two": pictures["two"], "roles": one, "none": Dict({})}.get(self._observed, Box(0, 1, (2,)))

    def action_space(self, agent):
        return Box(-1, 1, (2,)) if self._acted == "kinds" and agent == "boss" else Discrete(2)


def last_scores(totals):
    """Return scores with the last seat leading, regardless of rewards."""
    return np.arange(len(totals))


def bad_scores(totals):
    return [1.0]


def legal(match, rng):
    """Return random legal actions of the deciding seats, in their own spaces."""
    chosen = {}
    for seat in match.deciding():
        mask, space = match.mask(seat), match.action_spaces[seat]
        if isinstance(space, Discrete):
            allowed = np.arange(space.n) if mask is None else np.flatnonzero(mask)
            chosen[seat] = int(rng.choice(allowed)) + int(space.start)
        elif isinstance(space, MultiDiscrete):
            parts = np.split(
                np.ones(space.nvec.sum()) if mask is None else np.asarray(mask), np.cumsum(space.nvec)[:-1]
            )
            chosen[seat] = np.array([rng.choice(np.flatnonzero(part)) for part in parts])
        else:
            chosen[seat] = rng.uniform(-1, 1, space.shape).astype(np.float32)
    return chosen


def play(match, seed, rng=None):
    """Return the moves of one random legal match."""
    rng = rng or np.random.default_rng(seed)
    match.reset(seed)
    moves = []
    while not match.over:
        turn = list(match.deciding())
        observed = {
            seat: (np.copy(flat(match, seat)), None if (m := match.mask(seat)) is None else list(m)) for seat in turn
        }
        actions = legal(match, rng)
        before = match.truncated.copy()
        match.step(actions)
        final = {int(seat): np.copy(flat(match, seat)) for seat in np.flatnonzero(match.truncated & ~before)}
        ends = match.terminated.copy(), match.truncated.copy()
        moves.append(Move(turn, observed, actions, match.rewards.copy(), *ends, final))
    return moves


def flat(match, seat):
    """Return a seat's observation as numbers, by Gymnasium's flattening."""
    from gymnasium.spaces import flatten

    return flatten(match.observation_spaces[seat], match.observe(seat)).astype(np.float32)
