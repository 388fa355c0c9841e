"""Baseline: Stable-Baselines3's PPO on the same matches and the same curriculum as our own trainer.

`trainer=sb3` uses the run's matches, network size, PPO options, schedule of bots, widening physics and events, and
saves policies during training as ordinary checkpoints. Unsupported options are refused: self-play, residual blocks, a
learning rate that follows the KL, resuming. Evaluation during training and the guard exist only in our trainer. SB3
supports one kind of distribution at a time and does not bound the standard deviation. So a switch, such as the trigger,
is one more Gaussian (on if above 0) instead of a Bernoulli. Gymnasium's environments are shown to it as to our trainer:
flattened, scaled and normalized.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, MultiDiscrete, Space
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from sparring.agents.policies.actor_critic import alternatives
from sparring.agents.policies.sb3_files import ACTIVATIONS, to_actor_critic
from sparring.agents.ppo.tasks.task import TrainingEnv
from sparring.agents.ppo.trainer import PPOTrainer, anneal
from sparring.agents.run.fit import progress_of
from sparring.agents.run.progress import Timer, counted
from sparring.agents.run.session import RunSession
from sparring.agents.run.signals import FINAL_CODES, Stopped
from sparring.configs.schema import EventConfig
from sparring.envs.game import load
from sparring.envs.spaces import flat_actions


class ClosedVecEnv(VecEnv):
    """A `VecEnv` whose episodes have no attributes and methods of their own; `advice` says what to do instead."""

    episodes, advice = "matches", ""

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise an error."""
        raise AttributeError(f"{self.episodes} have no attributes of their own{self.advice}")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Raise an error."""
        raise AttributeError(f"{self.episodes} have no methods of their own")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every episode."""
        return [False] * len(list(self._get_indices(indices)))


class LearnerVecEnv(ClosedVecEnv):
    """A training environment for SB3: numpy in and out, a dict per match, finished matches restarted in the step."""

    def __init__(self, env: TrainingEnv, actions: Space[Any]) -> None:
        self.env = env
        reach = np.full(env.obs.shape[1], np.inf, dtype=np.float32)
        super().__init__(env.num_envs, Box(-reach, reach), actions)

    def reset(self) -> np.ndarray:
        """Return the current observations [N, D] of the matches."""
        return self.env.obs.cpu().numpy().copy()

    def step_async(self, actions: np.ndarray) -> None:
        """Store actions [N, A], or [N] of a single choice; the simulator clamps them."""
        rows = actions.reshape(self.num_envs, -1)
        self._actions = torch.as_tensor(rows, dtype=torch.float32, device=self.env.obs.device)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play the step; `infos` of finished matches hold their last observation and whether they were truncated."""
        tensors = self.env.step(self._actions)
        obs, reward, terminated, truncated = (tensor.cpu().numpy().copy() for tensor in tensors)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        final_obs = self.env.final_obs.cpu().numpy() if done.any() else obs
        for match in np.flatnonzero(done):
            infos[match]["terminal_observation"] = final_obs[match].copy()
            infos[match]["TimeLimit.truncated"] = bool(truncated[match])
        return obs, reward, done, infos

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return the same value for every match."""
        return [getattr(self, attr_name, None)] * self.num_envs


class Curriculum(BaseCallback):
    """Callback between SB3's updates: events, opponents and physics before one, results and a policy after it.

    `trainer` must have a session.
    """

    def __init__(self, trainer: PPOTrainer) -> None:
        super().__init__()
        self.trainer, self.session = trainer, trainer.session
        self.in_progress, self.quarantined = False, 0

    def save(self, path: Path, *, done: bool = True, interrupted: bool = False) -> None:
        """Write the policy as an ordinary checkpoint, after the plan's update or (not `done`) before it."""
        trainer, weights = self.trainer, self.model.policy.state_dict()
        contract = trainer.task.env.contract
        if trainer.game:  # one Gaussian more, and no Bernoulli
            contract = contract | {"continuous": contract["continuous"] + contract["binary"], "binary": 0}
        kinds = {kind: contract.get(kind, 0) for kind in ("binary", "categorical")}
        trainer.network = to_actor_critic(weights, trainer.config.network.activation, **kinds)
        trainer.write_policy(path, trainer.plan, interrupted, done=done, contract=contract)

    def _on_rollout_start(self) -> None:
        """Finish the previous update, if any, and prepare the next rollout, unless the run is to stop."""
        self._finish_update()
        if self.session.stop.asked:
            return
        trainer = self.trainer
        self.timer = Timer()
        trainer.plan = trainer.schedule.plan(trainer.updates_done, trainer.task.status().win_rates)
        self.in_progress = True
        for event in trainer.plan.events:
            self._apply(event)
        trainer.task.prepare(trainer.plan, trainer.network)

    def _on_step(self) -> bool:
        return self.in_progress or not self.session.stop.asked

    def _on_rollout_end(self) -> None:
        """Keep the mean reward, because SB3 clears the rollout before the next one starts."""
        self.reward = float(self.model.rollout_buffer.rewards.mean())  # type: ignore[attr-defined]

    def _on_training_end(self) -> None:
        self._finish_update()

    def _apply(self, event: EventConfig) -> None:
        """Save a snapshot under its own name, then reset exploration, as in our own trainer."""
        if event.snapshot:
            self.save(self.session.folder.named(event.snapshot), done=False)
        if event.log_std is not None:
            policy = self.model.policy
            policy.log_std.data.fill_(event.log_std)  # type: ignore[operator, union-attr]
            policy.optimizer.state.pop(policy.log_std, None)  # type: ignore[arg-type]

    def _finish_update(self) -> None:
        """Log the rollout's results, save the policy if due, and advance the schedule."""
        trainer = self.trainer
        if not self.in_progress:
            return
        speed = trainer.steps_per_update / self.timer.seconds()
        metrics = {"rollout/reward": self.reward, "time/steps_per_second": speed} | trainer.task.results(trainer.plan)
        quarantined = int(trainer.task.env.quarantined)
        if quarantined > self.quarantined:
            self.session.alert(f"{quarantined - self.quarantined} matches were not finite and were started again")
        self.quarantined, metrics["guard/quarantined_matches"] = quarantined, float(quarantined)
        self.session.logger.log(trainer.env_steps, metrics)
        if (trainer.plan.update + 1) % trainer.config.checkpoint_every == 0:
            path = self.session.folder.step(trainer.env_steps)
            self.session.keep(path, lambda: self.save(path))
        trainer.advance()
        self.in_progress = False
        self.session.progress.advance(*trainer.headline(metrics))
        self.session.callbacks.after_update(progress_of(trainer, self.session), metrics)


def fit(trainer: PPOTrainer, session: RunSession) -> Path:
    """Train with SB3 on the matches and the schedule of `trainer`; return the path of the final checkpoint.

    On Ctrl-C or SIGTERM the update in progress is finished and the policy is saved. `Stopped` is then raised with exit
    codes that do not ask for a restart, because the same command would be refused.
    """
    session.hint = "trainer=sb3 cannot resume; start another run with another name="
    session.stop.hint, session.stop.codes = session.hint, FINAL_CODES
    session.stop.saved = "earlier policies are intact"
    session.stop.at_once = False
    with session.starting():
        trainer.restore_or_init(session)
    session.report_resume(trainer.updates_done, trainer.summary())
    for line in trainer.task.env.notes:
        session.say(line)
    curriculum = Curriculum(trainer)
    with session.training(), session.stop:
        make_model(trainer).learn(trainer.updates * trainer.steps_per_update, callback=curriculum)
        stopped = session.stop.asked
        failed = session.save_final(trainer.final, lambda: curriculum.save(trainer.final, interrupted=stopped))
    if failed:
        raise failed
    session.callbacks.report_written(progress_of(trainer, session))
    if session.callbacks.error is not None:
        raise session.callbacks.error
    done = counted(trainer.updates_done, "update")
    session.say(f"{'interrupted' if stopped else 'done'} after {done}: {trainer.final}")
    if stopped:
        session.say(session.hint)
    if session.stop.exit_code:
        raise Stopped(session.stop.exit_code)
    return trainer.final


def native_actions(contract: Mapping[str, Any]) -> Space[Any]:
    """Return the action space of a contract: choices, or numbers in [-1, 1]; a switch is on above 0."""
    if choices := alternatives(contract.get("categorical", 0)):
        return MultiDiscrete([*choices])
    return Box(-1.0, 1.0, (contract["continuous"] + contract["binary"],), np.float32)


def make_model(trainer: PPOTrainer) -> PPO:
    """Create SB3's PPO with the options of the run that it supports."""
    config, ppo = trainer.config, trainer.config.ppo
    hidden = [config.network.hidden] * 2
    env: Any = trainer.task.env
    actions: Space[Any]
    if trainer.game is None:
        actions = flat_actions(env.action_space, scale=env.scale_actions)
    else:
        native = trainer.game.action_space
        actions = load(native)() if native else native_actions(env.contract)  # without choices all Gaussians
    model = PPO(
        "MlpPolicy",
        LearnerVecEnv(env, actions),
        learning_rate=lambda remaining: anneal(ppo.learning_rate, ppo.final_learning_rate_fraction, 1.0 - remaining),
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
        target_kl=ppo.target_kl / 1.5 or None,  # SB3 stops above 1.5 times its target
        use_sde=config.network.gsde,
        sde_sample_freq=ppo.gsde_every or -1,
        policy_kwargs={
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": ACTIVATIONS[config.network.activation],
            "log_std_init": config.network.log_std_init,
        },
        seed=config.seed,
        device=trainer.device,
    )
    model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger leaves a folder in the system's temp
    return model
