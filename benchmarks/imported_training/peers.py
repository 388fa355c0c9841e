"""The peers of this measurement: Stable-Baselines3 and sb3-contrib on games of PettingZoo and OpenSpiel.

A turn-based game becomes one Gymnasium environment whose agent is the seat to move, as in PettingZoo's tutorial on
Stable-Baselines3. The policy plays itself, and a step is one move. A parallel game becomes one environment per seat
through SuperSuit, as in its tutorial. The networks have our layers, separately for actor and critic: two of `hidden`
units with ReLU. Our convolutions come before them or an LSTM cell after them where ours has these.

`play_by_hand` is the game alone: the same moves and observations with random legal actions, no learner and no wrapper.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

CONNECT_FOUR = "pettingzoo.classic.connect_four_v3"
SIMPLE_SPREAD = "mpe2.simple_spread_v3"
LEDUC = "leduc_poker"


@dataclass(frozen=True)
class TrainingSizes:
    """Sizes that all contestants share: `matches` at once, `steps` moves of each in an update, and learning options."""

    matches: int = 64
    steps: int = 64
    epochs: int = 4
    minibatch: int = 512
    hidden: int = 128
    learning_rate: float = 1e-3
    entropy: float = 0.03


class TurnBasedGame(gymnasium.Env):
    """A game of PettingZoo's AEC kind in which every step is the move of the agent whose turn it is."""

    def __init__(self, game: Any) -> None:
        self.game = game
        agent = self.game.possible_agents[0]
        self.observation_space = self.game.observation_space(agent)["observation"]
        self.action_space = self.game.action_space(agent)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a match."""
        super().reset(seed=seed)
        self.game.reset(seed=seed)
        return self.game.observe(self.game.agent_selection)["observation"], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a move; the result is for the next agent."""
        self.game.step(int(action))
        obs, reward, terminated, truncated, info = self.game.last()
        return obs["observation"], reward, terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """Return the legal actions of the agent whose turn it is."""
        mask: np.ndarray = self.game.observe(self.game.agent_selection)["action_mask"]
        return mask


def flat_connect_four() -> Any:
    """Return connect four with its board as a row of numbers, for which neither side has convolutions."""
    from pettingzoo.utils import BaseWrapper

    class FlatBoard(BaseWrapper):
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            self._spaces = {agent: _flat_space(env.observation_space(agent)) for agent in env.possible_agents}

        def observation_space(self, agent: str) -> gymnasium.Space:
            return self._spaces[agent]

        def observe(self, agent: str) -> Any:
            obs = super().observe(agent)
            return obs | {"observation": obs["observation"].ravel()}

    return FlatBoard(import_module(CONNECT_FOUR).env())


def _flat_space(space: Any) -> gymnasium.spaces.Dict:
    board = space["observation"]
    flat = Box(board.low.ravel(), board.high.ravel(), dtype=board.dtype)
    return gymnasium.spaces.Dict({"observation": flat, "action_mask": space["action_mask"]})


class SpielGame(gymnasium.Env):
    """A turn-based game of OpenSpiel with sampled chance.

    RecurrentPPO reads no masks: an illegal action is replaced by a legal one.
    """

    def __init__(self, name: str) -> None:
        self.table = SpielTable(name)
        count = self.table.game.num_distinct_actions()
        self.observation_space = Box(-np.inf, np.inf, self.table.obs().shape, np.float32)
        self.action_space = Discrete(count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a match."""
        super().reset(seed=seed)
        self.table.begin()
        return self.table.obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a move; the reward belongs to the player who made it."""
        table = self.table
        player, legal = table.state.current_player(), table.state.legal_actions()
        table.apply(int(action) if action in legal else legal[int(action) % len(legal)])
        over = table.state.is_terminal()
        reward = table.state.returns()[player] if over else 0.0
        return (np.zeros_like(table.tensor) if over else table.obs()), reward, over, False, {}

    def action_masks(self) -> np.ndarray:
        """Return the legal actions of the player whose turn it is."""
        return np.array(self.table.state.legal_actions_mask(), dtype=bool)


class SpielTable:
    """A match of OpenSpiel with sampled chance, and the player's observation in the package's fastest way."""

    def __init__(self, name: str) -> None:
        import pyspiel
        from open_spiel.python.observation import make_observation

        self.game = pyspiel.load_game(name)
        self._observer = make_observation(self.game, pyspiel.IIGObservationType(perfect_recall=True))
        self.tensor: np.ndarray = self._observer.tensor
        self._random = random.Random(0)
        self.begin()

    def begin(self) -> None:
        """Deal."""
        self.state = self.game.new_initial_state()
        self._deal()

    def apply(self, action: int) -> None:
        """Make a move, and sample the chance that follows."""
        self.state.apply_action(action)
        self._deal()

    def obs(self) -> np.ndarray:
        """Return the information state of the player whose turn it is, float32 [F]."""
        self._observer.set_from(self.state, self.state.current_player())
        return self.tensor.copy()

    def _deal(self) -> None:
        while self.state.is_chance_node():
            self.state.apply_action(self._sampled(self.state.chance_outcomes()))

    def _sampled(self, outcomes: list[tuple[int, float]]) -> int:
        left = self._random.random()
        for action, probability in outcomes:
            left -= probability
            if left < 0.0:
                return action
        return outcomes[-1][0]  # by rounding


# ---- the game alone


def play_by_hand(name: str, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return moves per second of a game alone, with uniformly random legal actions."""
    moves, started = 0, clock()
    for _ in MOVES[name](name):
        moves += 1
        if clock() - started >= seconds:
            break
    return moves / (clock() - started)


def _turn_based_moves(module: str) -> Iterator[None]:
    """Yield after every move of one match after the other; its observation has been read."""
    game, generator = import_module(module).env(), random.Random(0)
    while True:
        game.reset(seed=generator.randrange(2**31))
        while True:
            obs, _, terminated, truncated, _ = game.last()
            if terminated or truncated:
                break
            game.step(int(generator.choice(np.flatnonzero(obs["action_mask"]))))
            yield


def _parallel_moves(module: str) -> Iterator[None]:
    game, generator = import_module(module).parallel_env(), random.Random(0)
    counts = {agent: int(game.action_space(agent).n) for agent in game.possible_agents}
    while True:
        game.reset(seed=generator.randrange(2**31))
        while game.agents:
            game.step({agent: generator.randrange(counts[agent]) for agent in game.agents})
            yield


def _spiel_moves(name: str) -> Iterator[None]:
    table, generator = SpielTable(name), random.Random(0)
    while True:
        table.begin()
        while not table.state.is_terminal():
            table.obs()
            table.apply(generator.choice(table.state.legal_actions()))
            yield


MOVES: dict[str, Callable[[str], Iterator[None]]] = {
    CONNECT_FOUR: _turn_based_moves,
    SIMPLE_SPREAD: _parallel_moves,
    LEDUC: _spiel_moves,
}


# ---- the learners


def maskable_connect_four_mlp(sizes: TrainingSizes) -> Any:
    """MaskablePPO on the flattened board of connect four: the tutorial's network."""
    return _maskable(lambda: TurnBasedGame(flat_connect_four()), _options(sizes), sizes.matches)


def maskable_connect_four(sizes: TrainingSizes) -> Any:
    """MaskablePPO on connect four, with our convolutions in front."""
    options = _options(sizes)
    options["policy_kwargs"] |= {"features_extractor_class": _convolutions(), "share_features_extractor": False}
    return _maskable(lambda: TurnBasedGame(import_module(CONNECT_FOUR).env()), options, sizes.matches)


def maskable_leduc(sizes: TrainingSizes) -> Any:
    """MaskablePPO on Leduc poker."""
    return _maskable(lambda: SpielGame(LEDUC), _options(sizes), sizes.matches)


def recurrent_leduc(sizes: TrainingSizes) -> Any:
    """RecurrentPPO on Leduc poker: no masks, and one memory for both seats of a match."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    options = _options(sizes)
    options["policy_kwargs"] |= {
        "net_arch": [],
        "features_extractor_class": _two_layers(),
        "features_extractor_kwargs": {"hidden": sizes.hidden},
        "share_features_extractor": False,
        "lstm_hidden_size": sizes.hidden,
    }
    return RecurrentPPO("MlpLstmPolicy", DummyVecEnv([lambda: SpielGame(LEDUC)] * sizes.matches), **options)


def ppo_simple_spread(sizes: TrainingSizes) -> Any:
    """PPO on the seats of simple_spread, made environments by SuperSuit."""
    import supersuit
    from stable_baselines3 import PPO

    game = supersuit.pettingzoo_env_to_vec_env_v1(import_module(SIMPLE_SPREAD).parallel_env())
    seats = supersuit.concat_vec_envs_v1(game, sizes.matches, num_cpus=0, base_class="stable_baselines3")
    return PPO("MlpPolicy", seats, **(_options(sizes) | {"seed": None}))  # SuperSuit's wrapper cannot be seeded


def _maskable(make: Callable[[], gymnasium.Env], options: dict[str, Any], matches: int) -> Any:
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    return MaskablePPO("MlpPolicy", DummyVecEnv([make] * matches), **options)


def _options(sizes: TrainingSizes) -> dict[str, Any]:
    """Return the options of ours by SB3's names."""
    from torch import nn

    layers = [sizes.hidden, sizes.hidden]
    return {
        "n_steps": sizes.steps,
        "batch_size": sizes.minibatch,
        "n_epochs": sizes.epochs,
        "learning_rate": sizes.learning_rate,
        "ent_coef": sizes.entropy,
        "gamma": 1.0,
        "device": "cpu",
        "seed": 0,
        "policy_kwargs": {"net_arch": {"pi": layers, "vf": layers}, "activation_fn": nn.ReLU},
    }


def _convolutions() -> type:
    """Return the features extractor that has the convolutions of our network for a board of connect four."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    from sparring.agents.policies.encoders import SMALL, Picture, PictureEncoder, encoded_size

    class BoardEncoder(BaseFeaturesExtractor):
        def __init__(self, observation_space: gymnasium.Space) -> None:
            height, width, channels = observation_space.shape or ()
            picture = Picture(0, height, width, channels, channels_first=0)
            super().__init__(observation_space, encoded_size(height * width * channels, picture, SMALL))
            self.encoder = PictureEncoder(picture, SMALL, "relu", torch.Generator().manual_seed(0))

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.encoder(observations.flatten(1))
            return features

    return BoardEncoder


def _two_layers() -> type:
    """Return the features extractor of two layers: SB3 puts its LSTM before `net_arch`, ours is after the layers."""
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import Tensor, nn

    class TwoLayers(BaseFeaturesExtractor):
        def __init__(self, observation_space: gymnasium.Space, hidden: int) -> None:
            super().__init__(observation_space, hidden)
            inputs = int(np.prod(observation_space.shape or ()))
            self.layers = nn.Sequential(
                nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
            )

        def forward(self, observations: Tensor) -> Tensor:
            features: Tensor = self.layers(observations)
            return features

    return TwoLayers


def time_updates(model: Any, updates: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Return the seconds of each of `updates` updates, from the start of a rollout to the start of the next."""
    from stable_baselines3.common.callbacks import BaseCallback

    class RolloutClock(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.starts: list[float] = []

        def _on_rollout_start(self) -> None:
            self.starts.append(clock())

        def _on_step(self) -> bool:
            return True

    rollouts = RolloutClock()
    model.learn(updates * model.n_steps * model.n_envs, callback=rollouts)
    return np.diff([*rollouts.starts, clock()]).tolist()
