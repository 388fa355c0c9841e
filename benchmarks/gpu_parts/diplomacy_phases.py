"""Diplomacy on the device: the same games as on the CPU, and phases per second.

A phase is all orders drawn by bots and carried out. Positions hold integers only, so the same orders must give
bit-identical positions. DumbBot weighs places in floats before it draws, so a GPU's roundings may change an order.
Games with different orders are counted and continue with the CPU's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.gpu_parts.part import Found, PartOptions, percent, seconds_into
from sparring.configs.core.device import usable_cores
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes

GAMES, PHASES = 350, 60
SIZES = (256, 4096, 16384)
STRETCH = 30
"""Phases of a game that are timed: to 1906, when most games have many units."""
BOTS = ("random", "dumbbot")
AT_LEAST_ALIKE = 0.99


@dataclass
class Counts:
    """Games x phases compared, those with the same orders, and those adjudicated alike."""

    games: int = 0
    orders: int = 0
    positions: int = 0


def measure(options: PartOptions) -> Found:
    """Check agreement, then measure the speed by bot and size."""
    found, counts = Found(), agreement(options)
    found.checks["equal orders give equal positions and results, to the bit"] = counts.positions == counts.games
    alike = counts.orders / counts.games
    found.checks[f"bots give the same orders in {AT_LEAST_ALIKE:.0%} of games x phases"] = alike >= AT_LEAST_ALIKE
    found.numbers["agreement"] = vars(counts)
    row = [f"{counts.games:,}", percent(alike), percent(counts.positions / counts.games)]
    found.table("Agreement with the CPU:", ["games x phases", "same orders", "same positions"], [row])
    rows = [row for bot in BOTS for size in options.sized(SIZES, (4,)) for row in [_speed(found, options, bot, size)]]
    head = ["games x bot", f"{options.device}: phases / s", f"CPU, {usable_cores()} threads: phases / s", "ratio"]
    found.table("Phases per second, orders drawn and carried out:", head, rows)
    return found


def agreement(options: PartOptions) -> Counts:
    """Play the same games on the device and on the CPU, a different bot in each of seven games."""
    games, phases = options.sized((GAMES, PHASES), (14, 6))
    cpu, device = DiplomacyBatch(games), DiplomacyBatch(games, device=options.device)
    counts = Counts()
    players = torch.arange(games).unsqueeze(1).expand(-1, codes.NUM_POWERS) % len(codes.BOTS)
    for batch in (cpu, device):
        batch.players.copy_(players)
    for phase in range(phases):
        for batch in (cpu, device):
            batch.draw_orders(options.seed + 1000 * phase)
        alike = (cpu.orders == device.orders.cpu()).all(dim=1)
        device.orders.copy_(cpu.orders)
        for batch in (cpu, device):
            batch.process()
        same = torch.stack([_same(getattr(cpu, name), getattr(device, name)) for name in (*STATE, "results")])
        counts.games += games
        counts.orders += int(alike.sum())
        counts.positions += int(same.all(dim=0).sum())
        device.load(cpu.snapshot())
    for batch in (cpu, device):
        batch.check()
        batch.close()
    return counts


def phases_per_second(device: str, games: int, bot: str, *, seed: int, seconds: float) -> float:
    """Return phases per second over all games, repeating the first `STRETCH` phases: few games are then over."""
    batch, times = DiplomacyBatch(games, device=device), [0.0]
    batch.players.fill_(codes.BOTS.index(bot))
    play(batch, 3, seed)
    stretches = 0
    while sum(times) < seconds or stretches == 0:
        batch.reset()
        with seconds_into(times, device):
            play(batch, STRETCH, seed)
        stretches += 1
    batch.check()
    batch.close()
    return stretches * STRETCH * games / sum(times)


def play(batch: DiplomacyBatch, phases: int, seed: int) -> None:
    """Play so many phases between bots."""
    for phase in range(phases):
        batch.draw_orders(seed + 1000 * phase)
        batch.process()


def _speed(found: Found, options: PartOptions, bot: str, games: int) -> list[str]:
    """Return a row of the table: the device, then the CPU."""
    seconds = options.sized(1.5, 0.0)
    mine, cpu = (
        phases_per_second(device, games, bot, seed=options.seed, seconds=seconds) for device in (options.device, "cpu")
    )
    found.numbers[f"{bot}/{games}"] = {"device": mine, "cpu": cpu, "ratio": mine / cpu}
    return [f"{games:,} x {bot}", f"{mine:,.0f}", f"{cpu:,.0f}", f"{mine / cpu:.1f}"]


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return whether each pair of games is equal, bool [G]."""
    return (one == other.cpu()).reshape(len(one), -1).all(dim=1)
