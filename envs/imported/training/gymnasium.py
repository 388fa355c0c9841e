"""Any registered Gymnasium environment as a task: N copies, stepped in this process (`copies.py`).

Its purpose is comparison with published results, not speed. Observations are rows (`envs/imported/rows.py`). A copy
whose reward or observation is not finite is restarted, and that step ends its episode with reward 0 and without a
result, as in `LearnerEnv`. Observations and rewards may be normalized by running statistics, as in most published
results on MuJoCo: (x - mean) / std, clipped to +-10, and rewards divided by the standard deviation of the discounted
return (Engstrom et al. 2020, arXiv:2005.12729). The statistics of observations belong to the policy and are part of its
contract. Several processes share them in every step; they equal a single process's with all environments. N is
`num_envs`, D the observation size, A the action size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.ppo.tasks.task import Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.typed import within
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.imported.config import GymnasiumRunConfig
from sparring.envs.imported.training.copies import CopiesStep, make_copies
from sparring.envs.spaces import Normalizer, action_sizes, to_actions, to_scale

RECENT = 100
"""Number of episodes in the mean of the recent return."""
FLOAT32_MAX = float(np.finfo(np.float32).max)
MOST_RESTARTS, SOUND_STEPS = 20, 100
"""Consecutive restarts of a copy, without a regular end or this many finite steps in between, that end the run."""


class GymnasiumEnvs:
    """N copies of an environment for the rollout, with same-step autoreset.

    `scale_actions` sets whether actions are scaled to bounds; like the statistics, it belongs to the policy. With
    `statistics`, observations are normalized by these fixed values. With several `processes`, each has an equal share
    of the copies, and every copy starts as it would in a single process.
    """

    unsaved = "Gymnasium environments cannot be saved, so episodes restart"
    rows = None

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
        n = self.num_envs = self.lanes = self.share.count
        self.copies = make_copies(env.id, n, vector=env.vector, render_mode=render_mode)
        self.envs, self._flat = self.copies.envs, self.copies.flat
        self.observation_space, self.action_space = self.copies.observation_space, self.copies.action_space
        self.scale_actions = env.scale_actions and bool(to_scale(self.action_space).any())
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
        self._restarts = np.zeros(n, dtype=np.int64)  # of each copy, in a row
        obs = self.copies.reset(seed + self.share.first)
        obs, _ = self._restart(obs, np.zeros(n), np.zeros(n, dtype=bool))
        self._show(obs)
        self.final_obs = torch.zeros_like(self.obs)

    @property
    def longest_episode(self) -> int:
        """The time limit in steps; without one, any step may be the last.

        The environment itself may truncate earlier; storage on a GPU must have room for this from the start.
        """
        return self.copies.limit or 1 if self.device.type == "cpu" else 1

    @property
    def notes(self) -> list[str]:
        """Notes to print at the start: how the environment is stepped, and how actions are treated."""
        return [*self.copies.notes, *action_note(self.id, self.action_space, scale=self.scale_actions)]

    @property
    def contract(self) -> dict[str, Any]:
        """Id, version of the encoding, sizes, statistics that normalize observations, and if so scaled actions."""
        sizes = {"obs_dim": self._flat.size, **action_sizes(self.action_space)}
        scaled = {"scale_actions": True} if self.scale_actions else {}
        about = {"id": self.id, "version": self._flat.version, **sizes, **scaled}
        return about | {"normalizer": self.observations.state_dict()}

    def adopt(self, contract: Mapping[str, Any]) -> None:
        """Continue the statistics of observations in `contract`.

        Raises `ConfigError` if only one of the two is normalized.
        """
        normalized = contract["normalizer"]["count"] > 0
        if normalized != self.observations.enabled:
            was, now = str(normalized).lower(), str(self.observations.enabled).lower()
            raise ConfigError(f"env.normalize_obs={now}: the initial policy was trained with {was}; set {was}")
        self.observations.load_state_dict(contract["normalizer"])
        self.look_again()

    def rehearse(self) -> None:
        """Do nothing: the run itself reports unread masks, and the task has no opponents."""
        self.copies.masks.muted = True

    def close(self) -> None:
        """Close the environments."""
        self.copies.close()

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take actions [N, A]; return obs [N, D], reward [N], terminated [N], truncated [N]."""
        started = time.perf_counter()
        taken = to_actions(self.action_space, actions.cpu().numpy(), scale=self.scale_actions)
        step = self.copies.step(taken)
        self.simulator_seconds += time.perf_counter() - started
        ended = self._quarantine(step)
        done = step.terminated | step.truncated
        self._count(step.reward, done, ended)
        if done.any():
            self.final_obs = self._tensor(self.observations.apply(step.final))
        self._show(step.obs)
        self._discounted = self._discounted * self.gamma + step.reward
        self._add(self.returns, np.where(ended, np.nan, self._discounted))
        self._discounted[done] = 0.0
        scaled = self.returns.scale(step.reward)
        terminated, truncated = torch.from_numpy(step.terminated), torch.from_numpy(step.truncated)
        return self.obs, self._tensor(scaled), terminated, truncated

    def encode(self, flat: np.ndarray) -> Tensor:
        """Return flattened observations [B, ...] as the policy observes them, [B, D], without updating statistics."""
        return self._tensor(self.observations.apply(self._flat.rows(flat)))

    def look_again(self) -> None:
        """Normalize the current observations again, with the current statistics."""
        self._show(self._raw)

    def _quarantine(self, step: CopiesStep) -> np.ndarray:
        """Restart copies that are not finite, and correct their `step`; return whose episodes have no result [N].

        For an ended episode the last observation counts, if training uses it.
        """
        done = step.terminated | step.truncated
        largest = np.max([np.abs(values).max() for values in (step.obs, step.reward, step.final)])  # NaN if one is
        if largest <= FLOAT32_MAX and not self._restarts.any():  # the usual case
            return np.zeros_like(done)
        last = np.where(done[:, None], step.final, step.obs)
        broken = ~_finite(step.reward) | (~_finite(last).all(axis=1) & ~step.terminated)
        good = self._length + 1 >= SOUND_STEPS
        self._restarts[(done | good) & ~broken] = 0
        unusable = ~_finite(step.final).all(axis=1)
        obs, restarted = self._restart(step.obs, step.reward, broken)
        cut = restarted & ~done & ~broken  # restarted along with it: as at a time limit
        step.final = np.where((cut | unusable)[:, None], np.where(cut[:, None], step.obs, obs), step.final)
        step.obs = obs
        step.reward[broken] = 0.0
        step.terminated |= broken
        step.truncated = (step.truncated | cut) & ~broken
        return broken | cut

    def _restart(self, obs: np.ndarray, reward: np.ndarray, broken: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Restart `broken` copies [N], and those with non-finite observations in `obs` [N, D], until all are finite.

        Return the observations [N, D], and which copies were restarted. Raises `ConfigError` if a copy stays
        non-finite.
        """
        restarted = np.zeros_like(broken)
        while (bad := broken | ~_finite(obs).all(axis=1)).any():
            self.quarantined += int(bad.sum())
            self._restarts[bad] += 1
            worst = int(self._restarts.argmax())
            if self._restarts[worst] > MOST_RESTARTS:
                what = "observation" if _finite(reward[worst]) else f"reward {reward[worst]}"
                raise ConfigError(
                    f"env.id={self.id}: copy {worst} was restarted {MOST_RESTARTS} times in a row, and its {what} is "
                    "not a finite number again; return rewards and observations below 3.4e38, without NaN"
                )
            fresh, which = self.copies.restart(bad)
            obs = np.where(which[:, None], fresh, obs)
            restarted |= which
            broken = np.zeros_like(broken)
        return obs, restarted

    def _show(self, obs: np.ndarray) -> None:
        self._raw = obs
        self._add(self.observations, obs)
        self.obs = self._tensor(self.observations.apply(obs))

    def _add(self, normalizer: Normalizer, rows: np.ndarray) -> None:
        """Add the finite rows of all processes to the statistics."""
        if normalizer.enabled and not normalizer.frozen:
            rows = self._processes.gather_rows(rows)
            normalizer.add(rows[np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)])

    def _count(self, reward: np.ndarray, done: np.ndarray, without: np.ndarray) -> None:
        """Record the episodes that ended, except for those in `without`."""
        self._return += reward
        self._length += 1
        first, ended = self.share.first, np.flatnonzero(done & ~without)
        self.finished += [(first + int(i), float(self._return[i]), int(self._length[i])) for i in ended]
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

    def prepare(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Do nothing: no setup is needed."""

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

    def evaluate(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        """Return empty metrics: the task does not have evaluations."""
        return {}, False

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the recent return."""
        recent = float(np.mean(self._recent)) if self._recent else None
        headline = "no episode has ended" if recent is None else f"mean return {recent:.1f}"
        return TaskStatus(headline, {}, {"recent_return": recent})

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return normalizers, recent returns, quarantined episodes, and how observations and actions are encoded."""
        env = self.env
        content: dict[str, Any] = {"observations": env.observations.state_dict(), "returns": env.returns.state_dict()}
        version, quarantined = env.contract["version"], env.quarantined.clone()
        if episodes:  # otherwise another process was lost
            quarantined = self.processes.add_up(quarantined)
        content |= {"recent": self._recent, "quarantined": int(quarantined)}
        content |= {"scale_actions": True} if env.scale_actions else {}
        return {"gymnasium": content | ({"version": version} if version > 1 else {})}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of another environment.

        Raises `ConfigError` if its policy learned from other observations.
        """
        stored = state["gymnasium"]
        check_version(self.env.id, stored.get("version", 1), self.env.contract["version"])
        self.env.observations.load_state_dict(stored["observations"])
        self.env.returns.load_state_dict(stored["returns"])
        self._recent = stored["recent"]
        self.env.scale_actions = stored.get("scale_actions", False)  # states of earlier versions clip
        self.env.quarantined.fill_(stored.get("quarantined", 0) if self.processes.first else 0)
        self.env.look_again()


def _finite(values: np.ndarray) -> np.ndarray:
    """Return which numbers stay finite in float32, the training dtype."""
    with np.errstate(over="ignore"):
        return np.isfinite(values.astype(np.float32))


def check_version(env_id: str, version: int, now: int) -> None:
    """Raise `ConfigError` unless observations have the `version` that a policy was trained on."""
    if version != now:
        raise ConfigError(
            f"env.id={env_id}: the policy was trained on observations of version {version}, in which choices were not "
            f"one-hot vectors and uint8 was not scaled; now the version is {now}: train a new one"
        )


def action_note(env_id: str, space: Space[Any], *, scale: bool) -> list[str]:
    """Return a note on bounds that do not suit a new network, if any."""
    if not to_scale(space).any():
        return []
    if scale:
        return [f"env.id={env_id}: actions are scaled from [-1, 1] of the network to the bounds of {space}"]
    return [
        f"env.id={env_id}: actions are clipped to {space}, and a new network acts around 0 with a deviation near 1; a "
        "new run with env.scale_actions=true scales them to the bounds"
    ]
