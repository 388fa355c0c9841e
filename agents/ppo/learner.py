"""One PPO update: epochs of shuffled minibatches on the clipped surrogate, see `losses.py`.

The update stops at the first minibatch whose KL estimate exceeds `target_kl`; that minibatch is not applied. On CUDA a
step is one graph, and what stops it is a flag on the device, which is read once an epoch. With fp16, with memory, with
several processes and on a CPU the KL is read for each minibatch. Statistics stay on the device until the end. Actor and
critic share no weights, so each has its own half of the loss. On a CPU with a spare core they run in parallel; the
critic's thread, which has less to do, also gathers the next minibatch. With several processes, each computes its part
of the gradient, and one all-reduce per minibatch sums the parts.

Networks run in float32, or after some warm-up updates in lower precision in the matrix products. `auto` means bf16 if
the device multiplies it faster than float32: CUDA devices that support it, CPUs with AMX-BF16, and AMD CPUs with
AVX512-BF16. On Intel cores AVX512-BF16 is half as fast as float32 (docs/results/speed.md), and emulated bf16 is many
times slower. Only the networks run under the context; densities, losses and the KL stay in float32. Collect under the
same context as the update; otherwise the first ratios are not equal to 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from sparring.agents.distributed.processes import ALONE, ParallelHalves, Processes, restore_generator
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.ppo.captured import Captured
from sparring.agents.ppo.losses import (
    Joint,
    Minibatch,
    Samples,
    Surrogate,
    ValueLoss,
    explained_variance,
    gathered,
    orders,
    parts,
)
from sparring.agents.ppo.optimizer import Average, adam
from sparring.agents.ppo.rollout import BatchEnv, Rollout, SequenceSamples
from sparring.agents.run.fidelity import first_cpu
from sparring.configs.core.errors import choose
from sparring.configs.core.tensor_file import check_optimizer, check_tensors
from sparring.configs.schema import PRECISIONS, PPOConfig

STATISTICS = ("policy_loss", "value_loss", "approx_kl", "clip_fraction", "ratio_max", "entropy", "grad_norm")
KL, LARGEST = STATISTICS.index("approx_kl"), STATISTICS.index("ratio_max")
POLICY_STATISTICS = tuple(name for name in STATISTICS if name not in ("value_loss", "grad_norm"))
CLIP_EPSILON = 1e-6
"""Added to the norm by which a gradient is divided, as torch does."""
VALUE_CHUNK = 8192
"""Observations per critic forward: few enough for the caches and to limit the memory of activations."""
PIECE_BYTES = 2 << 20
"""Most bytes of a layer's activations, in fp32, learning on a CPU: in the caches ReLU and biases are cheap."""


class PPOLearner:
    """The PPO update of `network`, with its optimizer, the shuffling of samples, and the precision.

    `seed` seeds the shuffling. With `threads` > 1 on a CPU, actor and critic are trained in parallel. With several
    `processes`, each has its own samples, and all have the same seed and weights.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        config: PPOConfig,
        autocast: Autocast,
        *,
        seed: int,
        threads: int = 1,
        processes: Processes = ALONE,
    ) -> None:
        device = network.log_std.device
        self._processes = processes
        self.network, self.config, self.autocast = network, config, autocast
        self.optimizer = adam(network, config.learning_rate)
        # All gradients in one tensor; the parameters' gradients are views: norm, clip and sum take one operation each.
        sizes = [parameter.numel() for parameter in network.parameters()]
        self._gradient = torch.zeros(sum(sizes), device=device)
        parts = zip(network.parameters(), self._gradient.split(sizes), strict=True)
        self._views = [(parameter, part.view_as(parameter)) for parameter, part in parts]
        self.shuffle = torch.Generator(device).manual_seed(seed)
        self.average = Average(network, config.average_decay) if config.average_decay else None
        """Average of the weights over the updates, if configured."""
        self._halves = ParallelHalves(parallel=threads > 1 and device.type == "cpu")
        self._recurrent = network.memory_size > 0
        self._captures = device.type == "cuda" and not self._recurrent
        self._rate, self._going = torch.zeros((), device=device), torch.ones((), dtype=torch.bool, device=device)
        self._graphs: dict[tuple[object, ...], Captured[Tensor]] = {}
        whole = self._recurrent or device.type != "cpu"  # sequences cannot be cut
        self._piece = sys.maxsize if whole else max(1, PIECE_BYTES // (4 * network.config.hidden))

    def new_rollout(self, env: BatchEnv, steps: int) -> Rollout:
        """Create the storage for `steps` steps of an environment."""
        return Rollout(self.network, steps, env, sequence_length=self.config.sequence_length)

    def values(self, obs: Tensor, number: int) -> Tensor:
        """Return V(s) [...] of obs [..., D] in the precision of update `number`, half of it in the second thread."""
        chunks = obs.flatten(0, -2).split(VALUE_CHUNK)
        half = len(chunks) // 2
        first, second = self._halves.both(
            partial(self._values, chunks[:half], number), partial(self._values, chunks[half:], number)
        )
        return torch.cat(first + second).view(obs.shape[:-1])

    def update(
        self,
        samples: Samples | SequenceSamples,
        *,
        number: int,
        learning_rate: float,
        entropy_coefficient: float,
        key: Tensor | None = None,
    ) -> dict[str, float]:
        """Train the network on `samples` and return the `train/...` metrics.

        `number` counts updates from 0 and selects the precision; `learning_rate` and `entropy_coefficient` are this
        update's, already annealed. `key` orders the samples of all processes, None of a single one. A step whose loss
        or gradient is not finite is skipped and counted. The means are over the other steps, and 0 if there are none.
        """
        for parameter, view in self._views:
            parameter.grad = view
        columns = (samples.advantage, samples.value, samples.returns)
        joint = None if key is None else Joint.gather(columns, key, self._processes)
        guarded = self._captures and joint is None and not self.autocast.scaler.is_enabled()
        self._rate.fill_(learning_rate)
        self._set_rate(self._rate if guarded else learning_rate)
        take = self._guarded_steps if guarded else partial(self._steps, joint=joint)
        rows, skipped, kl_stop = [], 0, False
        for row, finite, applied in take(samples, number, entropy_coefficient):
            if not finite:
                skipped += 1
                continue
            rows.append(row)
            if kl_stop := not applied:
                break
        self._set_rate(learning_rate)  # a number is what checkpoints keep
        judged = joint or samples
        counts = {"kl_stop": float(kl_stop), "skipped_steps": float(skipped)}
        counts["epochs_completed"] = (len(rows) - kl_stop) / parts(len(judged.returns), self.config)
        metrics = _metrics(self.network, judged, rows, counts)
        if self.average:
            self.average.follow(self.network)
        return metrics

    def restart(self, weights: Mapping[str, Tensor]) -> None:
        """Continue from other weights, with new optimizer moments and a new average."""
        self.network.load_state_dict(weights)
        self.network.clamp_log_std()
        self.optimizer.state.clear()
        self._graphs.clear()  # they write the moments where they were
        if self.average:
            self.average.updates.zero_()

    def reset_log_std(self, log_std: float) -> None:
        """Reset `log_std` and its optimizer state, which belongs to the old value."""
        self.network.reset_log_std(log_std)
        self.optimizer.state.pop(self.network.log_std, None)
        self._graphs.clear()

    @property
    def released(self) -> PolicyNetwork:
        """The network that plays outside of training: with averaged weights, if configured."""
        return self.average.network if self.average and self.average.updates else self.network

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimizer, gradient scaler and the generator of the sample order."""
        average = {"average": self.average.state_dict()} if self.average else {}
        return average | {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.autocast.scaler.state_dict(),
            "shuffle": self.shuffle.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict` of this learner, or a stored one that has passed `check`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._graphs.clear()
        if state["scaler"]:  # empty if saved without fp16, as on a CPU
            self.autocast.scaler.load_state_dict(state["scaler"])
        restore_generator(self.shuffle, state["shuffle"], "shuffle")
        if self.average:
            self.average.load_state_dict(state["average"])

    def check(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a stored state for `load_state_dict`; raises `ContentError` for one of another learner or with NaN."""
        weights = check_tensors(state["network"], self.network.state_dict(), "network")
        extra = {}
        if self.average:
            extra["average"] = check_tensors(state.get("average", {}), self.average.state_dict(), "average")
        return {
            **state,
            "network": weights,
            "optimizer": check_optimizer(state["optimizer"], self.optimizer, "optimizer"),
            **extra,
        }

    def released_of(self, state: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the weights of `released` in a `state_dict`."""
        average = dict(state.get("average", {}))
        return average if average and average.pop("updates") else dict(state["network"])

    def close(self) -> None:
        """End the learner's thread."""
        self._halves.close()

    @torch.no_grad()
    def judge(
        self, obs: Tensor | Sequences, final_obs: Tensor, final_rows: Tensor, *, number: int
    ) -> tuple[Tensor, Tensor]:
        """See `rollout.Critic`; in the precision of update `number`."""
        if not self._recurrent:
            return self.values(cast(Tensor, obs), number), self.values(final_obs, number)
        with self.autocast.context(number):
            return self.network.values(cast(Sequences, obs), final_obs, final_rows)

    @torch.no_grad()
    def _values(self, chunks: Sequence[Tensor], number: int) -> list[Tensor]:
        with self.autocast.context(number):
            return list(map(self.network.value, chunks))

    def _steps(
        self,
        samples: Samples | SequenceSamples,
        number: int,
        entropy_coefficient: float,
        *,
        joint: Joint | None,
    ) -> Iterator[tuple[Tensor, bool, bool]]:
        """Take the steps of an update; yield the `STATISTICS` of each, whether they are finite, and if it was applied.

        A step whose KL is beyond the target is not applied. With several processes, all take the same steps.
        """
        for measured in self._gradients(samples, joint, number, entropy_coefficient):
            self.autocast.scaler.unscale_(self.optimizer)
            norm = torch.linalg.vector_norm(self._gradient)  # of both halves, before clipping
            row = torch.cat([measured, norm.unsqueeze(0)])
            reached, finite = torch.stack([row[KL], row.isfinite().all()]).tolist()
            if applied := bool(finite) and not 0.0 < self.config.target_kl < reached:
                self._step(norm)
            else:
                self.autocast.scaler.update()
            yield row, bool(finite), applied

    def _guarded_steps(
        self, samples: Samples | SequenceSamples, number: int, entropy_coefficient: float
    ) -> Iterator[tuple[Tensor, bool, bool]]:
        """Do what `_steps` does with one graph a step; the flags of an epoch are read together."""
        flat = cast(Samples, samples)
        coefficient = flat.value.new_tensor(entropy_coefficient)
        self._going.fill_(True)
        for _, chunks in orders(len(flat.value), self.config, self.shuffle):
            taken = [self._captured(flat, len(rows), number)(rows, coefficient).clone() for rows in chunks]
            flags = torch.stack([step[len(STATISTICS) :] for step in taken]).tolist()
            for step, (finite, applied) in zip(taken, flags, strict=True):
                yield step[: len(STATISTICS)], bool(finite), bool(applied)

    def _guarded_step(self, samples: Samples, rows: Tensor, coefficient: Tensor, number: int) -> Tensor:
        """Take a step unless it is not finite, beyond the target, or after one that was.

        Return its `STATISTICS`, and as numbers whether they are finite and whether it was applied. The optimizer leaves
        weights and moments as they are where `found_inf` is 1.
        """
        measured, _ = self._gradient_of(gathered(samples, rows), iter(()), number, coefficient)
        norm = torch.linalg.vector_norm(self._gradient)
        row = torch.cat([measured, norm.unsqueeze(0)])
        finite = row.isfinite().all()
        if self.config.target_kl > 0.0:
            self._going &= (row[KL] <= self.config.target_kl) | ~finite
        applied = self._going & finite
        self.optimizer.found_inf = (~applied).float()
        self._step(norm)
        return torch.cat([row, torch.stack([finite, applied]).float()])

    def _set_rate(self, rate: float | Tensor) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _gradients(
        self, samples: Samples | SequenceSamples, joint: Joint | None, number: int, entropy_coefficient: float
    ) -> Iterator[Tensor]:
        """Compute the gradient of each minibatch of all processes in turn; yield the statistics without the norm.

        With CUDA graphs, one for each size of a minibatch, the yielded tensor is overwritten.
        """
        if self._captures and joint is None:
            samples = cast(Samples, samples)
            coefficient = samples.value.new_tensor(entropy_coefficient)
            for _, chunks in orders(len(samples.value), self.config, self.shuffle):
                for rows in chunks:
                    yield self._captured(samples, len(rows), number)(rows, coefficient)
            return
        batches = samples.minibatches(self.config, self.shuffle, joint)
        following = next(batches, None)
        while (batch := following) is not None:
            measured, following = self._gradient_of(batch, batches, number, entropy_coefficient)
            yield measured if joint is None else self._add_up(measured)

    def _gradient_of(
        self, batch: Minibatch, batches: Iterator[Minibatch], number: int, entropy_coefficient: float | Tensor
    ) -> tuple[Tensor, Minibatch | None]:
        """Compute the gradient of a minibatch; return the statistics without the norm, and the next minibatch."""
        self._gradient.zero_()
        policy, (loss_v, following) = self._halves.both(
            partial(self._policy_gradient, batch, number, entropy_coefficient),
            partial(self._value_gradient, batch, number, batches),
        )
        loss, *rest = policy
        return torch.stack([loss, loss_v, *rest]), following

    def _captured(self, samples: Samples, size: int, number: int) -> Captured[Tensor]:
        """Return the graph of a step on `size` samples by their rows, recorded once for a precision.

        With fp16 it has the gradient alone, since the scaler decides on the host.
        """
        key = (size, number >= self.autocast.warmup_updates, tuple(tensor.data_ptr() for tensor in samples))
        if key not in self._graphs:

            def step(rows: Tensor, coefficient: Tensor) -> Tensor:
                if self.autocast.scaler.is_enabled():
                    return self._gradient_of(gathered(samples, rows), iter(()), number, coefficient)[0]
                return self._guarded_step(samples, rows, coefficient, number)

            inputs = torch.arange(size, device=samples.value.device), samples.value.new_zeros(())
            going = self._going.clone()
            self._going.fill_(False)  # the calls before the recording change nothing
            for group in self.optimizer.param_groups:
                group["capturable"] = True
            self._graphs[key] = Captured(step, *inputs)
            for group in self.optimizer.param_groups:
                group["capturable"] = False
            self._going.copy_(going)
        return self._graphs[key]

    def _policy_gradient(
        self, batch: Minibatch, number: int, entropy_coefficient: float | Tensor
    ) -> tuple[Tensor, ...]:
        """Add the actor's gradient of a minibatch; return `POLICY_STATISTICS`."""
        measured = []
        for piece in batch.pieces(self._piece):
            with self.autocast.context(number):
                obs = cast(Tensor, piece.obs)
                log_prob, entropy = self.network.evaluate(obs, piece.actions)
            options = piece.log_prob, piece.advantage, self.config.clip, piece.size
            loss, *rest = Surrogate.apply(log_prob, *options)  # type: ignore[no-untyped-call]
            mean_entropy = piece.mean(entropy)
            total = loss - entropy_coefficient * mean_entropy
            self.autocast.scaler.scale(total).backward()
            measured.append((loss.detach(), *rest, mean_entropy.detach()))
        return joined_statistics(measured)

    def _value_gradient(
        self, batch: Minibatch, number: int, batches: Iterator[Minibatch]
    ) -> tuple[Tensor, Minibatch | None]:
        """Add the critic's gradient of a minibatch; return its loss, and the next minibatch: the actor takes longer."""
        losses = []
        for piece in batch.pieces(self._piece):
            with self.autocast.context(number):
                value = self.network.value(cast(Tensor, piece.obs))
            options = piece.value, piece.returns, self.config.value_clip, piece.size
            loss = ValueLoss.apply(value, *options)  # type: ignore[no-untyped-call]
            self.autocast.scaler.scale(self.config.value_coefficient * loss).backward()
            losses.append(loss.detach())
        return sum(losses[1:], losses[0]), next(batches, None)

    def _add_up(self, measured: Tensor) -> Tensor:
        """Sum gradients and `measured` (partial means) over all processes in one flat all-reduce."""
        largest = measured.new_zeros(self._processes.size)  # a gather by summation: one element per rank
        largest[self._processes.rank] = measured[LARGEST]
        self._processes.add_up_together([self._gradient, measured, largest])
        measured[LARGEST] = largest.max()
        return measured

    def _step(self, norm: Tensor) -> None:
        """Clip the gradient of both halves, whose norm is `norm`, and take one optimizer step."""
        self._gradient.mul_((self.config.max_grad_norm / (norm + CLIP_EPSILON)).clamp(max=1.0))
        self.autocast.scaler.step(self.optimizer)
        self.autocast.scaler.update()
        self.network.clamp_log_std()


def joined_statistics(pieces: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return a minibatch's `POLICY_STATISTICS` from its pieces: their sums, and the maximum for `ratio_max`."""
    if len(pieces) == 1:
        return pieces[0]
    columns = map(torch.stack, zip(*pieces, strict=True))
    named = zip(POLICY_STATISTICS, columns, strict=True)
    return tuple(column.max() if name == "ratio_max" else column.sum() for name, column in named)


def _metrics(
    network: PolicyNetwork,
    samples: Samples | SequenceSamples | Joint,
    rows: list[Tensor],
    counts: dict[str, float],
) -> dict[str, float]:
    """Return means over the minibatches (the maximum for `ratio_max`), in one device read, and the counts."""
    statistics = torch.stack(rows or [torch.zeros(len(STATISTICS), device=samples.value.device)])
    row = statistics.mean(0)
    row[LARGEST] = statistics[:, LARGEST].max()
    kl_max = statistics[:, KL].max().clamp(min=0.0)
    variance = explained_variance(samples.value, samples.returns)
    weight_norm = get_total_norm(list(network.state_dict().values()))
    log_std = [f"log_std_{i}" for i in range(network.continuous)]
    names = [*STATISTICS, "explained_variance", "weight_norm", "kl_max", *log_std]
    spread = network.log_std.detach()
    spread = spread.mean(0) if spread.dim() == 2 else spread  # gSDE: per action, over the features
    read = torch.cat([row, torch.stack([variance, weight_norm, kl_max]), spread]).tolist()
    return {f"train/{name}": number for name, number in [*zip(names, read, strict=True), *counts.items()]}


class Autocast:
    """Full precision for the first `warmup_updates`, then `precision` (one of `PRECISIONS`) on `device`.

    `dtype` is the lower precision, or None. `scaler` scales the loss for fp16 and is disabled otherwise. fp16 on a CPU
    is treated as `auto`; bf16 where it is slow runs slowly. `note` then holds a warning, else it is empty.
    """

    def __init__(self, precision: str, device: torch.device | str, *, warmup_updates: int = 0) -> None:
        self.device = torch.device(device)
        self.dtype = resolve(precision, self.device)
        self.note = note(precision, self.device)
        self.warmup_updates = warmup_updates
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)

    def context(self, update: int) -> AbstractContextManager[object]:
        """Create a context for the forward passes of update number `update` (from 0).

        Leave it before weights change: it caches low-precision copies.
        """
        lower = self.dtype is not None and update >= self.warmup_updates
        return torch.autocast(self.device.type, dtype=self.dtype or torch.bfloat16, enabled=lower)


def resolve(precision: str, device: torch.device) -> torch.dtype | None:
    """Return the lower precision for `precision` on `device`, None for float32; raise on unknown names."""
    choose("ppo.precision", precision, PRECISIONS)
    if precision == "auto" or (precision == "fp16" and device.type != "cuda"):
        precision = "bf16" if fast_bf16(device) else "fp32"
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def note(precision: str, device: torch.device) -> str:
    """Return a one-line warning about `precision` on `device`; empty if it is used as configured."""
    if precision == "fp16" and device.type != "cuda":
        instead = "bf16" if fast_bf16(device) else "fp32"
        return f"ppo.precision=fp16 requires CUDA; this device is {device.type} and trains in {instead} instead"
    if precision == "bf16" and not fast_bf16(device):
        return f"ppo.precision=bf16 is slower than fp32 on this {device.type}; fp32 or auto is faster"
    return ""


def fast_bf16(device: torch.device) -> bool:
    """Return True if `device` multiplies bf16 matrices faster than float32 ones."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    flags, amd = first_cpu().get("flags", "").split(), first_cpu().get("vendor_id") == "AuthenticAMD"
    return device.type == "cpu" and ("amx_bf16" in flags or ("avx512_bf16" in flags and amd))
