"""Candidates for the player of another power: how likely each was to give the power's orders, and samples of its own.

    a bot            estimated: the share of `DRAWS` draws in which it gives a unit the order
    noisy_dumbbot    the same for a DumbBot that gives each unit a random order with probability `NOISE`
    a policy         exact (`policy_model.py`)
    anything else    1 for the order that it named for the position (`Movements.foretold`), 0 for others

Every candidate may err: with probability `ERROR` its order counts as one of `ORDERS` equally likely ones. Units count
as independent, which `beliefs.py` makes up for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State, power_of
from sparring.envs.diplomacy.orders.order_choices import CHOICES
from sparring.envs.diplomacy.search.history import Movements
from sparring.envs.diplomacy.search.policy_model import PolicyModel
from sparring.envs.diplomacy.search.settings import NOISY
from sparring.envs.diplomacy.search.simulator import Simulator

DUMBBOT, RANDOM = codes.BOTS.index("dumbbot"), codes.BOTS.index("random")
DRAWS, NOISE = 32, 0.4
ERROR, ORDERS = 0.03, 20
AT_ONCE = 32
"""Positions scored at once."""


class Candidates:
    """The players by name, K of them."""

    def __init__(self, names: Sequence[str], policies: Mapping[str, PolicyModel], simulator: Simulator) -> None:
        self.names, self._policies, self._simulator = tuple(names), policies, simulator
        self._last_year = simulator.batch.last_year
        self._numbers = torch.tensor([_bot(name) for name in self.names], dtype=torch.int32)
        self._noisy = torch.tensor([name == NOISY for name in self.names])
        bots = {int(number) for number in self._numbers if number >= 0}
        self.heard = [name for name in self.names if not self._has(name)]
        """Those that are neither bots nor policies."""
        self._drawn = sorted(bots | ({DUMBBOT, RANDOM} if NOISY in self.names else set()))

    def log_likelihoods(self, played: Movements, ids: Tensor, seed: int) -> Tensor:
        """Return log-likelihoods float64 [n, 7, K] of the orders of each power; `ids` int [n] tell games apart."""
        parts = torch.arange(len(ids)).split(AT_ONCE)
        return torch.cat([self._log_likelihoods(played.of(part), ids[part], seed) for part in parts])

    def _log_likelihoods(self, played: Movements, ids: Tensor, seed: int) -> Tensor:
        drawn = self._shares_of_bots(played, ids, seed)
        shares = torch.stack([self._shares(name, played, drawn) for name in self.names], dim=2)
        of_unit = torch.log((1 - ERROR) * shares.double() + ERROR / ORDERS)
        owners = power_of(played.state["units"]).unsqueeze(2) == torch.arange(codes.NUM_POWERS)
        return torch.einsum("npw,npk->nwk", owners.double(), of_unit)

    def _shares_of_bots(self, played: Movements, ids: Tensor, seed: int) -> dict[int, Tensor]:
        """Return, by number of the bot, the share of its draws that have the played order, float [n, 75]."""
        n, bots = len(ids), len(self._drawn)
        if not bots:
            return {}
        rows = torch.arange(n).repeat_interleave(bots * DRAWS)
        numbers = (ids.long()[rows] * DRAWS + torch.arange(DRAWS).repeat(n * bots)) % 2**31
        players = torch.tensor(self._drawn, dtype=torch.int32).repeat_interleave(DRAWS).repeat(n).unsqueeze(1)
        drawn = self._simulator.draw(played.state, rows, numbers, bots=players, seed=seed)
        same = (drawn.view(n, bots, DRAWS, -1) == played.orders[:, None, None]).float().mean(2)
        return dict(zip(self._drawn, same.unbind(1), strict=True))

    def _shares(self, name: str, played: Movements, drawn: Mapping[int, Tensor]) -> Tensor:
        """Return the probability that a player gives each order, float [n, 75]."""
        if name == NOISY:
            return (1 - NOISE) * drawn[DUMBBOT] + NOISE * drawn[RANDOM]
        if name in codes.BOTS:
            return drawn[codes.BOTS.index(name)]
        if name in self._policies:
            return self._policies[name].shares(played.state, played.orders, self._last_year)
        if name in played.foretold:
            return (played.foretold[name] == played.orders).float()
        return torch.full(played.orders.shape, 1 / ORDERS)  # not heard: no evidence

    def draw(self, state: State, picks: Tensor, ids: Tensor, seed: int) -> Tensor:
        """Return samples of orders int32 [G, S, 75] of the candidates that `picks` [G, S, 7] names for each power.

        `ids` int [G, S] tell samples apart. Orders of candidates that are neither a bot nor a policy stay 0.
        """
        games, samples, _ = picks.shape
        rows, flat, numbers = torch.arange(games).repeat_interleave(samples), picks.flatten(0, 1), ids.flatten()
        noisy = self._noisy[flat]
        bots = torch.where(noisy, DUMBBOT, self._numbers[flat])
        orders = self._simulator.draw(state, rows, numbers, bots=bots, seed=seed)
        owners = power_of(state["units"])[rows]
        if noisy.any():
            bots = torch.where(noisy, RANDOM, codes.ACTIONS).int()
            others = self._simulator.draw(state, rows, numbers, bots=bots, seed=seed)
            errs = uniform(seed, _phase(state, rows), numbers, size=codes.NUM_PROVINCES) < NOISE
            orders = torch.where(errs & noisy.gather(1, owners.clamp_min(0)) & (owners >= 0), others, orders)
        for name, model in self._policies.items():
            at, powers = (flat == self.names.index(name)).nonzero().unbind(1)
            there = (owners[at] == powers.unsqueeze(1)).any(1)
            if there.any():
                self._write(model, state, rows, at[there], powers[there], numbers, seed, orders)
        return orders.view(games, samples, -1)

    def _write(
        self,
        model: PolicyModel,
        state: State,
        rows: Tensor,
        at: Tensor,
        powers: Tensor,
        numbers: Tensor,
        seed: int,
        orders: Tensor,
    ) -> None:
        """Add a policy's orders for `powers` [m] to the rows `at` [m] of `orders` [n, 75]."""
        if model.draws:
            phase = _phase(state, rows[at])
            chance = uniform(seed, phase, numbers[at], powers, size=codes.SLOTS * CHOICES)
            written = model.orders(state, rows[at], powers, chance, self._last_year)
        else:  # the same in all samples of a game
            pairs, back = torch.unique(rows[at] * codes.NUM_POWERS + powers, return_inverse=True)
            game, power = pairs // codes.NUM_POWERS, pairs % codes.NUM_POWERS
            written = model.orders(state, game, power, None, self._last_year)[back]
        orders.index_add_(0, at, written)

    def _has(self, name: str) -> bool:
        return name in codes.BOTS or name == NOISY or name in self._policies

    def bots(self, picks: Tensor, bot: int) -> Tensor:
        """Return the bots int32 that play on for `picks`: the picked bots, and `bot` in place of other players."""
        numbers = self._numbers[picks]
        return torch.where(numbers >= 0, numbers, bot).int()


def _bot(name: str) -> int:
    return codes.BOTS.index(name) if name in codes.BOTS else codes.ACTIONS


def _phase(state: State, rows: Tensor) -> Tensor:
    """Return a number of the phase of each row."""
    return (state["year"].long() * len(codes.PHASES) + state["phase"].long())[rows]


def uniform(seed: int, *keys: Tensor, size: int) -> Tensor:
    """Return random numbers float32 [n, size] that depend on the seed and the keys int [n] >= 0 alone."""
    rows = zip(*(key.tolist() for key in keys), strict=True)
    return torch.from_numpy(
        np.stack([np.random.default_rng([seed, *row]).random(size, dtype=np.float32) for row in rows])
    )
