"""Interface of a game's native batch for trainers: N matches of S seats, stepped together on torch tensors.

`agents/play/learner_env.py` makes a single-agent view of any of them. A game with other steps, such as phases without
decisions, has an adapter in its own package. D is the observation size, A the action size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor

ACTIONS = -1
"""Bot id of an open seat, which is played by the actions given to `step`."""


class BatchedGame(Protocol):
    """N matches with same-step autoreset. All tensors lie on `device` and are overwritten by the next step."""

    num_envs: int
    device: torch.device
    action_size: int
    stat_names: tuple[str, ...]
    """Names of the columns of `seat_stats`."""
    obs: Tensor
    """Current observations, float32 [N, S, D]; defined for open seats."""
    reward: Tensor
    """Rewards of the last step, float [N, S]."""
    terminated: Tensor
    """Matches that were decided in the last step, bool [N]."""
    truncated: Tensor
    """Matches that reached a time limit in the last step, bool [N]."""
    outcome: Tensor
    """Results, integers [N]: -1 for a running match, else a bit for every seat in the lead (1 << seat).

    0 is a draw of all seats.
    """

    @property
    def longest_episode(self) -> int:
        """Maximum number of steps of a match."""

    @property
    def contract(self) -> dict[str, Any]:
        """Plain values that a policy must match to play this game; stored in every checkpoint."""

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Apply actions [N, S, A], ignored for bots; return reward, terminated, truncated and outcome."""

    def final_reader(self, rows: Tensor, out: Tensor) -> Callable[[], object]:
        """Return a function that writes the last observations of seats `rows` [N] among all N * S to `out` [N, D].

        `rows[i]` is a seat of match i. Rows of matches that did not end in the last step are left or overwritten.
        """

    def seat_stats(self, rows: Tensor) -> Tensor:
        """Return statistics of the matches that just ended for seats `rows` [R] of all N * S, float64 [R, K]."""

    def assign(self, bots: Tensor | None, restart: Tensor | None = None) -> None:
        """Set the player of every seat (`bots` int [N, S], a bot id or `ACTIONS`); restart matches in `restart` [N]."""

    def state_dict(self) -> dict[str, Any]:
        """Return all state that determines the matches, except `bots`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the `state_dict` of a batch of the same sizes."""

    def close(self) -> None:
        """Stop the worker threads."""


class SeatView(Protocol):
    """A symmetry of a game: policies observe and act in an equivalent match."""

    def show(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the transformed observations [..., D], and the side [...] for `back`."""

    def reader(self, obs: Tensor, rows: Tensor, out: Tensor, side: Tensor) -> Callable[[], object]:
        """Return a function that writes rows [N] of obs [R, D], as `show` gives them, to shown [N, D] and side [N]."""

    def back(self, actions: Tensor, side: Tensor) -> Tensor:
        """Transform actions [..., A] for the transformed observations into actions for the match."""
