"""Games of Diplomacy with one movement phase per step, or one decision: the `BatchedGame` for PPO training.

Open seats order by choices (`orders/order_choices.py`). Bots order the other powers and decide the retreats and
adjustments of all powers. For an open seat, the bot with the highest number in its game decides them. A player with a
number above the bots' is a writer. It orders in every phase, or leaves retreats and adjustments to its own bot; for an
open seat in such a game, a DumbBot decides them. A match ends when the game is over, or when no open seat has a unit or
centre left. The reward is the change of a power's share of the sum of squares (the value of a draw). N is the number of
games, S = 7 powers, D the size of the flat observation, A = 17 choices.

With `all_phases`, open seats also decide retreats and adjustments (`orders/phase_choices.py`). A step then advances
each game to the next phase with an order of an open seat, so games of one batch are in different phases. The reward is
summed over the skipped phases. Every step has a decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from sparring.configs.core.tensor_file import check_tensor, check_tensors
from sparring.envs.diplomacy.batch import FIRST_YEAR, STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.observation import ALL_PHASES_SHAPE, SHAPE, observe
from sparring.envs.diplomacy.orders.order_choices import rows_of, write_orders
from sparring.envs.diplomacy.orders.phase_choices import may_decide, write_decisions
from sparring.envs.diplomacy.rewards.scoring import alive, count_centres, sum_of_squares

SEATS = codes.NUM_POWERS
DRAW_STRIDE = 1_000_003
"""Seeds of two consecutive draws of orders differ by this prime."""


BESIDE_WRITERS = codes.BOTS.index("dumbbot")
"""Bot for the retreats and adjustments of an open seat among writers."""


def movement_contract(last_year: int, *, all_phases: bool = False) -> dict[str, Any]:
    """Return the contract of a policy that orders by choices: game, sizes, and the last year.

    Version 2 is of policies that decide in all phases; they observe their retreats.
    """
    shape = ALL_PHASES_SHAPE if all_phases else SHAPE
    sizes = {"obs_dim": shape[0] * shape[1], "continuous": 0, "binary": 0}
    contract = {"id": codes.ENV_ID, "version": 2 if all_phases else 1, **sizes, "last_year": last_year}
    return contract | ({"all_phases": True} if all_phases else {})


class OrderWriter(Protocol):
    """A player that writes the orders of its powers into a batch."""

    bot: str
    """Bot for orders that it does not write, such as a policy's retreats and adjustments; empty if none."""

    def write(self, batch: DiplomacyBatch, seats: Tensor) -> None:
        """Write the orders of the powers `seats` bool [G, 7] of running games."""


class MovementBatch:
    """Batch of movement steps, see `envs.batched.BatchedGame`; `seed` seeds all draws of orders.

    `writers` are further players: number len(BOTS) + k is the k-th of them. `writer_seconds` sums their time. Without
    `autoreset` a game continues to its own end, with or without open seats, stays there and has no outcome. With
    `all_phases` a step is one decision.
    """

    action_size = codes.SLOTS
    stat_names: tuple[str, ...] = ("length", "centres", "score")

    def __init__(
        self,
        batch: DiplomacyBatch,
        *,
        seed: int,
        autoreset: bool = True,
        writers: Sequence[OrderWriter] = (),
        all_phases: bool = False,
    ) -> None:
        n, self.all_phases = batch.num_games, all_phases
        self._shape = ALL_PHASES_SHAPE if all_phases else SHAPE
        self.batch, self.seed, self.autoreset, self.writers = batch, seed, autoreset, tuple(writers)
        self.writer_seconds, self._closed = 0.0, False
        self.num_envs, self.device = n, batch.device
        self.length = torch.zeros(n, device=self.device)
        self.draws = 0
        self.obs = torch.zeros(n, SEATS, self._shape[0] * self._shape[1], device=self.device)
        self.final_obs = torch.zeros_like(self.obs)
        self.reward = torch.zeros(n, SEATS, dtype=torch.float64, device=self.device)
        self.terminated, self.truncated = torch.zeros(2, n, dtype=torch.bool, device=self.device)
        self.outcome = torch.full((n,), -1, device=self.device)
        self._stats = torch.zeros(n, SEATS, 3, dtype=torch.float64, device=self.device)
        self._bits = 1 << torch.arange(SEATS, device=self.device)
        self._opening = {name: value.to(self.device) for name, value in opening().items()}
        self.assign(torch.full((n, SEATS), codes.ACTIONS))

    @property
    def longest_episode(self) -> int:
        """Number of spring and fall movement phases of all years, or of all phases."""
        return (len(codes.PHASES) if self.all_phases else 2) * (self.batch.last_year - FIRST_YEAR + 1)

    @property
    def contract(self) -> dict[str, Any]:
        """Game, sizes, and the last year."""
        return movement_contract(self.batch.last_year, all_phases=self.all_phases)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Apply choices [N, 7, 17]; return reward [N, 7], terminated [N], truncated [N] and outcome [N].

        Raises `RuntimeError` after `close`.
        """
        if self._closed:
            raise RuntimeError("the games are closed: make a new batch to play on")
        before = sum_of_squares(self.batch.owner)
        self._draw()
        self._write(actions.flatten(0, 1).long())
        self.batch.process()
        if self.all_phases:
            self._process_idle()
        else:
            for _ in range(2):  # retreats, then adjustments
                self._process_rest()
        self.reward = sum_of_squares(self.batch.owner) - before
        self.length += 1
        over = (self.batch.done > 0) | self._out()
        self.terminated = over
        observed = self._seen(self.batch.state)
        self._fill(self.final_obs, observed)
        self.outcome.fill_(-1)
        if self.autoreset and (self.device.type != "cpu" or over.any()):  # on a GPU any() would synchronize
            self._note(over)
            self._begin(over)
            observed = torch.where(over[self._game].unsqueeze(1), self._first_obs, observed)
        self._fill(self.obs, observed)
        return self.reward, self.terminated, self.truncated, self.outcome

    def final_reader(self, rows: Tensor, out: Tensor) -> Callable[[], object]:
        """Return a function that copies last observations to `out` [N, D], as `BatchedGame.final_reader`."""
        return partial(torch.index_select, self.final_obs.flatten(0, 1), 0, rows, out=out)

    def seat_stats(self, rows: Tensor) -> Tensor:
        """Return length in steps, centres and score share, float64 [R, 3], of matches that ended in the last step."""
        return self._stats.flatten(0, 1).index_select(0, rows)

    def assign(self, bots: Tensor | None, restart: Tensor | None = None) -> None:
        """Set the player of every power, `bots` int [N, 7]; restart the games in `restart` [N]."""
        if bots is not None:
            self._seat(bots.to(self.device))
        if restart is not None:
            self._begin(restart)
            observed = self.obs.flatten(0, 1).index_select(0, self._rows)
            self._fill(self.obs, torch.where(restart[self._game].unsqueeze(1), self._first_obs, observed))

    def state_dict(self) -> dict[str, Any]:
        """Return the games, their lengths and the number of draws."""
        return {"games": self.batch.snapshot(), "length": self.length.clone(), "draws": self.draws}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; raises `InputError`, before any change, for impossible positions."""
        length = check_tensor(state["length"], self.length, "length")
        self.batch.load(check_tensors(state["games"], self.batch.state, "games"))
        self.length.copy_(length)
        self.draws = state["draws"]
        self._fill(self.obs, self._seen(self.batch.state))

    def close(self) -> None:
        """Stop the worker threads; no step follows."""
        self._closed = True
        self.batch.close()

    def _seat(self, bots: Tensor) -> None:
        self._open = bots < 0
        deputies = [codes.BOTS.index(writer.bot) if writer.bot else codes.ACTIONS for writer in self.writers]
        simulated = torch.tensor([*range(len(codes.BOTS)), *deputies], dtype=bots.dtype, device=self.device)
        drawn = torch.where(self._open, bots, simulated[bots.clamp_min(0).long()])  # by the simulator
        rest = bots.masked_fill(bots >= len(codes.BOTS), BESIDE_WRITERS).amax(1, keepdim=True).clamp_min(0)
        self.batch.players.copy_(drawn if self.all_phases else torch.where(self._open, rest, drawn))
        seats = [(writer, bots == number) for number, writer in enumerate(self.writers, start=len(codes.BOTS))]
        self._writing = [(writer, powers) for writer, powers in seats if bool(powers.any())]
        self._rows = self._open.flatten().nonzero().squeeze(1)
        self._game, self._power = self._rows // SEATS, self._rows % SEATS
        rank = (self._open.cumsum(1) - 1).flatten()[self._rows]  # orders of one game are written seat after seat
        self._groups = [(rank == k).nonzero().squeeze(1) for k in range(int(self._open.sum(1).max()))]
        games = {name: value.expand(len(self._rows), *value.shape[1:]) for name, value in self._opening.items()}
        self._first_obs = self._observed(games)
        self._fill(self.obs, self._seen(self.batch.state))

    def _seen(self, state: State) -> Tensor:
        """Return the observations [R, D] of the open seats."""
        return self._observed({name: values[self._game] for name, values in state.items()})

    def _observed(self, games: State) -> Tensor:
        last_year = self.batch.last_year
        return observe(games, self._power, last_year=last_year, retreats=self.all_phases).flatten(1)

    def _fill(self, obs: Tensor, observed: Tensor) -> None:
        obs.view(-1, obs.shape[-1]).index_copy_(0, self._rows, observed)

    def _write(self, choices: Tensor) -> None:
        """Write the orders of choices [N * 7, 17] for the open seats."""
        obs = self.obs.flatten(0, 1)
        for group in self._groups:
            rows, games = self._rows[group], self._game[group]
            orders, observed = self.batch.orders[games], obs[rows].unflatten(1, self._shape)
            if self.all_phases:
                write_decisions(choices[rows], observed, orders)
            else:
                write_orders(choices[rows], rows_of(observed), orders)
            self.batch.orders[games] = orders

    def _draw(self) -> None:
        self.draws += 1
        self._order()

    def _order(self) -> None:
        """Write the orders of all but the open seats; two calls without a draw in between use the same seed."""
        self.batch.draw_orders((self.seed + DRAW_STRIDE * self.draws) % 2**31)
        start = time.perf_counter()
        for writer, powers in self._writing:
            writer.write(self.batch, powers & (self.batch.done == 0).unsqueeze(1))
        self.writer_seconds += time.perf_counter() - start

    def _process_rest(self) -> None:
        """Process a phase of the games that are not in a movement phase; the others are left unchanged."""
        batch = self.batch
        moving = self._moving()
        waiting = moving & (batch.done == 0)
        if self.device.type == "cpu" and not (~moving & (batch.done == 0)).any():
            return
        batch.done.masked_fill_(waiting, 1)
        self._draw()
        batch.process()
        batch.done.masked_fill_(waiting, 0)

    def _process_idle(self) -> None:
        """Process phases of the games in which no open seat has an order to give, until every game waits.

        A game's draws depend only on its own number of steps: the phases of one step share a seed.
        """
        batch = self.batch
        while bool((idle := (batch.done == 0) & ~self._awaited()).any()):
            waiting = (batch.done == 0) & ~idle
            batch.done.masked_fill_(waiting, 1)
            self._order()
            batch.process()
            batch.done.masked_fill_(waiting, 0)

    def _awaited(self) -> Tensor:
        """Return which games wait for orders of an open seat, or for a restart; without open seats, each movement."""
        decides = (self._open & may_decide(self.batch.state)).any(1)
        waits = torch.where(self._open.any(1), decides, self._moving())
        return waits | self._out() if self.autoreset else waits

    def _moving(self) -> Tensor:
        return (self.batch.phase == codes.SPRING) | (self.batch.phase == codes.FALL)

    def _out(self) -> Tensor:
        """Return in which games no open seat has a unit or centre left, bool [N]."""
        return self._open.any(1) & ~(self._open & alive(self.batch.state)).any(1)

    def _note(self, over: Tensor) -> None:
        """Set outcome and statistics of the games that have ended."""
        centres = count_centres(self.batch.owner)
        leads = centres == centres.amax(1, keepdim=True)
        self.outcome = torch.where(over, (leads * self._bits).sum(1), -1)
        values = (self.length.unsqueeze(1).expand(-1, SEATS), centres, sum_of_squares(self.batch.owner))
        self._stats = torch.stack([value.float() for value in values], dim=2).double()

    def _begin(self, which: Tensor) -> None:
        """Restart the games selected by `which`, bool [N]."""
        for name in STATE:
            values = getattr(self.batch, name)
            chosen = which.view(-1, *[1] * (values.dim() - 1))
            values.copy_(torch.where(chosen, self._opening[name], values))
        self.length.masked_fill_(which, 0.0)
