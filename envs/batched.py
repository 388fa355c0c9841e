"""The native batch of a game as trainers see it: N matches of S seats, stepped together on torch tensors.

`agents/play/learner_env.py` makes a single-agent view of any of them. A game whose own batch has another rhythm, such
as phases in which nothing is chosen, brings an adapter in its room. D is the observation size, A the action size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ACTIONS = -1
"""Bot id of an open seat: it is played by the actions given to `step`."""


class BatchedGame(Protocol):
    """N matches with same-step autoreset. All tensors lie on `device` and are overwritten by the next step."""

    num_envs: int
    device: torch.device
    action_size: int
    stat_names: tuple[str, ...]
    """Names of the columns of `seat_stats`."""
    obs: Tensor
    """Current observations, float32 [N, S, D]; defined for open seats."""
    final_obs: Tensor
    """Last observations [N, S, D] of the matches that ended in the last step; anything in other rows."""
    reward: Tensor
    """Rewards of the last step, float [N, S]."""
    terminated: Tensor
    """Matches that the last step decided, bool [N]."""
    truncated: Tensor
    """Matches that reached a time limit in the last step, bool [N]."""
    outcome: Tensor
    """Results [N], whole numbers: -1 while a match goes on, else a bit for every seat in the lead (1 << seat).

    No bit at all is a draw of all seats.
    """

    @property
    def longest_episode(self) -> int:
        """The most steps a match can take."""

    @property
    def contract(self) -> dict[str, Any]:
        """Plain values that a policy must agree with to play here; stored in every checkpoint."""

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take actions [N, S, A], ignored where a bot plays; return reward, terminated, truncated and outcome."""

    def seat_stats(self, rows: Tensor) -> Tensor:
        """Statistics of the matches that just ended for seats `rows` [R] among all N * S, float64 [R, K]."""

    def assign(self, bots: Tensor | None, restart: Tensor | None = None) -> None:
        """Set the player of every seat (`bots` int [N, S], a bot id or `ACTIONS`); restart matches in `restart` [N]."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the course of the matches, except `bots`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the `state_dict` of a batch of the same sizes."""

    def close(self) -> None:
        """End the worker threads."""
