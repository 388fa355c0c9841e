"""N matches of an imported game as numeric rows on CPU tensors, stepped in this process or by workers.

Shapes: N matches, S seats, D columns of an observation row and A of an action row (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.tensor_file import check_tensor
from sparring.configs.core.typed import require
from sparring.envs.imported.match import ImportedMatch
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.stepping import BatchPlan, MatchStepper, StoredMatches

if TYPE_CHECKING:
    from sparring.envs.imported.workers import StepperWorkers


class MatchBatch:
    """N matches with same-step autoreset. The tensors share memory with arrays that the next step overwrites."""

    stat_names = ("length",)
    device = torch.device("cpu")

    def __init__(
        self, plan: BatchPlan, rows: SeatRows, stepper: MatchStepper | StepperWorkers, sample: ImportedMatch
    ) -> None:
        self.num_envs, self.seats, self.rows = plan.num_envs, len(rows.seats), rows
        self._plan, self._stepper = plan, stepper
        self.contract, self.action_size = rows.contract, rows.action_size
        """Plain values that a policy must match to play this game, including A."""
        self.longest_episode = sample.longest or 1
        """Maximum number of moves in a match; 1 if unknown, since any move may be the last."""
        self.remarks = sample.remarks
        """Notes to print before training."""
        self.unsaved = ""
        """Message about matches that the last `load_state_dict` could not continue, or empty."""
        arrays = stepper.arrays
        self.obs = torch.from_numpy(arrays.obs)
        """Rows of the deciding seats, float32 [N, S, D]; other rows are stale."""
        self.final_obs = torch.from_numpy(arrays.final_obs)
        """Final rows of the seats truncated in the last step, float32 [N, S, D]; other rows are stale."""
        self.deciding = torch.from_numpy(arrays.deciding)
        """Seats that act in the next step, bool [N, S]."""
        self.reward = torch.from_numpy(arrays.reward)
        """Rewards received in the last step, float32 [N, S], from any seat's action."""
        self.terminated = torch.from_numpy(arrays.terminated)
        """Seats terminated by the rules in the last step, bool [N, S]."""
        self.truncated = torch.from_numpy(arrays.truncated)
        """Seats truncated in the last step, bool [N, S]."""
        self.outcome = torch.from_numpy(arrays.outcome)
        """Results, int64 [N]: -1 for a running match, else the leading seats as bits, 0 if all seats tie."""
        self.length = torch.from_numpy(arrays.length)
        """Moves of the matches that ended in the last step, int64 [N], 0 for others."""
        self._seed, self._first = plan.seed, plan.first

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the seeds and decisions; the copy replays its own matches up to the same position."""
        workers = 0 if isinstance(self._stepper, MatchStepper) else self._stepper.workers
        return _repeated, (
            self._plan,
            workers,
            self.state_dict(),
            tuple(np.array(rows) for rows in self._stepper.arrays),
        )

    def match(self, i: int) -> ImportedMatch:
        """Return match i; raises `ConfigError` if worker processes hold it."""
        if not isinstance(self._stepper, MatchStepper):
            raise ConfigError("env.workers: this player needs the matches, but worker processes hold them; set it to 0")
        return self._stepper.matches[i]

    def step(self, actions: Tensor) -> None:
        """Make a move in every match with actions float32 [N, S, A]; only the rows of deciding seats are read.

        Raises `InputError` for illegal actions and for invalid game output. The batch cannot be stepped afterwards.
        """
        shape = (self.num_envs, self.seats, self.action_size)
        if actions.shape != shape:
            raise ValueError(f"actions must be {shape}, not {tuple(actions.shape)}")
        self._stepper.step(actions.float().numpy())

    def seat_stats(self, rows: Tensor) -> Tensor:
        """Return the length of the matches that just ended for seats `rows` [R] of all N * S, float64 [R, 1]."""
        return self.length[rows // self.seats].double().unsqueeze(1)

    def restart(self, mask: Tensor) -> None:
        """Start new matches where `mask` bool [N] is set, discarding the results of the previous ones."""
        self._stepper.restart(mask.numpy())

    def state_dict(self) -> dict[str, Any]:
        """Return plain data and tensors of the running matches: their seeds and their decisions so far."""
        stored = self._stepper.store()
        return {
            "id": self.contract["id"],
            "seed": self._seed,
            "first": self._first,
            "episodes": torch.from_numpy(stored.episodes),
            "moves": torch.from_numpy(stored.moves),
            "actions": torch.from_numpy(stored.actions),
            "digests": stored.digests,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the matches of a `state_dict` by replaying them, whatever the number of workers.

        A match that does not replay identically restarts, and `unsaved` reports it. Raises `ContentError`, before any
        change, for a state of another game or other sizes.
        """
        require(state["id"] == self.contract["id"], f"id: is {state['id']}; must be {self.contract['id']}")
        counts = torch.zeros(self.num_envs, dtype=torch.int64)
        episodes, moves = (check_tensor(state[name], counts, name) for name in ("episodes", "moves"))
        expected = torch.empty((int(moves.sum()), self.seats, self.action_size), device="meta")
        actions = check_tensor(state["actions"], expected, "actions")
        self._seed, self._first = state["seed"], state["first"]
        matches = StoredMatches(episodes.numpy(), moves.numpy(), actions.numpy(), state["digests"])
        lost = sum(self._stepper.load(self._seed, self._first, matches))
        self.unsaved = (
            f"{self.rows.name}: {lost} of {self.num_envs} matches could not be replayed from their seeds and "
            "decisions, so they restart"
            if lost
            else ""
        )

    def close(self) -> None:
        """Close the games and stop the worker processes."""
        self._stepper.close()


def make_batch(
    package: str,
    game_id: str,
    kwargs: Mapping[str, Any],
    num_envs: int,
    seed: int,
    workers: int = 0,
    *,
    first: int = 0,
    observation: str = "auto",
    outcome: str = "",
    roles: Sequence[str] = (),
    twin: bool = False,
) -> MatchBatch:
    """Create N matches of a game (`match.make_match`), stepped by `workers` processes, or by this process if 0.

    `first` is the index of the first match across all training processes. `outcome`, "module:function", maps the seats'
    total rewards, float64 [S], to the scores [S] that rank them. `roles` are as in `rows.SeatRows`. With `twin`,
    OpenSpiel plays a PettingZoo game (`twins.py`). Raises `InputError`.
    """
    plan = BatchPlan(package, game_id, dict(kwargs), num_envs, seed, first, observation, outcome, tuple(roles), twin)
    if not 0 <= workers <= num_envs:
        raise ConfigError(f"env.workers={workers}: must be from 0 to {num_envs}, the number of matches")
    return _batch_of(plan, workers)


def _batch_of(plan: BatchPlan, workers: int) -> MatchBatch:
    if not workers:
        stepper = MatchStepper(plan)
        return MatchBatch(plan, stepper.rows, stepper, stepper.matches[0])
    from sparring.envs.imported.workers import StepperWorkers

    sample = plan.make_match()
    rows = plan.rows(sample)
    sample.close()
    return MatchBatch(plan, rows, StepperWorkers(plan, rows, workers), sample)


def _repeated(plan: BatchPlan, workers: int, state: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> MatchBatch:
    """Return a copy of a batch; raises `InputError` if the matches do not replay identically."""
    batch = _batch_of(plan, workers)
    batch.load_state_dict(state)
    if batch.unsaved:
        batch.close()
        raise InputError(f"{batch.unsaved}: they cannot be copied; create and reset a new batch")
    for rows, copied in zip(batch._stepper.arrays, arrays, strict=True):
        rows[:] = copied  # the results of the last step, too
    return batch
