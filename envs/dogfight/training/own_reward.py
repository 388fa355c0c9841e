"""A custom reward: a function on the batch's tensors that replaces the simulator's reward, called once a step.

The function receives a `RewardView` of all matches and returns float32 [N], without a loop over matches or a copy to
the host. Matches, opponents, schedule and metrics do not change. Observations are the learner's, never mirrored, so the
observations before and after a step share one frame.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import warp as wp
from torch import Tensor

from sparring.configs.core.errors import InputError
from sparring.configs.opponents import named_source
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.launcher import Copyable


class RewardError(InputError):
    """An invalid reward; the one-line message has the returned and the expected value."""


@dataclass(frozen=True, eq=False)
class RewardView:
    """One step of N matches, seen by the learner; all tensors are on the simulator's device, copies of the batch's."""

    before: Tensor
    """Observations before the step, float32 [N, D]."""
    after: Tensor
    """Observations after it, float32 [N, D]; for a match that ended, its last observation."""
    dealt: Tensor
    """Hp that the opponent lost in the step, float32 [N]."""
    taken: Tensor
    """Hp that the learner lost, float32 [N]."""
    won: Tensor
    """Matches that the learner won in this step, bool [N]; `lost` and `drawn` have the same form."""
    lost: Tensor
    drawn: Tensor
    terminated: Tensor
    """Matches that ended with a death, bool [N]: their value after the step is 0."""
    truncated: Tensor
    """Matches that ended at the time limit, bool [N]."""
    builtin: Tensor
    """The simulator's reward with the weights of `env.reward`, float32 [N]."""
    gamma: float
    """Discount per step, for potentials."""


class OwnReward(Copyable):
    """The function `text`, registered or module:name, for the learner's seats `rows` [N] among 2N of `batch`.

    Raises `InputError` for a missing module or name, and for an object that is not a function.
    """

    _references: ClassVar[tuple[str, ...]] = ("_hp", "_read_last")

    def __init__(self, text: str, batch: DogfightBatch, rows: Tensor, gamma: float) -> None:
        self.text, self._batch, self._rows, self._gamma = text, batch, rows, gamma
        self._function: Callable[[RewardView], Any] = named_source(text, "reward")
        if not callable(self._function):
            raise RewardError(f"reward {text}: is a {type(self._function).__name__}, which cannot be called")
        self._match, self._bit = rows // 2, 1 << rows % 2
        self._last = torch.zeros(len(rows), batch.obs_dim, device=batch.device)
        self._bind()
        self.begin()

    def begin(self) -> None:
        """Store the values that the step will change."""
        self._before = self._batch.obs.flatten(0, 1).index_select(0, self._rows)
        self._hp_before = self._hp.clone()

    def end(self, builtin: Tensor) -> Tensor:
        """Return the rewards float32 [N] of the step; `builtin` [N] is the simulator's. Raises `RewardError`."""
        batch, cpu = self._batch, self._batch.device.type == "cpu"
        after, hp, outcome = batch.obs.flatten(0, 1).index_select(0, self._rows), self._hp, batch.outcome
        ended = outcome >= 0
        if not cpu or ended.any():  # elsewhere the test would synchronize
            self._read_last()
            after = torch.where(ended.unsqueeze(1), self._last, after)
            hp = torch.where(ended.unsqueeze(1), batch.final_hp, hp)
        lost_hp = (self._hp_before - hp).float().flatten()
        won, drawn = outcome == self._bit, outcome == 0
        view = RewardView(
            self._before,
            after,
            lost_hp.index_select(0, self._rows ^ 1),
            lost_hp.index_select(0, self._rows),
            won,
            ended & ~won & ~drawn,
            drawn,
            batch.terminated.clone(),
            batch.truncated.clone(),
            builtin,
            self._gamma,
        )
        return self._checked(self._call(view), view)

    def _bind(self) -> None:
        fighters: Any = self._batch.fighters
        # The hp field of the fighters, int16 [N, 2], in the simulator's own memory.
        dtype = fighters.dtype.numpy_dtype()
        offset, width = dtype["offsets"][dtype["names"].index("hp")] // 2, dtype["itemsize"] // 2
        shorts: Any = wp.array(
            ptr=fighters.ptr, dtype=wp.int16, shape=(*fighters.shape, width), device=fighters.device, copy=False
        )
        self._hp = wp.to_torch(shorts)[..., offset]
        self._read_last = self._batch.final_reader(self._rows, self._last)

    def _call(self, view: RewardView) -> Any:
        try:
            with torch.no_grad():
                return self._function(view)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raised = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise RewardError(f"reward {self.text}: raised {raised} ({frame.filename}:{frame.lineno})") from error

    def _checked(self, reward: Any, view: RewardView) -> Tensor:
        n, device = len(self._rows), self._batch.device
        if not isinstance(reward, Tensor) or reward.shape != (n,) or reward.device != device:
            about = f"shape {tuple(reward.shape)} on {reward.device}" if isinstance(reward, Tensor) else "no tensor"
            kind = "" if isinstance(reward, Tensor) else f" but a {type(reward).__name__}"
            expected = f"expected is a tensor of shape ({n},), a number for every match, on {device}"
            raise RewardError(f"reward {self.text}: returned {about}{kind}; {expected}")
        reward = reward.float()
        if not torch.isfinite(reward.sum()):  # one number is read a step, also from a GPU
            bad = ~reward.isfinite() & view.after.isfinite().all(1) & view.before.isfinite().all(1)
            if bad.any():  # except matches that the environment discards
                row = int(bad.nonzero()[0])
                raise RewardError(
                    f"reward {self.text}: returned {float(reward[row])} for match {row}; give finite numbers"
                )
        return reward
