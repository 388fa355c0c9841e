"""The native batch: G games in Warp arrays on one device, shared with torch tensors without a copy.

Training, evaluation and the PettingZoo interface all play through this class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol
from weakref import WeakSet

import numpy as np
import torch
import warp as wp

from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.adjudicator import phase
from sparring.envs.diplomacy.adjudicator.phase import by_land_kernel, process_kernel
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.board.positions import FIRST_YEAR, LAST_YEAR, Position, check_games, check_position
from sparring.envs.diplomacy.board.state import Games, tables
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.bots import dumbbot, seed_bots, simple
from sparring.envs.diplomacy.bots.dumbbot import dumbbot_kernel
from sparring.envs.diplomacy.bots.seed_bots import seed_bots_kernel
from sparring.envs.diplomacy.bots.seed_dumbbot_values import seed_neighbours
from sparring.envs.diplomacy.bots.simple import bots_kernel
from sparring.envs.diplomacy.orders.listing import ListedOrders, Lister
from sparring.envs.diplomacy.validation import check_players, check_whole
from sparring.envs.kernel_bots import check_branches
from sparring.envs.launcher import Copyable, Launcher

check_branches(codes.BOTS, simple.is_simple, dumbbot.has_to_order, seed_bots.is_seed_bot)
check_branches(codes.BOTS, simple.preference_of, dumbbot.has_to_order, seed_bots.aim_of)
MOST_GAMES, MOST_THREADS = 10_000_000, 4096
LARGEST_SEED = 2**32 - 1
VIA = (SEA := "sea", LAND := "land")
"""Interpretations of a move VIA without ordered fleets (DATC 4.A.3)."""

STATE = {
    "units": (codes.NUM_PROVINCES, torch.uint8),
    "dislodged": (codes.NUM_PROVINCES, torch.uint8),
    "origin": (codes.NUM_PROVINCES, torch.uint8),
    "owner": (codes.NUM_CENTRES, torch.int8),
    "year": (0, torch.int16),
    "phase": (0, torch.int8),
    "winner": (0, torch.int8),
    "done": (0, torch.uint8),
}
"""Arrays of a game: name, columns (0 for one number per game), type."""
_SHARED = {
    **STATE,
    "orders": (codes.NUM_PROVINCES, torch.int32),
    "results": (codes.NUM_PROVINCES, torch.uint8),
    "players": (codes.NUM_POWERS, torch.int32),
    "game_id": (0, torch.int32),
}
"""Arrays passed to the kernels."""


class Watcher(Protocol):
    """Observer of every phase of a batch."""

    def before(self, batch: DiplomacyBatch) -> None:
        """Called with the orders before they are carried out."""

    def after(self, batch: DiplomacyBatch) -> None:
        """Called at the next phase."""


class DiplomacyBatch(Copyable):
    """G parallel games of Diplomacy.

    Args:
        num_games: G >= 1.
        device: "cpu", "cuda", "cuda:1", ... or "auto".
        last_year: a game still undecided ends as a draw after this year.
        threads: CPU threads; 0 takes every core this process may use.
        via: the reading of DATC 4.A.3: "sea", an army whose move says VIA stays if no fleets are ordered to carry it;
            "land", it then goes by land where it can, as on several sites and in the package `diplomacy`.
        start: the position [1, ...] in which games begin; None is spring 1901.

    Attributes (torch tensors on `device` that share memory with the games; codes in `codes.py`): `units`, `dislodged`,
    `origin` uint8 [G, 75], `owner` int8 [G, 34], `year` int16, `phase` int8, `winner` int8 and `done` uint8 [G].
    `orders` int32 [G, 75] are for the next `process`, `results` uint8 [G, 75] are from the last one. The caller sets
    `game_id` int32 [G], initially 0 to G - 1, and `players` int32 [G, 7]; neither is in a snapshot. `players` holds the
    bot of each power: an index into `codes.BOTS` (initially 0, random), or `codes.ACTIONS` for none. A power with any
    other number receives no orders; `check` raises for it, but waits for the device.

    A game depends only on its orders, never on G, the threads or its neighbours; the orders of bots depend only on the
    position, the seed and the `game_id`. A copy, by `copy.deepcopy` or a pickle, continues from the same state in
    memory of its own.

    On a CPU kernels are loaded, and the first time compiled, when first used: bots only by `draw_orders`.

    """

    units: torch.Tensor
    dislodged: torch.Tensor
    origin: torch.Tensor
    owner: torch.Tensor
    year: torch.Tensor
    phase: torch.Tensor
    winner: torch.Tensor
    done: torch.Tensor
    orders: torch.Tensor
    results: torch.Tensor
    players: torch.Tensor
    game_id: torch.Tensor
    _references: ClassVar[tuple[str, ...]] = (
        "_tables",
        "_near",
        "_games",
        "_undecided",
        "_recorded",
        "_lister",
        "_watchers",
    )

    def __init__(
        self,
        num_games: int,
        *,
        device: str = "cpu",
        last_year: int = 1935,
        threads: int = 0,
        via: str = SEA,
        start: Position | None = None,
    ) -> None:
        self.num_games = check_whole("num_games", num_games, 1, MOST_GAMES)
        self.last_year = check_whole("last_year", last_year, FIRST_YEAR, LAST_YEAR)
        threads = check_whole("threads", threads, 0, MOST_THREADS)
        self.via = choose("via", via, VIA)
        if start is not None:
            check_position(start)
        self._start = opening() if start is None else start
        self.device = choose_device(device)
        self._launcher = Launcher(self.device, self.num_games, threads)
        if self.device.type == "cuda":
            self.load_kernels()  # Load now: modules cannot be loaded while a CUDA graph is captured.
        self._allocate()
        self._bind()
        self.reset()

    def reset(self) -> None:
        """Restart every game in the starting position."""
        for name in STATE:
            getattr(self, name).copy_(self._start[name])
        self.orders.zero_()
        self.results.zero_()

    def load_kernels(self) -> None:
        """Load the kernels of `process` and `draw_orders`, and compile them the first time.

        A batch on a GPU has done so already. On a CPU, call it to choose when compilation happens.
        """
        for module in (phase, simple, dumbbot, seed_bots):
            self._launcher.load(module)

    def process(self) -> None:
        """Carry out `orders` in every running game, advance to the next phase, and clear `orders`.

        Does not raise, since it does not wait for the device; `check` reports undecided phases.
        """
        for watcher in self._watchers:
            watcher.before(self)
        if self.via == LAND:
            self._run(by_land_kernel, [self._games, self._tables])
        self._run(process_kernel, [self._games, self._tables, self._undecided, self.last_year])
        for watcher in self._watchers:
            watcher.after(self)

    def watch(self, watcher: Watcher) -> None:
        """Show a watcher every phase for as long as the caller keeps it; copies of the batch have no watchers."""
        self._watchers.add(watcher)

    def check(self) -> None:
        """Raise `RuntimeError` if any phase so far could not be decided, `InputError` where `players` names no bot.

        Waits for the device; no other method does so for these conditions.
        """
        check_players(self.players.cpu().numpy())
        if count := int(self.undecided[0]):
            raise RuntimeError(f"{count} movement phases could not be decided")

    def draw_orders(self, seed: int) -> None:
        """Write the orders of every power that a bot plays; other orders are unchanged.

        The same seed gives the same orders to the same game in the same phase. Seeds are whole numbers in
        [0, 2**32 - 1], all of them different; raises `InputError` for any other, before anything is written.
        """
        number = check_whole("seed", seed, 0, LARGEST_SEED)
        signed = number - 2**32 if number >= 2**31 else number  # The kernels read the same 32 bits as a signed int.
        for kernel in (bots_kernel, dumbbot_kernel):
            self._run(kernel, [self._games, self._tables, signed])
        self._run(seed_bots_kernel, [self._games, self._tables, self._near, signed])

    def legal_orders(self, game: int) -> dict[int, np.ndarray]:
        """Return the legal orders of one game, int32 [n] by province (`listing.py`); empty once the game is over."""
        self._check_game(game)
        return self._lister(game)

    def all_legal_orders(self) -> ListedOrders:
        """Return the legal orders of all games on the device, until the next call; waits for the device."""
        return self._lister.all()

    def copy(self, from_games: Sequence[int] | torch.Tensor, to_games: Sequence[int] | torch.Tensor) -> None:
        """Copy the games `from_games` onto `to_games`, pair by pair, orders and results included.

        All are read before any is written. Raises `InputError` for games out of range, and for a target named twice.
        """
        origin, goal = (torch.as_tensor(games, dtype=torch.int64).cpu().flatten() for games in (from_games, to_games))
        check_copy(origin, goal, self.num_games)
        for name in (*STATE, "orders", "results"):
            tensor = getattr(self, name)
            tensor[goal.to(self.device)] = tensor[origin.to(self.device)]

    def fork(self, source: State, rows: torch.Tensor) -> None:
        """Set game i to row `rows[i]` of `source`, for at most G rows, without checks; later games are marked done.

        Orders, results, players and ids stay as they are.
        """
        n = len(rows)
        for name in STATE:
            torch.index_select(source[name], 0, rows, out=getattr(self, name)[:n])
        self.done[n:] = 1

    def prepare(self, kernel: Any, inputs: Sequence[Any]) -> Callable[[], None]:
        """Return the launch of a custom kernel over all games; its inputs are games, tables, `inputs`, first."""
        return partial(self._launcher.launch, self._launcher.record(kernel, [self._games, self._tables, *inputs]))

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The state tensors of all games by name, without a copy; the next `process` changes them."""
        return {name: getattr(self, name) for name in STATE}

    def snapshot(self) -> dict[str, torch.Tensor]:
        """Return copies of the state of all games, for `load`."""
        return {name: tensor.clone() for name, tensor in self.state.items()}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Set the games to a `snapshot` [G, ...], or all of them to one position [1, ...].

        Raises `InputError` for an impossible position, before anything is changed.
        """
        check_games(state, self.num_games)
        for name in STATE:
            getattr(self, name).copy_(state[name])
        self.orders.zero_()

    def set_position(self, game: int, position: Position) -> None:
        """Set one game to a position [1, ...] and clear its orders and results.

        Raises `InputError` for an impossible position (`positions.py`), before anything is changed.
        """
        self._check_game(game)
        check_position(position)
        for name in STATE:
            getattr(self, name)[game] = position[name][0].to(self.device)
        self.orders[game] = 0
        self.results[game] = 0

    def close(self) -> None:
        """Stop the worker threads."""
        self._launcher.close()

    def _check_game(self, game: int) -> None:
        check_whole("game", game, 0, self.num_games - 1)

    def _run(self, kernel: Any, inputs: list[Any]) -> None:
        """Launch a kernel over all games; only the last of its inputs may change from call to call."""
        if kernel not in self._recorded:
            self._recorded[kernel] = self._launcher.record(kernel, inputs)
        for command in self._recorded[kernel]:
            command.set_param_at_index(len(inputs) - 1, inputs[-1])
        self._launcher.launch(self._recorded[kernel])

    def _allocate(self) -> None:
        new = partial(torch.zeros, device=self.device)
        for name, (columns, kind) in _SHARED.items():
            shape = (self.num_games, columns) if columns else (self.num_games,)
            setattr(self, name, new(shape, dtype=kind))
        self.game_id.copy_(torch.arange(self.num_games))
        self.undecided = new(1, dtype=torch.int32)

    def _bind(self) -> None:
        """Make the kernels' structs refer to the memory of the tensors."""
        self._watchers: WeakSet[Watcher] = WeakSet()
        self._tables = tables(str(self._launcher.wp_device))
        self._near = seed_neighbours(str(self._launcher.wp_device))
        self._games = Games()
        for name in _SHARED:
            setattr(self._games, name, wp.from_torch(getattr(self, name)))
        self._undecided = wp.from_torch(self.undecided)
        self._recorded: dict[Any, list[Any]] = {}
        """Recorded launches by kernel; for few games, preparing a launch takes longer than running it."""
        self._lister = Lister(self._launcher, self._games, self._tables)


def opening() -> dict[str, torch.Tensor]:
    """Return the position of spring 1901, as a snapshot of one game."""
    board = standard_board()
    units = np.zeros((1, codes.NUM_PROVINCES), dtype=np.uint8)
    for power, kind, location in board.start:
        province = int(board.province_of[location])
        coasts = board.coasts_of[province]
        form = kind + (1 + coasts.index(location) if kind and coasts else 0)
        units[0, province] = codes.unit_code(power, form)
    return position(units, board.home[board.centres][None], year=FIRST_YEAR, phase=codes.SPRING)


def position(units: np.ndarray, owner: np.ndarray, *, year: int, phase: int) -> dict[str, torch.Tensor]:
    """Return a snapshot of games with `units` [G, 75] and `owner` [G, 34] at the beginning of a phase."""
    games = len(units)
    values: dict[str, Any] = {
        "units": units,
        "dislodged": np.zeros_like(units),
        "origin": np.full_like(units, codes.NOTHING),
        "owner": owner,
        "year": np.full(games, year),
        "phase": np.full(games, phase),
        "winner": np.full(games, -1),
        "done": np.zeros(games),
    }
    return {name: torch.as_tensor(values[name]).to(kind) for name, (_, kind) in STATE.items()}


def check_copy(origin: torch.Tensor, goal: torch.Tensor, num_games: int) -> None:
    """Raise an error for game numbers [n] that cannot be copied from or to."""
    if len(origin) != len(goal):
        raise InputError(f"from_games has {len(origin)} games, to_games has {len(goal)}: give as many")
    for name, games in (("from_games", origin), ("to_games", goal)):
        if len(wrong := games[(games < 0) | (games >= num_games)]):
            raise InputError(f"{name} holds {int(wrong[0])}: must be in [0, {num_games - 1}]")
    if len(goal.unique()) < len(goal):
        raise InputError("to_games holds a game twice: a game can be a copy of only one other game")
