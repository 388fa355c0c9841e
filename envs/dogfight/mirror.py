"""Canonical orientation of observations: mirrored left to right whenever the opponent is on the left.

The physics is symmetric under x -> -x: the mirror image of a match is a legal match. A policy that sees one side only
learns every situation once instead of twice. The scripted bots are not symmetric (their altitude biases and first
dodges turn counter-clockwise and clockwise whichever way they fly), so against them the mirror is an approximation.
Observations are [..., D] float32 of either rule set, with or without physics parameters; actions [..., 3].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import warp as wp
from torch import Tensor

from sparring.envs.dogfight.kernels import mirroring
from sparring.envs.dogfight.rules import ArrayMirror
from sparring.envs.launcher import Launcher


class Mirror:
    """Mirrors observations of `rule_set` so that the opponent is on the right, and maps actions back."""

    def __init__(self, rule_set: str, obs_dim: int, device: torch.device | str = "cpu") -> None:
        columns = ArrayMirror(rule_set, obs_dim)
        self.opponent_x = columns.opponent_x
        self.bullet_x, self.bearing, self.sign = (
            torch.from_numpy(column).to(device) for column in (columns.bullet_x, columns.bearing, columns.sign)
        )
        Launcher(self.sign.device, 1, 1).load(mirroring)

    def show(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return observations with the opponent on the right, and side [...]: -1.0 where they were mirrored, else 1."""
        flat = obs.reshape(-1, obs.shape[-1]).contiguous()
        out, side = torch.empty_like(flat), flat.new_empty(len(flat))
        if len(flat):
            self.reader(flat, torch.arange(len(flat), device=flat.device), out, side)()
        return out.view(obs.shape), side.view(obs.shape[:-1])

    def reader(self, obs: Tensor, rows: Tensor, out: Tensor, side: Tensor) -> Callable[[], None]:
        """Return a function that writes rows [N] of obs [R, D], as `show` gives them, to shown [N, D] and side [N]."""
        columns = (self.sign, self.bearing, self.bullet_x)
        inputs = [wp.from_torch(obs), wp.from_torch(rows), self.opponent_x, *map(wp.from_torch, columns)]
        launcher = Launcher(obs.device, len(rows), 1)
        outputs = [wp.from_torch(out), wp.from_torch(side)]
        return partial(launcher.launch, launcher.record(mirroring.show_kernel, [*inputs, *outputs]))

    @staticmethod
    def back(actions: Tensor, side: Tensor) -> Tensor:
        """Return the actions [..., 3] in the original match for actions chosen on the output of `show`."""
        turn, rest = actions[..., :1], actions[..., 1:]
        return torch.cat([turn * side.unsqueeze(-1), rest], dim=-1)
