"""Recurrent cells, GRU and LSTM, whose state begins at zero with every episode; and sequences of decisions for them.

Weights are named, ordered and used as those of `torch.nn.GRU` and `torch.nn.LSTM`. With x the input, h the output of
the last decision, and products by elements:

    GRU    r, z = sigmoid(W_i x + b_i + W_h h + b_h)          n = tanh(W_i x + b_i + r (W_h h + b_h))
           h' = n + z (h - n)
    LSTM   i, f, o = sigmoid(W_i x + b_i + W_h h + b_h)       g = tanh(W_i x + b_i + W_h h + b_h)
           c' = f c + i g                                     h' = o tanh(c')

The part of the input is one product for a whole sequence. Everything is computed in the type of the weights, also under
autocast, because rounding errors would add up over the decisions. H is `hidden`; a state has S columns: h, and in an
LSTM c behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NONE, GRU, LSTM = "none", "gru", "lstm"
GATES = {GRU: 3, LSTM: 4}
PARTS = {NONE: 0, GRU: 1, LSTM: 2}


def state_size(kind: str, hidden: int) -> int:
    """Return S: H for a GRU, 2 H for an LSTM, 0 for none."""
    return PARTS[kind] * hidden


class Memory(nn.Module):
    """Cell of `kind` gru or lstm, `hidden` wide in and out."""

    def __init__(self, kind: str, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.kind, self.hidden = kind, hidden
        gates = GATES[kind]
        self.weight_ih, self.weight_hh = (nn.Parameter(_orthogonal(gates, hidden, generator)) for _ in range(2))
        self.bias_ih, self.bias_hh = (nn.Parameter(torch.zeros(gates * hidden)) for _ in range(2))
        if kind == LSTM:  # forget gates begin open (Jozefowicz, Zaremba and Sutskever 2015)
            with torch.no_grad():
                self.bias_ih[hidden : 2 * hidden] = 1.0

    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """Return the states [B, S] after inputs [B, H] and states [B, S]; the first H columns are the output."""
        with torch.autocast(x.device.type, enabled=False):
            parts = self._next(self._inputs(x), self._split(state))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def along(self, x: Tensor, state: Tensor, fresh: Tensor) -> Tensor:
        """Return the states [C, B, S] after each of C inputs [C, B, H], from `state` [B, S].

        `fresh` [C, B] marks the inputs before which the state is set to zero.
        """
        with torch.autocast(x.device.type, enabled=False):
            parts, rows = self._split(state), []
            for inputs, begins in zip(self._inputs(x), fresh.unsqueeze(-1), strict=True):
                parts = self._next(inputs, tuple(part.masked_fill(begins, 0.0) for part in parts))
                rows.append(parts)
            columns = [torch.stack(column) for column in zip(*rows, strict=True)]
        return columns[0] if len(columns) == 1 else torch.cat(columns, dim=-1)

    def _inputs(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.weight_ih.dtype), self.weight_ih, self.bias_ih)

    def _split(self, state: Tensor) -> tuple[Tensor, ...]:
        return state.to(self.weight_ih.dtype).split(self.hidden, dim=-1)

    def _next(self, inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return cell(inputs, F.linear(parts[0], self.weight_hh, self.bias_hh), parts)


def cell(inputs: Tensor, recurrent: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return h' of a GRU, or h' and c' of an LSTM, from `parts`, which are h, or h and c, [..., H].

    `inputs` and `recurrent` [..., gates * H] are W_i x + b_i and W_h h + b_h.
    """
    h, *c = parts
    if c:
        i, f, g, o = (inputs + recurrent).chunk(4, dim=-1)
        after = torch.addcmul(f.sigmoid() * c[0], i.sigmoid(), g.tanh())
        return o.sigmoid() * after.tanh(), after
    both = 2 * h.shape[-1]
    r, z = (inputs[..., :both] + recurrent[..., :both]).sigmoid().chunk(2, dim=-1)
    return (torch.lerp(torch.addcmul(inputs[..., both:], r, recurrent[..., both:]).tanh(), h, z),)


class Sequences(NamedTuple):
    """C consecutive decisions of B lanes, each one seat of one match, from which a network with memory is trained.

    It reads them in order, and gradients end at the memory that a lane had before the first of them: truncated
    backpropagation through time. Decisions that do not count, such as padding at the end, are finite too.
    """

    obs: Tensor
    """Rows [C, B, D] that the network observed."""
    memory: Tensor
    """[B, M] before the first decision."""
    fresh: Tensor
    """bool [C, B]: an episode begins with this decision, so its memory is zeros."""
    rows: Tensor
    """int64 [n], rows of the flattened [C * B] that count."""

    def counted(self) -> Tensor:
        """Return the observations [n, D] that count."""
        return self.obs.flatten(0, 1).index_select(0, self.rows)


def memory_weight_sizes(kind: str, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of a `Memory`, without building it."""
    gates = GATES[kind] * hidden
    yield "weight_ih", (gates, hidden)
    yield "weight_hh", (gates, hidden)
    yield "bias_ih", (gates,)
    yield "bias_hh", (gates,)


def _orthogonal(gates: int, hidden: int, generator: torch.Generator) -> Tensor:
    """Draw [gates * hidden, hidden], orthogonal for each gate."""
    return torch.cat([nn.init.orthogonal_(torch.empty(hidden, hidden), generator=generator) for _ in range(gates)])
