"""Speed of the Diplomacy adjudicator on one core, beside the `diplomacy` package on the same work, in one run.

Work is random legal play: every unit of every power draws one of its legal orders. Positions to adjudicate come from
such games, 1901 to 1906, movement phases only; the package gets the same positions and orders, written as text. Its
whole loop lists all legal orders, picks one per unit, hands them in and processes, which is the way its documentation
shows; ours draws and processes. A position of a search is set up, given orders, adjudicated and valued, in the package
by a count of centres. Both run in one thread. Figures are per second of that thread's CPU time, which other work on
the machine does not change; figures by the wall clock stand beside them.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch

from benchmarks.command import run_script
from benchmarks.diplomacy_peers.peer import Games, Peer
from benchmarks.report import heading, publish, table
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.interfaces.parallel_env import DiplomacyParallelEnv
from sparring.envs.diplomacy.orders.listing import MAX_ORDERS
from sparring.envs.diplomacy.search.player import SearchOrders
from sparring.envs.diplomacy.search.score import WEIGHTS
from sparring.envs.diplomacy.search.simulator import CHUNK, Simulator
from sparring.envs.diplomacy.training.opponents import open_player

ROUNDS = 5
POOL_YEARS = 1906
BESIDE = ("orders", "results", "players", "game_id")
"""Arrays of a batch for each game beside its state."""
Speed = tuple[float, float]
"""Speeds per second of CPU time and per second of wall-clock time."""


def main() -> None:
    args = parse()
    pool = Pool(max(args.games), args.seed)
    parts = [heading("Diplomacy: phases per second on one core", ("diplomacy", "numpy", "torch", "warp-lang"))]
    parts.append(f"Medians of {ROUNDS} rounds; CPU seconds of the thread, by the clock in brackets.\n")
    parts.append(speeds(pool, args.games, args.seconds))
    parts.append(steps(pool, args.seconds))
    parts.append(memory(args.games))
    parts.append(decisions(pool, 2 if args.quick else 60))
    publish("\n".join(parts), args.out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", type=int, nargs="+", default=[1, 64, 4096], help="batch sizes")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time per figure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small batches and short times, to test the script")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args()
    if args.quick:
        args.games, args.seconds = [1, 8], 0.0
    return args


class Pool:
    """Movement phases of random games, spring 1901 to fall 1906: positions, and orders drawn for them."""

    def __init__(self, size: int, seed: int) -> None:
        batch = DiplomacyBatch(max(size // 4, 1), last_year=POOL_YEARS, threads=1)
        found: list[dict[str, torch.Tensor]] = []
        turn = 0
        while sum(len(rows["phase"]) for rows in found) < size:
            if bool(batch.done.all()):
                batch.reset()
            turn += 1
            batch.draw_orders(seed * 10_007 + turn)
            moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)) & (batch.done == 0)
            found.append({name: getattr(batch, name)[moving].clone() for name in (*STATE, "orders")})
            batch.process()
        rows = {name: torch.cat([part[name] for part in found]) for name in found[0]}
        order = torch.randperm(len(rows["phase"]), generator=torch.Generator().manual_seed(seed))
        self.rows = {name: values[order[:size]] for name, values in rows.items()}
        batch.close()

    def put(self, batch: DiplomacyBatch, first: int = 0) -> None:
        """Set a batch to the pool's positions from `first` on, with their orders."""
        chosen = (torch.arange(batch.num_games) + first) % len(self.rows["phase"])
        batch.load({name: self.rows[name][chosen] for name in STATE})
        batch.orders.copy_(self.rows["orders"][chosen])


def speeds(pool: Pool, sizes: list[int], seconds: float) -> str:
    """Return one row per kind of work: ours at every size, the package, and the ratio at the largest size."""
    works: list[tuple[str, Callable[[Pool, int], Work], Callable[[Pool], Work]]] = [
        ("movement phases adjudicated", OurMovement, TheirMovement),
        ("legal orders of a movement phase and a pick", OurOrders, TheirOrders),
        ("legal orders of a movement phase in lists, masks, orders by index", OurLists, TheirLists),
        ("phases, whole loop", OurLoop, TheirLoop),
        ("whole games to the end of 1910", OurGames, TheirGames),
        ("positions of a search, one phase", OurScreen, TheirScreen),
    ]
    rows = []
    for name, ours, theirs in works:
        measured = measure([*(ours(pool, size) for size in sizes), theirs(pool)], seconds)
        ratio = measured[-2][0] / measured[-1][0]
        rows.append([name, *(figure(speed) for speed in measured), f"{ratio:,.0f}"])
    return table(["per second", *(f"{size:,} games" for size in sizes), "the package", "ratio"], rows)


def steps(pool: Pool, seconds: float) -> str:
    """Return microseconds of a PettingZoo step of seven agents, beside a phase of the package."""
    ours, theirs = ((1e6 / cpu, 1e6 / clock) for cpu, clock in measure([OurStep(), TheirLoop(pool)], seconds))
    row = ["PettingZoo step", figure(ours), figure(theirs), f"{theirs[0] / ours[0]:,.1f}"]
    return table(
        ["us", "all powers observe and get their orders", "the package, listing and processing", "ratio"], [row]
    )


def memory(sizes: list[int]) -> str:
    """Return the bytes of a game's arrays, with orders, results and players."""
    cells = []
    for size in sizes:
        batch = DiplomacyBatch(size, threads=1)
        tensors = [getattr(batch, name) for name in (*STATE, *BESIDE)]
        cells.append(f"{sum(tensor.nbytes for tensor in tensors) / size:,.0f}")
        batch.close()
    return table(["memory", *(f"{size:,} games" for size in sizes)], [["bytes per game", *cells]])


def decisions(pool: Pool, count: int) -> str:
    """Return the latency of decisions of `search` for one game alone, and the positions searched."""
    rows = []
    for name in ("search:seconds=0.1", "search:positions=8000"):
        player, batch = open_player(name), DiplomacyBatch(1, last_year=1910, threads=1)
        assert isinstance(player, SearchOrders)
        taken, busy, searched = [], [], []
        for number in range(count + 1):
            pool.put(batch, number)
            seats = torch.arange(codes.NUM_POWERS).unsqueeze(0) == number % codes.NUM_POWERS
            before = player.positions, time.perf_counter(), time.thread_time()
            player.write(batch, seats)
            if number:  # the first one compiles
                searched.append(player.positions - before[0])
                taken.append(time.perf_counter() - before[1])
                busy.append(time.thread_time() - before[2])
        batch.close()
        speed = sum(searched) / sum(busy)
        seconds = [f"{value:.3f}" for value in (statistics.median(taken), max(taken), statistics.median(busy))]
        rows.append([name, *seconds, f"{statistics.mean(searched):,.0f}", f"{speed:,.0f}"])
    return table(["one decision", "median s", "longest s", "median CPU s", "positions", "a CPU second"], rows)


class Work(Protocol):
    """A repeatable unit of work: `ready` is not timed, `work` is and returns the amount done."""

    def ready(self) -> None:
        """Prepare the next round of work."""

    def work(self) -> int:
        """Do the work; return its amount."""


class Ours:
    """Our batch on positions of the pool."""

    last_year = POOL_YEARS

    def __init__(self, pool: Pool, size: int) -> None:
        self.pool, self.size, self.turn = pool, size, 0
        self.batch = DiplomacyBatch(size, last_year=self.last_year, threads=1)

    def ready(self) -> None:
        self.turn += 1
        self.pool.put(self.batch, self.turn * self.size)


class OurMovement(Ours):
    """Adjudicate."""

    def work(self) -> int:
        self.batch.process()
        return self.size


class OurOrders(Ours):
    """Draw orders."""

    def work(self) -> int:
        self.batch.draw_orders(self.turn)
        return self.size


class OurLists(Ours):
    """List the orders of all units, write masks of 17 units into existing memory, and take orders by their index."""

    def __init__(self, pool: Pool, size: int) -> None:
        super().__init__(pool, size)
        self.numbers = torch.zeros(size, codes.NUM_PROVINCES, dtype=torch.int64)
        self.places = torch.arange(codes.SLOTS).expand(size, -1)
        self.mask = torch.zeros(size, codes.SLOTS, MAX_ORDERS, dtype=torch.bool)

    def work(self) -> int:
        listed = self.batch.all_legal_orders()
        listed.mask(self.places, out=self.mask)
        self.batch.orders.copy_(listed.take(self.numbers))
        return self.size


class OurStep:
    """Step the PettingZoo environment, with orders drawn beforehand."""

    def __init__(self) -> None:
        self.env = DiplomacyParallelEnv(last_year=POOL_YEARS)
        self.turn = 0

    def ready(self) -> None:
        if not self.env.agents:
            self.turn += 1
            self.obs, _ = self.env.reset(seed=self.turn)
        draw = self.env.action_space
        self.actions = {agent: draw(agent).sample(self.obs[agent]["action_mask"]) for agent in self.env.agents}

    def work(self) -> int:
        self.obs, *_ = self.env.step(self.actions)
        return 1


class OurLoop(Ours):
    """Draw orders and process, in games that restart when all are over."""

    def ready(self) -> None:
        if self.turn == 0 or bool(self.batch.done.all()):
            self.batch.reset()

    def work(self) -> int:
        self.turn += 1
        going = int((self.batch.done == 0).sum())
        self.batch.draw_orders(self.turn)
        self.batch.process()
        return going


class OurGames(Ours):
    """Play games to their end."""

    last_year = 1910

    def ready(self) -> None:
        self.batch.reset()

    def work(self) -> int:
        while not bool(self.batch.done.all()):
            self.turn += 1
            self.batch.draw_orders(self.turn)
            self.batch.process()
        return self.size


class OurScreen(Ours):
    """Set up positions with orders, adjudicate and value them."""

    def __init__(self, pool: Pool, size: int) -> None:
        super().__init__(pool, size)
        self.simulator = Simulator(last_year=POOL_YEARS, weights=WEIGHTS, chunk=min(size, CHUNK))
        self.rows, self.powers = torch.arange(size), torch.arange(size, dtype=torch.int32) % codes.NUM_POWERS

    def work(self) -> int:
        self.simulator.screen(self.batch.state, self.rows, self.powers, self.batch.orders)
        return self.size


class Theirs:
    """The package on positions of the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.turn, self.chance = pool, 0, random.Random(1)
        self.view = Games(DiplomacyBatch(1, threads=1))
        self.peer = Peer()

    def ready(self) -> None:
        self.turn += 1
        self.pool.put(self.view.batch, self.turn)
        self.peer = Peer()
        self.peer.place(self.view.standing(0), self.view.centres(0), self.view.phase(0))

    def pick(self) -> dict[str, list[str]]:
        """Return one legal order for every unit that has any, and the builds or disbands that are due."""
        legal, game = self.peer.legal(), self.peer.game
        return {
            power: [self.chance.choice(legal[place]) for place in places if place in legal]
            for power, places in game.get_orderable_locations().items()
        }


class TheirMovement(Theirs):
    """Adjudicate."""

    def ready(self) -> None:
        super().ready()
        self.peer.order(self.view.written(0))

    def work(self) -> int:
        self.peer.game.process()
        return 1


class TheirScreen(Theirs):
    """Set up a position with orders, adjudicate and count the centres of a power."""

    def ready(self) -> None:
        self.turn += 1
        self.pool.put(self.view.batch, self.turn)

    def work(self) -> int:
        self.peer.place(self.view.standing(0), self.view.centres(0), self.view.phase(0))
        self.peer.order(self.view.written(0))
        self.peer.game.process()
        self.centres = len(self.peer.game.powers["FRANCE"].centers)
        return 1


class TheirOrders(Theirs):
    """List legal orders and pick."""

    def work(self) -> int:
        self.pick()
        return 1


class TheirLists(Theirs):
    """List legal orders."""

    def work(self) -> int:
        self.listed = self.peer.legal()
        return 1


class TheirLoop(Theirs):
    """List, pick, hand in, process."""

    last_year = POOL_YEARS

    def ready(self) -> None:
        if self.turn == 0 or self.is_over():
            self.peer = Peer()

    def is_over(self) -> bool:
        """Return whether a game has ended by a solo or by its last year."""
        phase = self.peer.game.current_short_phase
        return self.peer.game.is_game_done or int(phase[1:5]) > self.last_year

    def work(self) -> int:
        self.turn += 1
        self.peer.order(self.pick())
        self.peer.game.process()
        return 1


class TheirGames(TheirLoop):
    """Play a game to its end."""

    last_year = 1910

    def ready(self) -> None:
        self.peer = Peer()

    def work(self) -> int:
        while not self.is_over():
            super().work()
        return 1


def measure(works: list[Work], seconds: float) -> list[Speed]:
    """Return median speeds; every round gives each work its share of `seconds`, so all see the same machine."""
    for work in works:
        work.ready()
        work.work()
    rounds = [[rate(work, seconds / ROUNDS) for work in works] for _ in range(ROUNDS)]
    columns = zip(*rounds, strict=True)
    return [tuple(statistics.median(values) for values in zip(*column, strict=True)) for column in columns]  # type: ignore[misc]


def rate(work: Work, seconds: float) -> Speed:
    """Return the work done per second, over at least `seconds` of CPU time and one call."""
    done, cpu, clock = 0, 0.0, 0.0
    while cpu < seconds or done == 0:
        work.ready()
        before = time.thread_time(), time.perf_counter()
        done += work.work()
        cpu, clock = cpu + time.thread_time() - before[0], clock + time.perf_counter() - before[1]
    return done / cpu, done / clock


def figure(speed: Speed) -> str:
    """Format a speed: per second of CPU time, by the wall clock in brackets."""
    digits = 0 if speed[0] >= 100 else 2
    return f"{speed[0]:,.{digits}f} ({speed[1]:,.{digits}f})"


if __name__ == "__main__":
    sys.exit(run_script(main))
