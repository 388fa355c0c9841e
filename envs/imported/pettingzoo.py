"""Matches of PettingZoo's games: its AEC interface, whose agents act in turn, and its parallel one.

In the AEC interface `rewards` holds what each agent got in the last step, and `last()` pays an agent the sum since
its last turn. Here the reader of `ImportedMatch.rewards` sums them, and a game is refused if its `last()` pays another
sum. An agent that has ended takes one more step, None, which removes it; this is not counted as a move. Agents may end
at different times, and none returns.

A mask of legal actions is in the observation or in the infos, each under `action_mask` (`masks.py`). Infos need
not hold one from the start. Until a seat's first mask of a match all its actions are legal; from then on each of its
decisions needs one. A few random moves find out whether a game has masks at all.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper

from sparring.configs.core.errors import ConfigError, InputError, one_line
from sparring.envs.imported.config import FUNCTIONS
from sparring.envs.imported.masks import MASK, METHODS, alternatives_of, draw_legal, flat_mask, unread_masks
from sparring.envs.imported.match import ImportedMatch, raised_where
from sparring.envs.imported.names import module_of

CHECKS = (OrderEnforcingWrapper, AssertOutOfBoundsWrapper, TerminateIllegalWrapper)
"""Wrappers that do not change agents, rewards and ends; reading these from the game directly is faster."""
SAME_REWARD = 1e-6
"""Largest share by which sums of the same rewards differ."""
ROUNDS = 8
"""Moves of each seat, at most, that are played at random to see whether a game has masks."""


@dataclass(frozen=True)
class FirstLook:
    """Masks seen in the first moves of a game."""

    masked: bool
    """Whether any observation or info held a mask."""
    promised: frozenset[int]
    """Seats that had a mask in the infos of the first reset."""
    remarks: tuple[str, ...]


_looks: dict[tuple[Any, str], FirstLook] = {}
"""Cache of first looks by the game's factory function and options."""


def make(
    game_id: str, kwargs: dict[str, Any], render_mode: str | None = None, observation: str = "auto"
) -> ImportedMatch:
    """Create a match of "module" or "module:function", such as pettingzoo.classic.connect_four_v3.

    Raises `ConfigError` for anything but a game.
    """
    if observation != "auto":
        raise ConfigError(f"env.observation={observation}: PettingZoo's games have one observation; leave it out")
    options = kwargs | ({"render_mode": render_mode} if render_mode else {})
    make_env = _function(game_id)
    try:
        env = make_env(**options)
    except Exception as error:
        raise ConfigError(
            f"env.id={game_id}: cannot be made with {options or 'no options'}: {raised_where(error)}"
        ) from error
    if not isinstance(env, AECEnv | ParallelEnv):
        kind = type(env).__name__
        raise ConfigError(f"env.id={game_id}: makes a {kind}; name a function that returns an AECEnv or a ParallelEnv")
    key = (make_env, repr(options))
    try:
        match = (ParallelMatch if isinstance(env, ParallelEnv) else TurnMatch)(env, game_id, _looks.get(key))
        _looks[key] = match.first_look
        return match
    except InputError:
        raise
    except Exception as error:
        raise ConfigError(
            f"env.id={game_id}: does not begin: {raised_where(error)}; it needs observation_space(agent), "
            "action_space(agent) and reset(seed=None, options=None)"
        ) from error


def _function(game_id: str) -> Any:
    """Return the function that makes the game."""
    module_name, _, name = game_id.partition(":")
    module = module_of(game_id, module_name)
    names = (name,) if name else FUNCTIONS
    functions = [getattr(module, item, None) for item in names]
    function = next((item for item in functions if callable(item)), None)
    if function is None:
        kinds = [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]
        if games := [kind.__name__ for kind in kinds if issubclass(kind, AECEnv | ParallelEnv)]:
            hint = f", but {' and '.join(games)}; give env.id={module_name}:{games[-1]}"
        else:
            hint = "; name a module of a game, such as pettingzoo.classic.connect_four_v3, or module:function"
        missing = f"{module_name} does not define {' or '.join(names)}"
        raise ConfigError(f"env.id={game_id}: {missing}{hint}")
    return function


class AgentSeats(ABC):
    """Shared code of both interfaces: agents as seats, spaces without masks, ends and rewards by seat."""

    longest: int | None = None

    def __init__(self, env: Any, game_id: str, look: FirstLook | None = None) -> None:
        self.env, self._name, self.over = env, f"env.id={game_id}", False
        self._agents = list(getattr(env, "possible_agents", ()))
        if not self._agents:
            raise ConfigError(f"{self._name}: lists no possible_agents; a game must name its players before it begins")
        self.seats = tuple(map(str, self._agents))
        self._seat = {agent: seat for seat, agent in enumerate(self._agents)}
        observed = [env.observation_space(agent) for agent in self._agents]
        self.action_spaces: list[Space[Any]] = [env.action_space(agent) for agent in self._agents]
        self._sizes = list(map(alternatives_of, self.action_spaces))
        self._in_obs = [
            bool(sizes) and isinstance(space, Dict) and MASK in space.spaces
            for space, sizes in zip(observed, self._sizes, strict=True)
        ]
        self.observation_spaces: list[Space[Any]] = [
            Dict({name: inner for name, inner in space.spaces.items() if name != MASK}) if masked else space
            for space, masked in zip(observed, self._in_obs, strict=True)
        ]
        count = len(self._agents)
        self.rewards = np.zeros(count)
        self.terminated, self.truncated = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self._turn: list[int] = []
        self._needs_mask: set[int] = set()
        self.first_look = look or self._look()
        self.masked, self.remarks = self.first_look.masked, self.first_look.remarks

    def deciding(self) -> list[int]:
        """See `ImportedMatch.deciding`."""
        return self._turn

    def render(self) -> np.ndarray | str | None:
        """See `ImportedMatch.render`."""
        picture: np.ndarray | str | None = self.env.render()
        return picture

    def close(self) -> None:
        """Close the game."""
        self.env.close()

    def mask(self, seat: int) -> np.ndarray | None:
        """See `ImportedMatch.mask`."""
        sizes = self._sizes[seat]
        if not sizes:
            return None
        name, info = self.seats[seat], self._info(seat)
        informed = info.get(MASK) if isinstance(info, Mapping) else None
        holder, source = (self.observe(seat), "observation") if self._in_obs[seat] else (info, "info")
        if source == "info" and informed is None and seat not in self._needs_mask:
            return None
        if not isinstance(holder, Mapping) or MASK not in holder:
            raise InputError(
                f"{self._name}: {name} decides without a mask: its {source} lacks {MASK!r}, which was promised at the "
                "start or given before; give one to every decision of an agent that has masks"
            )
        mask = flat_mask(holder[MASK], sizes, name)
        if not self.masked:
            raise InputError(
                f"{self._name}: the info of {name} has its first {MASK!r} here, after {ROUNDS} rounds without masks; "
                "give masks from reset on"
            )
        if source == "info":
            self._needs_mask.add(seat)
        elif informed is not None and not np.array_equal(mask, flat_mask(informed, sizes, name)):
            raise InputError(f"{self._name}: {name} has two masks that differ, in its observation and in its info")
        return mask

    def _look(self) -> FirstLook:
        """Play a few random moves from a first reset; raise `ConfigError` for masks that cannot be read."""
        random, unread = np.random.default_rng(0), dict[str, str]()
        self._reset(0)
        seats, decisions = range(len(self.seats)), 0
        promised = frozenset(filter(self._has_info_mask, seats))
        self.masked = any(self._in_obs) or bool(promised)
        while not self.over and decisions < ROUNDS * len(seats):
            try:
                for seat in self._turn:
                    for source, value in (("observation", self.observe(seat)), ("info", self._info(seat))):
                        for key in unread_masks(value, self._sizes[seat]):
                            unread.setdefault(key, f"the {source} of {self.seats[seat]}")
                if any(self._in_obs) or not any(self._sizes):
                    break
                actions = {seat: draw_legal(self.action_spaces[seat], self.mask(seat), random) for seat in self._turn}
                decisions += len(actions)
                self.step(actions)
            except Exception:  # the real matches meet it too, and report where
                break
            self.masked = self.masked or any(map(self._has_info_mask, seats))
        return FirstLook(self.masked, promised, tuple(self._remarks(unread)))

    def _remarks(self, unread: Mapping[str, str]) -> Iterator[str]:
        """Yield a note on each mask that is not read, by key and location."""
        for key, owner in unread.items():
            if key.endswith(f".{MASK}"):
                raise ConfigError(f"{self._name}: {owner} has a mask inside, {key}; give it at the top, as {MASK!r}")
            yield (
                f"{self._name}: {owner} has {key!r}, which is not read as a mask, so illegal actions may be taken; "
                f"give {MASK!r} at the top of observations or infos, for Discrete or MultiDiscrete actions"
            )
        method = next((name for name in METHODS if callable(getattr(self.env, name, None))), "")
        if method and not self.masked:
            yield f"{self._name}: its method {method} is not read; give {MASK!r} in observations or infos"

    def _has_info_mask(self, seat: int) -> bool:
        info = self._info(seat)
        return bool(self._sizes[seat]) and isinstance(info, Mapping) and info.get(MASK) is not None

    @abstractmethod
    def _info(self, seat: int) -> Any:
        """Return the current info of a seat; None without one."""

    def reset(self, seed: int) -> None:
        """See `ImportedMatch.reset`."""
        self._needs_mask = set(self.first_look.promised)
        self._reset(seed)

    @abstractmethod
    def _reset(self, seed: int) -> None: ...

    @abstractmethod
    def step(self, actions: Mapping[int, Any]) -> None:
        """See `ImportedMatch.step`."""

    def _clear(self) -> None:
        self.rewards[:] = 0.0
        self.terminated[:] = False
        self.truncated[:] = False
        self.over = False

    @abstractmethod
    def observe(self, seat: int) -> Any:
        """See `ImportedMatch.observe`."""

    def _end(self, agent: Any, terminated: Any, truncated: Any) -> bool:
        """Set the end of an agent; return True for one that was only cut off, now."""
        seat = self._seat_of(agent)
        if self.terminated[seat] or self.truncated[seat]:
            return False
        self.terminated[seat] = bool(terminated)
        self.truncated[seat] = bool(truncated) and not terminated
        return bool(self.truncated[seat])

    def _finish(self) -> None:
        """Set the end of the match: agents that left without one have terminated."""
        self.over, self._turn = True, []
        self.terminated |= ~self.truncated

    def _seat_of(self, agent: Any) -> int:
        try:
            return self._seat[agent]
        except KeyError:
            raise InputError(
                f"{self._name}: agent {agent!r} is not among its possible_agents {', '.join(self.seats)}; name all "
                "players there"
            ) from None


class TurnMatch(AgentSeats):
    """A match by the AEC interface: one agent at a time."""

    def __init__(self, env: Any, game_id: str, look: FirstLook | None = None) -> None:
        self._game = env
        while type(self._game) in CHECKS:
            self._game = self._game.env
        self._obs: dict[int, Any] = {}
        self._due = [0.0] * len(getattr(env, "possible_agents", ()))
        """Rewards of each seat since its last turn, which `last()` must pay."""
        super().__init__(env, game_id, look)

    def _info(self, seat: int) -> Any:
        return self._game.infos.get(self._agents[seat])

    def _reset(self, seed: int) -> None:
        self._clear()
        self.env.reset(seed=seed)
        self._obs.clear()
        self._due = [0.0] * len(self.seats)
        self._read_ends()
        self._pass_dead()

    def observe(self, seat: int) -> Any:
        """See `ImportedMatch.observe`."""
        if seat not in self._obs:
            self._obs[seat] = self.env.observe(self._agents[seat])
        return self._obs[seat]

    def step(self, actions: Mapping[int, Any]) -> None:
        """See `ImportedMatch.step`."""
        self.rewards[:] = 0.0
        ((seat, action),) = actions.items()
        self._obs.clear()
        self._due[seat] = 0.0
        self.env.step(action)
        self._read_rewards()
        self._read_ends()
        self._pass_dead()

    def _read_rewards(self) -> None:
        for agent, reward in self._game.rewards.items():
            if reward:  # NaN too
                seat = self._seat_of(agent)
                self.rewards[seat] += reward
                self._due[seat] += reward

    def _check_paid(self, agent: Any) -> None:
        """Raise `InputError` if the agent to move gets a reward that differs from its sum, which training uses."""
        paid, due = self._game.last(observe=False)[1], self._due[self._seat_of(agent)]
        if abs(paid - due) > SAME_REWARD * max(1.0, abs(due)):
            raise InputError(
                f"{self._name}: last() pays {agent} {paid:g}, and its rewards since its last turn add up to {due:g}; "
                "in step, begin with self._cumulative_rewards[agent] = 0, put every reward into self.rewards, and end "
                "with self._accumulate_rewards()"
            )

    def _read_ends(self) -> None:
        """Read ends, and at once what agents that were cut off observe: their next step removes them."""
        truncations = self._game.truncations
        for agent, terminated in self._game.terminations.items():
            if (terminated or truncations[agent]) and self._end(agent, terminated, truncations[agent]):
                self._obs[self._seat[agent]] = copy.deepcopy(self.env.observe(agent))

    def _pass_dead(self) -> None:
        """Step agents that have ended out of the game, up to one that decides."""
        game = self._game
        while game.agents:
            agent = game.agent_selection
            self._check_paid(agent)
            if not (game.terminations[agent] or game.truncations[agent]):
                seat = self._seat_of(agent)
                if self.terminated[seat] or self.truncated[seat]:
                    raise InputError(f"{self._name}: {agent} acts after it ended; an agent must not return")
                self._turn = [seat]
                return
            count = len(game.agents)
            self.env.step(None)
            if len(game.agents) >= count:
                raise InputError(
                    f"{self._name}: {agent} has ended, and step(None) does not remove it; end its step with "
                    "_was_dead_step"
                )
            self._read_rewards()
            self._read_ends()
        self._finish()


class ParallelMatch(AgentSeats):
    """A match by the parallel interface: all live agents act at once."""

    def __init__(self, env: Any, game_id: str, look: FirstLook | None = None) -> None:
        self._obs: Mapping[Any, Any] = {}
        self._infos: Mapping[Any, Any] = {}
        super().__init__(env, game_id, look)

    def _info(self, seat: int) -> Any:
        return self._infos.get(self._agents[seat])

    def _reset(self, seed: int) -> None:
        self._clear()
        self._obs, self._infos = self._values("reset", 2, self.env.reset(seed=seed))
        self._read_turn()

    def observe(self, seat: int) -> Any:
        """See `ImportedMatch.observe`."""
        try:
            return self._obs[self._agents[seat]]
        except KeyError:
            raise InputError(
                f"{self._name}: gives no observation of {self.seats[seat]}, which acts or has just been cut off; "
                "return one of every such agent"
            ) from None

    def step(self, actions: Mapping[int, Any]) -> None:
        """See `ImportedMatch.step`."""
        agents = self._agents
        values = self._values("step", 5, self.env.step({agents[seat]: action for seat, action in actions.items()}))
        self._obs, rewards, terminated, truncated, self._infos = values
        self.rewards[:] = 0.0
        for agent, reward in rewards.items():
            try:
                self.rewards[self._seat_of(agent)] = reward
            except (TypeError, ValueError):
                text = one_line(repr(reward))
                raise InputError(f"{self._name}: the reward of {agent} is {text}; return a number") from None
        for agent in terminated.keys() | truncated.keys():
            ended, cut = terminated.get(agent, False), truncated.get(agent, False)
            if ended or cut:
                self._end(agent, ended, cut)
        self._read_turn()

    def _read_turn(self) -> None:
        ended = self.terminated | self.truncated
        self._turn = sorted(seat for seat in map(self._seat_of, self.env.agents) if not ended[seat])
        if not self._turn:
            self._finish()

    def _values(self, name: str, count: int, values: Any) -> Any:
        """Return the result of the game's `name`; raise `InputError` unless it is `count` mappings."""
        if not isinstance(values, tuple | list) or [isinstance(value, Mapping) for value in values] != [True] * count:
            raise InputError(
                f"{self._name}: its {name} does not fit PettingZoo's parallel interface; return {count} mappings of "
                "agents"
            )
        return values
