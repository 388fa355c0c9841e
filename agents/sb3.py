"""The known baseline: Stable-Baselines3's PPO on the same matches, under the same curriculum, beside our own trainer.

`trainer=sb3` takes the run's matches, network size, PPO options, schedule of bots and widening physics. What it cannot
have is refused: self-play, events, residual blocks, a learning rate that follows the KL, resuming. Checks while it
trains, the guard and saving on Ctrl-C are our trainer's alone. SB3 knows one kind of distribution at a time, so
shooting is a third Gaussian (fire where it is above 0) instead of a Bernoulli. The result is an ordinary checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from agents.duel import Duel
from agents.ppo.dogfight_task import DogfightTask
from agents.ppo.loop import anneal
from agents.ppo.run import Run
from agents.ppo.stopwatch import Stopwatch
from agents.sb3_weights import ACTIVATIONS, to_actor_critic
from configs.names import ConfigError
from configs.schema import PPOConfig, RunConfig
from envs.dogfight.rules import ENV_ID
from envs.dogfight.spaces import action_space


class DuelVecEnv(VecEnv):
    """A `Duel` as SB3 wants it: numpy in and out, a dict per match, finished matches begun anew in the same step."""

    def __init__(self, duel: Duel, action_box: Box) -> None:
        self.duel = duel
        reach = np.full(duel.batch.obs_dim, np.inf, dtype=np.float32)
        super().__init__(duel.num_envs, Box(-reach, reach), action_box)

    def reset(self) -> np.ndarray:
        """Observations [N, D] of the matches as they stand."""
        return self.duel.obs.cpu().numpy().copy()

    def step_async(self, actions: np.ndarray) -> None:
        """Take actions [N, 3]; the simulator clamps them."""
        self._actions = torch.as_tensor(actions, dtype=torch.float32, device=self.duel.device)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play the step; `infos` of matches that ended carry their last observation and whether time ran out."""
        tensors = self.duel.step(self._actions)
        obs, reward, terminated, truncated = (tensor.cpu().numpy().copy() for tensor in tensors)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        final_obs = self.duel.final_obs.cpu().numpy() if done.any() else obs
        for match in np.flatnonzero(done):
            infos[match]["terminal_observation"] = final_obs[match].copy()
            infos[match]["TimeLimit.truncated"] = bool(truncated[match])
        return obs, reward, done, infos

    def close(self) -> None:
        """Nothing of its own to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The same value for every match."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: matches have no attributes of their own."""
        raise AttributeError("matches have no attributes of their own")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Refused: matches have no methods of their own."""
        raise AttributeError("matches have no methods of their own")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No match is wrapped."""
        return [False] * self.num_envs


class Curriculum(BaseCallback):
    """Deals opponents and physics before every rollout, and notes results after it."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def _on_rollout_start(self) -> None:
        self.watch = Stopwatch()
        assert self.run.position is not None
        self.plan = self.run.schedule.plan(self.run.position, self.run.task.win_rates())
        self.run.task.prepare(self.plan, self.run.network)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        """The rollout is played; what SB3 learns from it is counted with the next one."""
        run, plan = self.run, self.plan
        reward = float(self.model.rollout_buffer.rewards.mean())  # type: ignore[attr-defined]
        run.logger.log(run.env_steps(plan), {"rollout/reward": reward} | run.task.results(plan))
        run.updates_done = plan.update + 1
        assert run.position is not None
        run.position = run.schedule.next(run.position, run.task.win_rates())
        run.progress.update(plan, run.task.headline(plan), run.steps_per_update / self.watch.seconds())


def train(config: RunConfig) -> Path:
    """Train with SB3 as `config` says; returns the path of the final checkpoint.

    Raises `ConfigError` for what SB3 cannot do here, and `InputError` as our own trainer does.
    """
    check(config)
    run = Run(config)
    try:
        if run.updates_done:
            raise ConfigError(f"name={run.folder.name}: trainer=sb3 cannot resume; choose another name")
        model = make_model(run)
        curriculum = Curriculum(run)
        model.learn(run.updates * run.steps_per_update, callback=curriculum)
        contract = run.task.contract | {"continuous": 3, "binary": 0}
        run.network = to_actor_critic(model.policy.state_dict(), config.network.activation)
        run.save(run.folder.final, curriculum.plan, contract=contract)
        run.say(f"done after {run.updates_done} updates: {run.folder.final}")
    finally:
        run.close()
    return run.folder.final


def check(config: RunConfig) -> None:
    """Refuse what SB3's PPO cannot do here."""
    if config.env.id != ENV_ID:
        raise ConfigError(f"env.id={config.env.id}: trainer=sb3 plays only {ENV_ID}; train others with SB3 itself")
    if config.network.blocks:
        raise ConfigError(f"network.blocks={config.network.blocks}: trainer=sb3 knows plain layers only; use 0")
    if config.ppo.adaptive_kl:
        raise ConfigError(f"ppo.adaptive_kl={config.ppo.adaptive_kl}: trainer=sb3 anneals by the clock only; use 0")
    for index, phase in enumerate(config.phases):
        if phase.events:
            raise ConfigError(f"phases.{index}.events: trainer=sb3 has none; use phases.{index}.events=[]")
        if min(phase.scripted_start, phase.scripted_end) < 1.0:
            raise ConfigError(f"phases.{index}.scripted_end={phase.scripted_end}: trainer=sb3 has no self-play; use 1")


def make_model(run: Run) -> PPO:
    """SB3's PPO with the run's options, as far as it has them."""
    config, ppo = run.config, run.config.ppo
    hidden = [config.network.hidden] * 2
    assert isinstance(run.task, DogfightTask)
    model = PPO(
        "MlpPolicy",
        DuelVecEnv(run.task.duel, action_space()),
        learning_rate=lambda left: anneal(ppo.learning_rate, ppo.final_learning_rate_fraction, 1.0 - left),
        n_steps=ppo.rollout_steps,
        batch_size=ppo.minibatch_size,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip,
        clip_range_vf=ppo.value_clip or None,
        ent_coef=ppo.entropy_coefficient,
        vf_coef=ppo.value_coefficient,
        max_grad_norm=ppo.max_grad_norm,
        target_kl=_target_kl(ppo),
        policy_kwargs={
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": ACTIVATIONS[config.network.activation],
            "log_std_init": config.network.log_std_init,
        },
        seed=config.seed,
        device=run.device,
    )
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own would leave a folder in the system's temp
    return model


def _target_kl(ppo: PPOConfig) -> float | None:
    """SB3 stops above 1.5 times its target."""
    return ppo.target_kl / 1.5 or None
