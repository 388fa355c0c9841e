"""N copies of a Gymnasium environment, stepped together as numeric rows, with same-step autoreset.

Third-party environments enter here. Their outputs are copied, since some reuse their arrays, and checked: values that
Gymnasium's interface does not allow end the run with one line. Infos and masks of legal actions are not read. A note
names the first mask found, since the game may receive illegal actions.

An id with a `vector_entry_point` uses its own vector environment. Its `autoreset_mode` decides what happens when an
episode ends: SAME_STEP restarts within the step and returns `infos["final_obs"]`; with DISABLED the copies are
restarted here by `options["reset_mask"]`. With NEXT_STEP an episode starts with a step that ignores its action and
teaches nothing, so single copies are stepped instead. N is `num_envs`, D the observation size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import Error as GymnasiumError
from gymnasium.spaces import Box, Space, flatten_space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from sparring.configs.core.errors import ConfigError, suggestion
from sparring.configs.core.status import say
from sparring.envs.imported.masks import METHODS, alternatives_of, unread_masks
from sparring.envs.imported.names import found_elsewhere
from sparring.envs.imported.rows import FlatObservations, check_spaces, split

NOT_LEARNED = "starts episodes with a step that ignores its action (autoreset_mode NextStep)"


@dataclass
class CopiesStep:
    """One step of all copies. Rows of `final`, the episodes' last observations [N, D], are valid where one ended."""

    obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final: np.ndarray


class MaskWatch:
    """Finds unread masks of legal actions: in a method, in observations, and in infos at any step.

    `notes` are printed at the start; a mask found after `started` is reported at once, unless `muted`.
    """

    def __init__(self, env_id: str) -> None:
        self._id = env_id
        self.notes: list[str] = []
        self.started = self.muted = False

    def look(self, source: str, value: Any, action_space: Space[Any]) -> None:
        """Look for masks of `action_space` in `value`, an observation or infos of one environment or of all."""
        if self.notes or not isinstance(value, Mapping):
            return
        if key := next(unread_masks(value, alternatives_of(action_space), top=False), ""):
            self._found(f"{source}[{key!r}]")

    def look_at(self, env: gymnasium.Env[Any, Any]) -> None:
        """Look for a method that returns masks, in the environment and its wrappers."""
        if name := next((name for name in METHODS if env.has_wrapper_attr(name)), ""):
            self._found(f"{name}()")

    def _found(self, mask: str) -> None:
        self.notes.append(
            f"env.id={self._id}: its masks of legal actions, {mask}, are not read, so the policy may take illegal "
            "actions; a game of PettingZoo's interface with action_mask is played by its masks: env=pettingzoo"
        )
        if self.started and not self.muted:
            say(self.notes[0])


class CheckedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One copy: flattens and copies observations, converts rewards and ends to scalars, and drops infos.

    Raises `ConfigError` for anything else, and for errors of Gymnasium itself.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], flat: FlatObservations, masks: MaskWatch) -> None:
        super().__init__(env)
        self._flat, self._name, self._masks = flat, f"env.id={flat.id}", masks
        self.observation_space = flat.space if isinstance(flat.space, Box) else flatten_space(flat.space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Restart; return the observation and empty infos."""
        obs, infos = self._values("reset", 2, lambda: self.env.reset(seed=seed, options=options))
        self._masks.look("obs", obs, self.action_space)
        self._masks.look("infos", infos, self.action_space)
        return self._flat.flatten(obs), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; return observation, reward, terminated, truncated and empty infos."""
        obs, reward, terminated, truncated, infos = self._values("step", 5, lambda: self.env.step(action))
        self._masks.look("infos", infos, self.action_space)
        ends = (bool(self._one("terminated", terminated)), bool(self._one("truncated", truncated)))
        return self._flat.flatten(obs), self._one("reward", reward), *ends, {}

    def _values(self, name: str, count: int, call: Callable[[], Any]) -> Any:
        """Call the environment; a wrong number of values and exceptions of Gymnasium's wrappers become one line."""
        try:
            values = call()
        except (AssertionError, AttributeError, TypeError, ValueError) as error:
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            module = at.tb_frame.f_globals.get("__name__", "") if at else ""
            if module.startswith(("gymnasium.core", "gymnasium.utils", "gymnasium.wrappers")):
                raise ConfigError(f"{self._name}: its {name} does not fit Gymnasium's interface: {error}") from error
            raise
        if not isinstance(values, tuple | list) or len(values) != count:
            number = f"{len(values)} values" if isinstance(values, tuple | list) else type(values).__name__
            raise ConfigError(
                f"{self._name}: its {name} does not fit Gymnasium's interface: gives {number}, not {count}"
            )
        return values

    def _one(self, name: str, value: Any) -> float:
        """Return the number in a scalar or an array of one element."""
        if type(value) in (bool, float, int):
            return float(value)
        try:
            array = np.asarray(value)
        except ValueError:  # lists of unequal lengths
            array = np.empty(0)
        if array.size != 1 or array.dtype.kind not in "biuf":
            raise ConfigError(f"{self._name}: {name} is {value!r} ({type(value).__name__}); return one number")
        return float(array.item())


class Copies:
    """`envs`, a vector environment of the environment that `flat` reads, with the autoreset `mode`.

    `observation_space` and `action_space` are those of one environment.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        flat: FlatObservations,
        mode: AutoresetMode,
        notes: list[str],
        masks: MaskWatch,
    ) -> None:
        self.envs, self.flat, self._notes, self.masks = envs, flat, notes, masks
        self.observation_space, self.action_space = flat.space, envs.single_action_space
        self._mode = mode
        self._single = isinstance(envs, SyncVectorEnv)
        spec = envs.envs[0].spec if isinstance(envs, SyncVectorEnv) else envs.spec
        self.limit: int | None = spec.max_episode_steps if spec else None
        """The time limit in steps, None if unknown."""

    @property
    def notes(self) -> list[str]:
        """Notes to print at the start: how the environment is stepped, and unread masks."""
        return [*self._notes, *self.masks.notes]

    def reset(self, seed: int) -> np.ndarray:
        """Restart all copies; return the observations [N, D]."""
        obs, infos = self.envs.reset(seed=seed)
        self.masks.look("obs", obs, self.action_space)
        self.masks.look("infos", infos, self.action_space)
        self.masks.started = True
        return self._rows(obs)

    def step(self, actions: np.ndarray) -> CopiesStep:
        """Take actions [N, ...] of the environment."""
        obs, reward, terminated, truncated, infos = self.envs.step(actions)
        self.masks.look("infos", infos, self.action_space)
        rows = self._rows(obs)
        ended, cut = self._column("terminated", terminated) != 0, self._column("truncated", truncated) != 0
        step = CopiesStep(rows, self._column("reward", reward), ended, cut & ~ended, rows)
        done = ended | cut
        if done.any():
            step.final = rows.copy()
            if self._mode is AutoresetMode.DISABLED:
                rows[done] = self._restarted(done)[done]
            else:
                self._read_final(infos.get("final_obs"), done, step)
        return step

    def restart(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Restart the copies in `mask` [N]; return all observations [N, D], and the copies that were restarted.

        A vector environment with SAME_STEP restarts all copies, since it cannot restart only some. Rows of other copies
        are undefined.
        """
        if self._single or self._mode is AutoresetMode.DISABLED:
            return self._restarted(mask), mask
        return self._rows(self.envs.reset()[0]), np.ones_like(mask)

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    def _restarted(self, mask: np.ndarray) -> np.ndarray:
        return self._rows(self.envs.reset(options={"reset_mask": mask.copy()})[0])

    def _rows(self, obs: Any) -> np.ndarray:
        """Return observations of all copies as own rows [N, D]."""
        envs = self.envs
        flat = obs if self._single else self.flat.flatten_batch(obs, envs.observation_space, envs.num_envs)
        return self.flat.rows(flat)

    def _read_final(self, final: Any, done: np.ndarray, step: CopiesStep) -> None:
        each = split(final, self.envs.observation_space) if isinstance(final, dict | tuple) else final
        for i in np.flatnonzero(done):
            last = None if each is None else each[i]
            if last is not None:
                step.final[i] = self.flat.rows((last if self._single else self.flat.flatten(last))[None])[0]
            elif step.truncated[i]:
                raise ConfigError(
                    f'env.id={self.flat.id}: its vector environment gives no infos["final_obs"] of a truncated '
                    "episode; give env.vector=false to step single copies"
                )

    def _column(self, name: str, values: Any) -> np.ndarray:
        """Return a copy of one number for each copy, float64 [N]."""
        array = np.asarray(values)
        if array.size != self.envs.num_envs or array.dtype.kind not in "biuf":
            raise ConfigError(
                f"env.id={self.flat.id}: {name} of its vector environment is {array.dtype} {array.shape}; return one "
                f"number for each of {self.envs.num_envs} copies, or give env.vector=false to step single ones"
            )
        return array.reshape(-1).astype(np.float64)


def make_copies(env_id: str, num_envs: int, *, vector: bool = False, render_mode: str | None = None) -> Copies:
    """Create N copies of a registered environment; with `vector`, use its own vector environment if possible.

    `env_id` is an id of Gymnasium's registry, or "module:id" if importing `module` registers the environment. Raises
    `ConfigError` for an unknown one or unsupported spaces.
    """
    options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    failed: Exception | None = None
    masks = MaskWatch(env_id)
    try:
        sample = gymnasium.make(env_id, **options)
        spec, spaces = sample.spec, (sample.observation_space, sample.action_space)
        masks.look_at(sample)
        sample.close()
    except (GymnasiumError, ImportError) as error:
        failed, spaces = error, None
        spec = gymnasium.registry.get(env_id.rpartition(":")[2])
        if spec is None or spec.entry_point is not None or spec.vector_entry_point is None:
            near = suggestion(env_id, list(gymnasium.registry)) or found_elsewhere(env_id)
            extras = [f"; here run `sparring install {it}`" for it in ("box2d", "mujoco") if it in str(error).lower()]
            hint = "".join(extras) if env_id in gymnasium.registry else near
            raise ConfigError(f"env.id={env_id}: cannot be made: {str(error).splitlines()[0]}{hint}") from error
    if spaces:
        check_spaces(env_id, *spaces)
    notes = []
    if spec and spec.vector_entry_point and ((vector and not render_mode) or failed):
        copies, why = _by_vector_env(env_id, num_envs, spaces, masks)
        if copies:
            return copies
        if failed:
            raise ConfigError(f"env.id={env_id}: has only a vector environment, which {why}")
        notes = [f"env.id={env_id}: single copies are stepped; its vector environment {why}"]
    assert spaces
    flat = FlatObservations(env_id, spaces[0])

    def make() -> CheckedEnv:
        return CheckedEnv(gymnasium.make(env_id, **options), flat, masks)

    envs = SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    return Copies(envs, flat, AutoresetMode.SAME_STEP, notes, masks)


def _by_vector_env(
    env_id: str, num_envs: int, spaces: tuple[Space[Any], Space[Any]] | None, masks: MaskWatch
) -> tuple[Copies | None, str]:
    """Create the vector environment of an id with the `spaces` of its single one, if any; else return why not."""
    try:
        envs = gymnasium.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point")
    except (GymnasiumError, ImportError, TypeError) as error:
        return None, f"cannot be made: {str(error).splitlines()[0]}"
    single_spaces = (envs.single_observation_space, envs.single_action_space)
    try:
        mode = AutoresetMode(envs.metadata.get("autoreset_mode"))
    except ValueError:
        why = "does not set autoreset_mode in its metadata"
    else:
        why = NOT_LEARNED if mode is AutoresetMode.NEXT_STEP else ""
    if spaces and single_spaces != spaces:
        why = f"has other spaces, {single_spaces[0]} and {single_spaces[1]}"
    if why:
        envs.close()
        return None, why
    check_spaces(env_id, *single_spaces)
    note = (
        f"env.id={env_id}: stepped by its vector environment, autoreset_mode {mode.value}; env.vector=false steps "
        "single copies"
    )
    return Copies(envs, FlatObservations(env_id, single_spaces[0]), mode, [note], masks), ""
