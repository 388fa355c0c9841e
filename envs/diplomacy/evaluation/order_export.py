"""Export of the network of orders to ONNX, operator by operator; torch's exporter does not support sort.

The model maps `observation` float32 [N, D] to `action` float32 [N, 17], the choice of each unit, and `probabilities`
float32 [N, 17 x 37], as in `OrderNetwork.log_probs`. In turn, they depend on the choices of earlier units; in winter,
units count as independent. The action respects the number that is due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from sparring.agents.policies.checkpoint import Checkpoint
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import INLAND
from sparring.envs.diplomacy.board.tensors import FORMS, board_tensors
from sparring.envs.diplomacy.movement_batch import MovementBatch
from sparring.envs.diplomacy.observation import AT, RETREATS
from sparring.envs.diplomacy.orders.order_choices import CHOICES, SIDES
from sparring.envs.diplomacy.orders.phase_choices import ADJUSTMENTS, due_of
from sparring.envs.diplomacy.training.order_network import (
    ENTERS,
    ENTRY_HELPED,
    EVENTS,
    LEAVES,
    NEVER,
    STAY_HELPED,
    STAYS,
    OrderNetwork,
    observed_shape,
)
from sparring.eval.onnx_export.onnx_model import ModelGraph, run_recurrent, write_model

P, U, ACTS = codes.NUM_PROVINCES, codes.SLOTS, CHOICES - 1
STEPS = 12
"""Number of decisions compared with torch, in 4 games."""


def export_orders(checkpoint: Checkpoint, path: Path, *, free: bool = True) -> float:
    """Write the policy to `path` atomically if it agrees with torch; return the largest difference.

    Raises `ExportError` for one that differs, and `InputError` if a package is missing.
    """
    network = cast(OrderNetwork, checkpoint.network.cpu().eval())
    data = OrderGraph(network).serialized(checkpoint, free=free)
    difference = order_disagreement(network, data, played_positions(network))
    write_model(checkpoint, path, data, difference)
    return difference


def played_positions(network: OrderNetwork, *, seed: int = 0) -> Tensor:
    """Return observations [B, D] from games in which the policy orders for all powers."""
    generator, rows = torch.Generator().manual_seed(seed), []
    games = MovementBatch(DiplomacyBatch(4, threads=1), all_phases=network.config.all_phases, seed=seed)
    for _ in range(STEPS):
        rows.append(games.obs.flatten(0, 1).clone())
        games.step(network.act(rows[-1], generator=generator)[0].unflatten(0, (4, -1)))
    games.close()
    return torch.cat(rows)


@torch.no_grad()
def order_disagreement(network: OrderNetwork, data: bytes, obs: Tensor) -> float:
    """Return the largest difference in probability from torch, also between the choices of the two."""
    actions, probabilities = run_recurrent(data, obs.numpy(), np.zeros((len(obs), 0), np.float32))
    choices, best = torch.from_numpy(actions).long(), network.act(obs, deterministic=True)[1]
    log_probs, present = network.log_probs(obs, choices, apart=True)
    chosen = log_probs.gather(-1, choices.unsqueeze(-1)).squeeze(-1)
    behind = ((log_probs.amax(-1) - chosen) * present).amax(-1)  # two equal choices may be in either order
    if network.adjust is not None:
        winter = due_of(obs.unflatten(1, observed_shape(all_phases=True))).number >= 0
        behind = torch.where(winter, (best - network.evaluate(obs, choices)[0]).abs(), behind)
    differences = np.abs(probabilities - log_probs.exp().flatten(1).numpy())
    return float(np.max([behind.max(), differences.max()]))  # NaN stays NaN


class OrderGraph(ModelGraph):
    """Builder of the deterministic `OrderNetwork`; its methods mirror those of the network."""

    def __init__(self, network: OrderNetwork) -> None:
        super().__init__()
        self.network, self.board = network, board_tensors(torch.device("cpu"))
        self.linear: dict[nn.Module, tuple[str, str]] = {}
        self.zero, self.never = self.constant([0.0]), self.constant([NEVER])
        self.near = self.constant(self.board.near)

    def serialized(self, checkpoint: Checkpoint, *, free: bool) -> bytes:
        """Return the checked model with its contract as metadata."""
        network, all_phases = self.network, self.network.adjust is not None
        self.seen = self.reshaped("observation", -1, *observed_shape(all_phases=all_phases))
        self.winter, self.retreating = (
            self.add("Greater", self.add("ReduceMax", self.phases(*which), axes=[1], keepdims=1), self.zero)
            for which in ((codes.WINTER,), codes.RETREATS)
        )
        h = self.encoded()
        units = self.units()
        decided = [self.decided(h, units, None)] if network.turns is None else self.in_turn(h, units)
        log_probs, chosen = (self.add("Concat", *values, axis=1) for values in zip(*decided, strict=True))
        if all_phases:
            chosen = self.add("Where", self.winter, self.adjusted(log_probs, units[1]), chosen)
        self.add("Cast", chosen, to=self.onnx.TensorProto.FLOAT, outputs=["action"])
        self.add("Flatten", self.add("Exp", log_probs), axis=1, outputs=["probabilities"])
        outputs = {"action": U, "probabilities": U * CHOICES}
        return self.model({"observation": network.obs_dim}, outputs, checkpoint.contract, batch="N" if free else 1)

    def encoded(self) -> str:
        """Add `Encoder.forward`."""
        encoder = self.network.actor.encoder
        h = self.add("Relu", self.add("Add", self.affine(encoder.input, self.seen), self.constant(encoder.place)))
        for direct, adjacent in zip(encoder.own, encoder.others, strict=True):
            around = self.affine(adjacent, self.add("MatMul", self.near, h))
            h = self.add("Add", h, self.add("Relu", self.add("Add", self.affine(direct, h), around)))
        return h

    def units(self) -> tuple[str, str, str, str]:
        """Add places [N, U], present [N, U], targets [N, U, 3, 12] and legal [N, U, 36] of the units."""
        board, all_phases = self.board, self.network.adjust is not None
        forms = self.forms("unit_form")
        if all_phases:
            forms = self.add("Where", self.retreating, self.forms("dislodged_form"), forms)
        start = AT["slot" if all_phases else "unit_power"].start
        ours = self.add("Greater", self.reshaped(self.group(start, start + 1), -1, P), self.zero)
        rows = self.add("Gather", self.constant(board.rows.flatten()), self.add("Add", forms, self.every(FORMS)))
        order = torch.arange(P).float()
        key = self.add("Where", ours, self.constant(2 * P - order), self.constant(P - order))
        values, places = self.top(key)
        present = self.add("Greater", values, self.constant([float(P)]))
        owned = self.add("GatherElements", self.add("Where", ours, rows, self.constant([0])), places, axis=1)
        goals, reach = (self.add("Gather", self.constant(t.clamp_min(0)), owned) for t in (board.goals, board.reach))
        moves, exists = (self.add("Gather", self.constant(t >= 0), owned) for t in (board.goals, board.reach))
        number = self.onnx.TensorProto.FLOAT
        reached = nn.functional.one_hot(board.reach + 1, P + 1).sum(1)[:, 1:].float()
        counted = self.add("Cast", self.unsqueezed(present, 2), to=number)
        near = self.add("Mul", self.add("Gather", self.constant(reached), owned), counted)
        near = self.add("ReduceSum", near, self.constant([1]), keepdims=0)
        supported, joined = (
            self.add("And", exists, self.add("Greater", self.at(x, reach), least))
            for x, least in ((self.add("Cast", ours, to=number), self.zero), (near, self.constant([1.0])))
        )
        legal = self.add("Concat", moves, supported, joined, axis=2)
        if all_phases:
            legal = self.legal(places, present, legal)
        moving, helping = (self.unsqueezed(x, 2) for x in (goals, reach))
        return places, present, self.add("Concat", moving, helping, helping, axis=2), legal

    def legal(self, places: str, present: str, movement: str) -> str:
        """Add `legal_choices` without choice 0."""
        rows, inland = self.board.rows, self.board.terrain == INLAND
        table = torch.zeros(P, ACTS, dtype=torch.bool)
        table[:, 0], table[:, 1], table[:, 2] = True, ~inland, ~inland & (rows[:, 2] != rows[:, 3])
        builds = self.unsqueezed(self.add("Not", self.add("Greater", self.due("disbands"), self.zero)), 2)
        builds = self.add("Or", builds, self.constant(torch.arange(ACTS) == 0))
        adjustments = self.add("And", self.add("Gather", self.constant(table), places), builds)
        retreats = self.padded(self.at(self.group(RETREATS.start, RETREATS.stop), places), ACTS - SIDES)
        retreats = self.add("Greater", retreats, self.zero)
        cases, legal = ((self.winter, adjustments), (self.retreating, retreats)), movement
        for case, allowed in cases:  # onnxruntime has no Where of booleans
            case = self.unsqueezed(case, 2)
            legal = self.add("And", legal, self.add("Not", case))
            legal = self.add("Or", legal, self.add("And", case, allowed))
        return self.add("And", legal, self.unsqueezed(present, 2))

    def in_turn(self, h: str, units: Sequence[str]) -> list[tuple[str, str]]:
        """Add `OrderNetwork._in_turn`: log-probabilities and choice of each unit in order."""
        at_target, at_unit = torch.zeros(2, CHOICES, EVENTS)
        at_unit[:, STAYS] = 1.0
        at_unit[1 : 1 + SIDES] = nn.functional.one_hot(torch.tensor(LEAVES), EVENTS).float()
        for kind, event in enumerate((ENTERS, STAY_HELPED, ENTRY_HELPED)):
            at_target[1 + kind * SIDES : 1 + (kind + 1) * SIDES, event] = 1.0
        tables, identity = (self.constant(at_target), self.constant(at_unit)), self.constant(torch.eye(P))
        zeros = self.constant(torch.zeros(1, P, EVENTS))
        counts = self.add("Add", zeros, self.add("Mul", self.zero, self.group(0, 1)))
        decided = []
        for number in range(U):
            places, present, targets, _ = unit = tuple(self.columns(x, number, number + 1) for x in units)
            decided.append(self.decided(h, unit, counts))
            chosen = decided[-1][1]
            index = self.add("Max", self.add("Sub", chosen, self.constant([1])), self.constant([0]))
            goal = self.add("GatherElements", self.reshaped(targets, -1, ACTS), index, axis=1)
            counted = self.add("And", present, self.add("Not", self.winter))
            counted = self.unsqueezed(self.add("Cast", counted, to=self.onnx.TensorProto.FLOAT), 2)
            for province, table in zip((goal, places), tables, strict=True):
                column = self.add("Transpose", self.add("Gather", identity, province), perm=[0, 2, 1])
                events = self.add("Mul", self.add("Gather", table, chosen), counted)
                counts = self.add("Add", counts, self.add("MatMul", column, events))
        return decided

    def decided(self, h: str, units: Sequence[str], counts: str | None) -> tuple[str, str]:
        """Add `OrderNetwork._log_probs` of units, after events `counts` [N, P, E]; return them and the likeliest."""
        places, _, targets, legal = units
        network, actor, hidden = self.network, self.network.actor, self.network.config.hidden
        plain = vectors = self.at(h, places)
        if counts is not None and (turns := network.turns) is not None:
            beside = self.add("MatMul", self.add("Gather", self.near, places), counts)
            around = self.add("Concat", vectors, self.at(counts, places), beside, axis=2)
            vectors = self.add("Add", vectors, self.add("Relu", self.affine(turns.around, around)))
        questions = self.reshaped(self.affine(actor.ask, vectors), 0, -1, 3, hidden)
        columns = self.unsqueezed(self.add("Transpose", h, perm=[0, 2, 1]), 1)
        answers = self.add("MatMul", questions, columns)
        answers = self.add("Div", answers, self.constant([math.sqrt(hidden)]))
        scores = self.add("GatherElements", answers, targets, axis=3)
        if counts is not None and turns is not None:
            weights = self.unsqueezed(self.affine(turns.there, questions), 4)
            counted = self.add("MatMul", self.at(counts, targets), weights)
            scores = self.add("Add", scores, self.reshaped(counted, 0, -1, 3, SIDES))
        scores = self.reshaped(scores, 0, -1, ACTS)
        if network.adjust is not None:
            adjusted = self.padded(self.affine(network.adjust, plain), ACTS - ADJUSTMENTS)
            scores = self.add("Where", self.unsqueezed(self.winter, 2), adjusted, scores)
        scores = self.add("Where", legal, scores, self.never)
        log_probs = self.add("LogSoftmax", self.add("Concat", self.affine(actor.hold, vectors), scores, axis=2), axis=2)
        return log_probs, self.add("ArgMax", log_probs, axis=2, keepdims=0)

    def adjusted(self, log_probs: str, present: str) -> str:
        """Add the likeliest legal set of adjustments; a second TopK inverts the order of the first."""
        rest, acts = (self.add("Slice", log_probs, *map(self.constant, ([a], [b], [2]))) for a, b in ((0, 1), (1, 99)))
        gains = self.add("Sub", acts, rest)
        gain, best = self.add("ReduceMax", gains, axes=[2], keepdims=0), self.add("ArgMax", gains, axis=2, keepdims=0)
        number = self.onnx.TensorProto.FLOAT
        _, rank = self.top(self.add("Cast", self.top(gain)[1], to=number), largest=0)
        disbands = self.due("disbands")
        among = self.add("Less", self.add("Cast", rank, to=number), self.add("Add", self.due("builds"), disbands))
        needed = self.add("Or", self.add("Greater", disbands, self.zero), self.add("Greater", gain, self.zero))
        acts = self.add("And", present, self.add("And", among, needed))
        return self.add("Where", acts, self.add("Add", best, self.constant([1])), self.constant([0]))

    def affine(self, module: nn.Module, x: str) -> str:
        """Add a linear layer of the last axis of `x`; its weights are stored once."""
        assert isinstance(module, nn.Linear)
        if module not in self.linear:
            self.linear[module] = self.constant(module.weight.T.contiguous()), self.constant(module.bias)
        weight, bias = self.linear[module]
        return self.add("Add", self.add("MatMul", x, weight), bias)

    def at(self, rows: str, index: str) -> str:
        """Add the rows of [N, P, X] at an index [N, ...] of provinces, [N, ..., X]."""
        return self.add("GatherND", rows, self.unsqueezed(index, -1), batch_dims=1)

    def due(self, name: str) -> str:
        """Add the observer's builds or disbands [N, 1]."""
        column = self.columns("observation", AT[name].start, AT[name].start + 1)
        return self.add("Round", self.add("Mul", column, self.constant([float(U)])))

    def every(self, step: int) -> str:
        """Add the int64 [P] multiples of `step`."""
        return self.constant(torch.arange(P) * step)

    def forms(self, name: str) -> str:
        """Add the form [N, P] of a column group."""
        return self.add("ArgMax", self.group(AT[name].start, AT[name].stop), axis=2, keepdims=0)

    def group(self, start: int, stop: int) -> str:
        """Add columns of every province, [N, P, stop - start]."""
        return self.add("Slice", self.seen, *map(self.constant, ([start], [stop], [2])))

    def padded(self, x: str, count: int) -> str:
        """Add `count` zeros after the last axis of [N, U, X]."""
        return self.add("Pad", x, self.constant([0, 0, 0, 0, 0, count]))

    def phases(self, *which: int) -> str:
        """Add the columns [N, n] of phases; those of the whole game are in the first province."""
        return self.add("Gather", "observation", self.constant([AT["phase"].start + phase for phase in which]), axis=1)

    def reshaped(self, x: str, *shape: int) -> str:
        """Add `x` in another shape; 0 is its own size there."""
        return self.add("Reshape", x, self.constant(shape))

    def top(self, x: str, *, largest: int = 1) -> tuple[str, str]:
        """Add the sorted U largest values of [N, n] and their indices; of equal ones the first comes first."""
        name = f"top_{len(self.nodes)}"
        outputs = [f"{name}_values", f"{name}_indices"]
        self.add("TopK", x, self.constant([U]), axis=1, largest=largest, sorted=1, outputs=outputs)
        return outputs[0], outputs[1]

    def unsqueezed(self, x: str, axis: int) -> str:
        """Add `x` with an axis of size 1."""
        return self.add("Unsqueeze", x, self.constant([axis]))
