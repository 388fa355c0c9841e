"""Games with mask or reward pitfalls from public reports; not a test."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper, OrderEnforcingWrapper

MOVES = 12


class Masked(ParallelEnv):
    """Two players; where a mask says so, only the action `legal` is allowed; `kind` is the mask's format."""

    metadata = {"name": "masked_v0"}  # noqa: RUF012

    def __init__(self, kind="late", start=1, acts="discrete"):
        self.possible_agents, self._kind, self._start = ["a_0", "a_1"], kind, start
        self._acts = {"discrete": Discrete(3), "several": MultiDiscrete([2, 3]), "box": Box(-1, 1, (1,))}[acts]
        plain, mask = Box(0, 99, (2,), np.float32), Box(0, 1, (3,), np.int8)
        self._shown = {
            "nested": Dict({"state": Dict({"board": plain, "action_mask": mask})}),
            "legal_moves": Dict({"board": plain, "legal_moves": MultiBinary(3)}),
            "both": Dict({"observation": plain, "action_mask": mask}),
            "mixed": Dict({"observation": plain, "action_mask": mask}),
        }
        self._plain = plain
        self.illegal = 0

    def observation_space(self, agent):
        if self._kind == "mixed" and agent == "a_1":
            return self._plain
        return self._shown.get(self._kind, self._plain)

    def action_space(self, agent):
        return self._acts

    def legal(self):
        return self._move % 3

    def _mask(self):
        mask = np.zeros(3, np.int8)
        mask[self.legal()] = 1
        forms = {
            "column": mask[:, None],
            "floats": mask.astype(np.float64),
            "bools": mask.astype(bool),
            "list": mask.tolist(),
            "long": np.ones(4),
            "square": np.ones((2, 2)),
            "zeros": np.zeros(3),
            "logits": np.where(mask, 0.0, -np.inf),
            "text": "110",
            "parts": (np.int8([0, 1]), mask),
            "part_lists": [[0, 1], mask.tolist()],
            "joined": np.concatenate([[0, 1], mask]),
        }
        return forms.get(self._kind, mask)

    def _info(self, agent):
        late = self._move >= self._start
        if self._kind == "other_key":
            return {"valid_actions": self._mask()}
        if self._kind == "nested_info":
            return {"extra": {"action_mask": self._mask()}}
        if self._kind in ("nested", "legal_moves") or (self._kind == "mixed" and agent == "a_0"):
            return {}
        if self._kind == "one_agent" and agent == "a_1":
            return {}
        if self._kind == "gaps" and self._move % 2 == 0:
            return {}
        if self._kind == "both":
            return {"action_mask": 1 - self._mask()}
        return {"action_mask": self._mask()} if late else {}

    def _observations(self):
        plain = np.float32([self._move, 1])
        shown = {
            "nested": {"state": {"board": plain, "action_mask": self._mask()}},
            "legal_moves": {"board": plain, "legal_moves": self._mask()},
            "both": {"observation": plain, "action_mask": self._mask()},
            "mixed": {"observation": plain, "action_mask": self._mask()},
        }.get(self._kind, plain)
        return {agent: plain if self._kind == "mixed" and agent == "a_1" else shown for agent in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self._move = self.possible_agents[:], 0
        return self._observations(), {agent: self._info(agent) for agent in self.agents}

    def step(self, actions):
        for agent, action in actions.items():
            known = "action_mask" in self._info(agent) or self._kind in ("nested", "legal_moves", "other_key", "mixed")
            last = action[-1] if np.ndim(action) else action
            self.illegal += bool(known and last != self.legal())
        self._move += 1
        shown, infos = self._observations(), {agent: self._info(agent) for agent in self.agents}
        over = self._move == MOVES
        rewards, ends = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, over)
        if over:
            self.agents = []
        return shown, rewards, ends, dict.fromkeys(ends, False), infos


class MethodMasked(Masked):
    """Provide masks by a method only, as other trainers expect."""

    def _info(self, agent):
        return {}

    def action_masks(self):
        return self._mask()


def wrapped(**options):
    """Wrap the game."""
    return BaseParallelWrapper(Masked(**options))


class Turns(AECEnv):
    """Two players, six turns; every action is paid at once, and the last one in the lead gets 1 more at the end.

    `pay` says how `last()` pays it, and `masked` from which turn on infos have masks, by which action 1 is illegal.
    """

    metadata = {"name": "turns_v0"}  # noqa: RUF012

    def __init__(self, pay="right", masked=None):
        super().__init__()
        self.possible_agents, self._pay, self._masked = ["p_0", "p_1"], pay, masked
        self._spaces = Box(0, 9, (2,), np.float32), Discrete(2)

    def observation_space(self, agent):
        return self._spaces[0]

    def action_space(self, agent):
        return self._spaces[1]

    def observe(self, agent):
        return np.float32([self._turn, self.possible_agents.index(agent)])

    def reset(self, seed=None, options=None):
        self.agents, self._turn, self.agent_selection = self.possible_agents[:], 0, "p_0"
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}
        if self._pay == "reset":
            self._cumulative_rewards["p_0"] = 5.0

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            if self._pay == "after" and self.agents:
                self.rewards[self.agents[0]] = 2.0
            if self._pay == "removed" and len(self.agents) == 1:  # the other one has left
                self.rewards[agent] = 4.0
            return
        if self._pay != "kept":
            self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        other = self.possible_agents[1 - self.possible_agents.index(agent)]
        self.rewards[agent], self.rewards[other] = 1.0 + action, -0.5
        self._turn += 1
        if self._pay == "cycle":  # as in tianshou#900: written to the sum, and cleared
            self._cumulative_rewards[agent] += 1.0 + action
            self._clear_rewards()
        elif self._pay == "never":  # as in PettingZoo#1260: nothing is accumulated
            pass
        elif self._pay == "own":  # only that of the agent that acted
            self._cumulative_rewards[agent] += self.rewards[agent]
        else:
            self._accumulate_rewards()
        if self._pay == "twice":
            self._accumulate_rewards()
        if self._turn == 6:
            self.terminations = dict.fromkeys(self.agents, True)
            if self._pay == "left":  # all leave at once, and no last() pays the last step
                self.agents = []
            if self._pay == "overwritten":
                self._cumulative_rewards = dict.fromkeys(self.agents, 9.0)
        if self._masked is not None and self._turn >= self._masked:
            self.infos = {one: {"action_mask": np.int8([1, one == "p_0"])} for one in self.agents}
        self.agent_selection = other


def ordered(**options):
    """Wrap the game with PettingZoo's wrapper."""
    return OrderEnforcingWrapper(Turns(**options))
