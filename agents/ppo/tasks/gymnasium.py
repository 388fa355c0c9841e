"""Any environment registered with Gymnasium as a task: N copies, stepped one after the other in this process.

It serves to compare the trainer with published results, not for speed. Observations are rows of numbers (`spaces.py`).
They and the rewards may be normalized by running statistics, as in most published results on MuJoCo: (x - mean) / std,
clipped to +-10, and rewards divided by the standard deviation of the discounted return (Engstrom et al. 2020,
arXiv:2005.12729). The statistics of observations belong to the policy and are part of its contract. Several processes
share them in every step, so that they equal those of a single process with all environments.
N is `num_envs`, D the observation size, A the action size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NotRequired

import gymnasium
import numpy as np
import torch
from gymnasium.error import Error as GymnasiumError
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor
from typing_extensions import TypedDict

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.tasks.normalizer import Normalizer
from sparring.agents.ppo.tasks.spaces import FlatObservations, action_sizes, check_spaces, make_flattened, to_actions
from sparring.agents.ppo.tasks.task import Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError, suggestion
from sparring.configs.core.typed import Number, Positive, read, within
from sparring.configs.schema import GymnasiumRunConfig
from sparring.curriculum.schedule import TrainingPlan

RECENT = 100
"""Number of episodes in the mean of the recent return."""


class GymnasiumTaskState(TypedDict):
    """`GymnasiumTask.state_dict`."""

    observations: dict[str, Any]
    returns: dict[str, Any]
    recent: list[Number]
    version: NotRequired[Positive]


class GymnasiumEnvs:
    """N copies of an environment for the rollout, with same-step autoreset.

    With `statistics`, observations are normalized by these, which stay fixed. With several `processes`, each has an
    equal share of the copies, and every copy starts as it would in a single process.
    """

    unsaved = "Gymnasium's environments cannot be saved, so episodes start again"

    def __init__(
        self,
        config: GymnasiumRunConfig,
        device: torch.device,
        *,
        seed: int,
        statistics: Mapping[str, Any] | None = None,
        processes: Processes = ALONE,
        render_mode: str | None = None,
    ) -> None:
        env, self.device, self._processes = config.env, device, processes
        self.share = processes.share(env.num_envs)
        n = self.num_envs = self.share.count
        self.envs, self._flat = make_envs(env.id, n, render_mode)
        self.observations = Normalizer((self._flat.size,), enabled=env.normalize_obs)
        if statistics is not None:
            with within("contract.normalizer"):
                self.observations.load_state_dict(statistics)
            self.observations.frozen = True
        self.returns = Normalizer((), enabled=env.normalize_reward)
        self.id, self.gamma, self.simulator_seconds = env.id, config.ppo.gamma, 0.0
        self.quarantined = torch.zeros((), dtype=torch.int64, device=device)
        self.finished: list[tuple[int, float, int]] = []
        """Copy, return and length of the episodes that ended since this list was last emptied."""
        self._return, self._discounted = np.zeros(n), np.zeros(n)
        self._length = np.zeros(n, dtype=np.int64)
        first, _ = self.envs.reset(seed=seed + self.share.first)
        self._show(self._flat.rows(first))
        self.final_obs = torch.zeros_like(self.obs)

    @property
    def longest_episode(self) -> int:
        """The time limit in steps; without one, any step may be the last."""
        spec = self.envs.envs[0].spec
        return (spec and spec.max_episode_steps) or 1

    @property
    def contract(self) -> dict[str, Any]:
        """Id, version of the encoding, sizes, and the statistics that normalize observations."""
        sizes = {"obs_dim": self._flat.size, **action_sizes(self.envs.single_action_space)}
        return {"id": self.id, "version": self._flat.version, **sizes, "normalizer": self.observations.state_dict()}

    def adopt(self, contract: Mapping[str, Any]) -> None:
        """Continue the statistics of observations in `contract`.

        Raises `ConfigError` if its policy saw normalized observations and these are not, or the other way round.
        """
        normalized = contract["normalizer"]["count"] > 0
        if normalized != self.observations.enabled:
            was, now = str(normalized).lower(), str(self.observations.enabled).lower()
            raise ConfigError(f"env.normalize_obs={now}: the initial policy was trained with {was}; give {was}")
        self.observations.load_state_dict(contract["normalizer"])
        self.look_again()

    def rehearse(self) -> None:
        """Do nothing: there are no opponents."""

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take actions [N, A]; return obs [N, D], reward [N], terminated [N], truncated [N]."""
        started = time.perf_counter()
        taken = to_actions(self.envs.single_action_space, actions.cpu().numpy())
        obs, reward, terminated, truncated, infos = self.envs.step(taken)
        self.simulator_seconds += time.perf_counter() - started
        truncated &= ~terminated
        done = terminated | truncated
        self._count(reward, done)
        if done.any():
            final = obs.copy()
            for i in np.flatnonzero(done):
                final[i] = infos["final_obs"][i]
            self.final_obs = self.encode(final)
        self._show(self._flat.rows(obs))
        scaled = self._scaled(reward, done)
        return self.obs, self._tensor(scaled), torch.from_numpy(terminated), torch.from_numpy(truncated)

    def encode(self, flat: np.ndarray) -> Tensor:
        """Return flattened observations [B, ...] as the policy observes them, [B, D], without adding to statistics."""
        return self._tensor(self.observations.apply(self._flat.rows(flat)))

    def look_again(self) -> None:
        """Normalize the current observations again, with the current statistics."""
        self._show(self._raw)

    def _show(self, obs: np.ndarray) -> None:
        self._raw = obs
        self._add(self.observations, obs)
        self.obs = self._tensor(self.observations.apply(obs))

    def _scaled(self, reward: np.ndarray, done: np.ndarray) -> np.ndarray:
        self._discounted = self._discounted * self.gamma + reward
        self._add(self.returns, self._discounted)
        self._discounted[done] = 0.0
        return self.returns.scale(reward)

    def _add(self, normalizer: Normalizer, rows: np.ndarray) -> None:
        if normalizer.enabled and not normalizer.frozen:
            normalizer.add(self._processes.gather_rows(rows))

    def _count(self, reward: np.ndarray, done: np.ndarray) -> None:
        self._return += reward
        self._length += 1
        first = self.share.first
        self.finished += [(first + int(i), float(self._return[i]), int(self._length[i])) for i in np.flatnonzero(done)]
        self._return[done] = 0.0
        self._length[done] = 0

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.float32)).to(self.device)


class GymnasiumTask:
    """See `agents.ppo.tasks.task.PPOTask`. A continued run restarts its episodes."""

    def __init__(
        self,
        config: GymnasiumRunConfig,
        device: torch.device,
        threads: int = 1,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        self.processes = processes
        self.env = GymnasiumEnvs(config, device, seed=seeds["env"], processes=processes)
        self._recent: list[float] = []

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> None:
        """Do nothing: the task has no files."""

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Do nothing: there is nothing to set up."""

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Return number, mean return and mean length of the episodes of the last rollout."""
        finished, self.env.finished = self.processes.gather_items(self.env.finished), []
        metrics = {"rollout/episodes": float(len(finished))}
        if finished:
            _, returns, lengths = zip(*finished, strict=True)
            self._recent = [*self._recent, *returns][-RECENT:]
            metrics |= {"rollout/return": float(np.mean(returns)), "rollout/length": float(np.mean(lengths))}
        if self._recent:
            metrics["rollout/recent_return"] = float(np.mean(self._recent))
        return metrics

    def evaluate(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Return no metrics: there are no evaluations."""
        return {}, False

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the recent return."""
        recent = float(np.mean(self._recent)) if self._recent else None
        headline = "no episode has ended" if recent is None else f"return {recent:.1f}"
        return TaskStatus(headline, {}, {"recent_return": recent})

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return the normalizers, recent returns, and the version of the observations if it is not 1."""
        mine = {"observations": self.env.observations.state_dict(), "returns": self.env.returns.state_dict()}
        version = self.env.contract["version"]
        return {"gymnasium": mine | {"recent": self._recent} | ({"version": version} if version > 1 else {})}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of another environment.

        Raises `ConfigError` if its policy learned from other observations.
        """
        found = read(GymnasiumTaskState, state.get("gymnasium"), "gymnasium")
        check_version(self.env.id, found.get("version", 1), self.env.contract["version"])
        with within("gymnasium.observations"):
            self.env.observations.load_state_dict(found["observations"])
        with within("gymnasium.returns"):
            self.env.returns.load_state_dict(found["returns"])
        self._recent = found["recent"]
        self.env.look_again()


def check_version(env_id: str, version: int, now: int) -> None:
    """Raise `ConfigError` unless observations have the `version` that a policy learned from."""
    if version != now:
        raise ConfigError(
            f"env.id={env_id}: the policy learned from observations of version {version}, in which choices were no "
            f"one-hot vectors and uint8 was not scaled, and they have version {now}; train a new one"
        )


def make_envs(env_id: str, num_envs: int, render_mode: str | None = None) -> tuple[SyncVectorEnv, FlatObservations]:
    """Create N copies of a registered environment with flattened observations.

    `env_id` is an id of Gymnasium's registry, or "module:id", where importing `module` registers the environment.
    Raises `ConfigError` for an unknown one or unsupported spaces.
    """
    options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    try:
        sample = gymnasium.make(env_id, **options)
    except (GymnasiumError, ImportError) as error:
        hint = "" if env_id in gymnasium.registry else suggestion(env_id, list(gymnasium.registry))
        raise ConfigError(f"env.id={env_id}: cannot be made: {str(error).splitlines()[0]}{hint}") from error
    observation = sample.observation_space
    check_spaces(env_id, observation, sample.action_space)
    sample.close()
    make = partial(make_flattened, env_id, options)
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP), FlatObservations(observation)
