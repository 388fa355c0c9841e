"""`sparring.sb3_env`: any game, or any environment of Gymnasium, as a `VecEnv` of Stable-Baselines3 in one line.

A game with a `gymnasium.vector.VectorEnv` is stepped through it; a policy trained here observes and acts as in
`gymnasium.make`. Diplomacy, which has no vector environment, is stepped in its native batch. There the observation is
flat, an action holds one choice per unit (`envs/diplomacy/orders/order_choices.py`), and illegal choices become holds.
`DummyVecEnv` steps any other Gymnasium environment and passes its infos on unchanged.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import Error as GymnasiumError
from gymnasium.spaces import Dict, Space, Text
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sparring.agents.baselines.sb3 import ClosedVecEnv, LearnerVecEnv
from sparring.agents.distributed.processes import derive_seeds
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.ppo.tasks.task import SEEDS, make_task
from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import ConfigError, InputError, suggestion
from sparring.configs.load import load_kind
from sparring.configs.opponents import opponent_text
from sparring.configs.overrides import as_override
from sparring.configs.schema import PPORunConfig
from sparring.envs.game import Game, games, load


def make_sb3_env(env: str, num_envs: int = 64, *, seed: int = 0, opponent: Any = None, **options: Any) -> VecEnv:
    """Return `num_envs` episodes of `env` as one `VecEnv`: `PPO("MlpPolicy", sparring.sb3_env("dogfight", 64))`.

    `env` is a game (`dogfight`, `diplomacy`), its id, or an id of Gymnasium's registry. `opponent` and `options` go to
    `gymnasium.make_vec`, such as `opponent="ace"`, `rules="challenge"`; in Diplomacy `opponent` is a bot, a
    policy or a Python object, and `last_year` and `threads` are known. The first episodes start from `seed`.

    Raises `InputError` for an unknown name, and for environments in text: Stable-Baselines3 has no policy for `Text`
    spaces.
    """
    game = next((game for game in games() if env in (game.name, game.id)), None)
    if game and not game.vector_env:
        return _native(game, num_envs, seed, opponent, options)
    arguments = options if opponent is None else {"opponent": opponent, **options}
    try:
        if game:
            return GymnasiumVecEnv(gymnasium.make_vec(game.id, num_envs, **arguments), seed)
        return _single_envs(env, num_envs, seed, **arguments)
    except (GymnasiumError, ImportError) as error:
        names = [*(game.name for game in games()), *gymnasium.registry]
        why = f"{str(error).splitlines()[0]}{suggestion(env, names)}"
        raise InputError(f"env={env!r}: cannot be created: {why}") from error


def _single_envs(env_id: str, num_envs: int, seed: int, *, wrappers: Any = (), **options: Any) -> DummyVecEnv:
    """Return copies of an environment that is not one of the project's games, each inside `wrappers`."""

    def make() -> gymnasium.Env[Any, Any]:
        env: gymnasium.Env[Any, Any] = gymnasium.make(env_id, **options)
        for part in (env.observation_space, env.action_space):
            if any(isinstance(inner, Text) for inner in (part.values() if isinstance(part, Dict) else [part])):
                raise _text_error(env_id, "")
        for wrapper in wrappers:
            env = wrapper(env)
        return CopiedObservations(env)

    envs = DummyVecEnv([make] * num_envs)
    envs.seed(seed)
    return envs


class CopiedObservations(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observations are copied: one in a reused array would be the last one's after a reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Restart; return a copy of the observation, and the infos."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return copy.deepcopy(obs), infos

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; return a copy of the observation, and all else as it is."""
        obs, *rest = self.env.step(action)
        return copy.deepcopy(obs), *rest


def _text_error(env: str, instead: str) -> InputError:
    return InputError(f"env={env}: observes or acts in text, which Stable-Baselines3 does not support{instead}")


def _native(game: Game, num_envs: int, seed: int, opponent: Any, options: dict[str, Any]) -> LearnerVecEnv:
    """Return the learner's view of a game's native batch, with one opponent in all other seats."""
    if not game.ppo_task or not game.action_space:
        raise _text_error(
            game.name,
            f"; play it through PettingZoo ({game.aec_env.rpartition(':')[0]}.env), or train a language model with "
            f"sparring.train({game.first_run!r})",
        )
    texts = [f"{key if key == 'threads' else f'env.{key}'}={value}" for key, value in options.items()]
    sizes = [f"ppo.minibatch_size={num_envs}", "device=cpu", "logger.progress=false"]
    name = game.bots[0] if opponent is None else opponent_text(opponent)
    texts += [] if name in game.bots else [f"against={as_override(name)}"]
    try:
        config = load_kind(PPORunConfig, [f"+run={game.first_run}", f"env.num_envs={num_envs}", *sizes, *texts])
    except ConfigError as error:
        raise InputError(str(error).replace("against=", "opponent=", 1)) from error
    env = make_task(config, choose_device(config.device), config.threads, seeds=derive_seeds(seed, SEEDS)).env
    assert isinstance(env, LearnerEnv)
    env.assign(np.full(num_envs, game.bots.index(name) if name in game.bots else len(game.bots)))
    space: Space[Any] = load(game.action_space)()
    return LearnerVecEnv(env, space)


class GymnasiumVecEnv(ClosedVecEnv):
    """A `gymnasium.vector.VectorEnv` with same-step autoreset as a `VecEnv`."""

    episodes, advice = "episodes", "; give options to sparring.sb3_env"

    def __init__(self, envs: VectorEnv[Any, Any, Any], seed: int) -> None:
        self.envs, self._first_seed = envs, [seed]
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self.render_mode = envs.render_mode

    def reset(self) -> Any:
        """Restart all episodes, from `seed` the first time; return their observations [N, ...]."""
        seeds = [seed for seed in self._seeds if seed is not None] or self._first_seed
        obs, _ = self.envs.reset(seed=seeds[0] if seeds else None)
        self._first_seed = []
        self._reset_seeds()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Store actions [N, ...]."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play the step; `infos` of finished episodes hold the last observation, its kind of end, and the return."""
        obs, reward, terminated, truncated, extras = self.envs.step(self._actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for match in np.flatnonzero(done):
            infos[match]["terminal_observation"] = extras["final_obs"][match]
            infos[match]["TimeLimit.truncated"] = bool(truncated[match] and not terminated[match])
            if "episode" in extras:
                infos[match]["episode"] = {key: extras["episode"][key][match].item() for key in "rlt"}
        return obs, np.asarray(reward, dtype=np.float32), done, infos

    def close(self) -> None:
        """Release the environments."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return the same value for every episode."""
        value = getattr(self, attr_name) if attr_name in self.__dict__ else getattr(self.envs, attr_name, None)
        return [value] * len(list(self._get_indices(indices)))
