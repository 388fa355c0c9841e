"""One learning step on a batch of decisions: minibatches, reference, loss, optimizer, and the EMA reference.

The old log-probabilities of a decision's tokens were recorded at sampling, by weights that may be some steps old or on
another machine. With `use_importance_correction` the trainer first scores all decisions once and clips around these
scores; importance weights correct the difference between sampler and trainer.

Each process computes the gradient of its part of every minibatch, under the totals of the whole minibatch. One
all-reduce adds up the gradients. Metrics are computed from the tokens of all processes. In a divided model
(`Adapters.divide`), all processes make every pass together, so all must make the same number of passes. Every text is
read separately there, and a process with fewer parts repeats one that does not count.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_, get_total_norm

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.language.backend import Decision
from sparring.agents.language.decoding.scoring import Scores, TokenBatch, collate, score
from sparring.agents.language.grpo.objective import kl
from sparring.agents.language.grpo.objective.loss import (
    NO_METRICS,
    LogProbs,
    Source,
    Terms,
    Tokens,
    Totals,
    check_agreement,
    correction,
    loss_metrics,
    policy_loss,
)
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import check_optimizer, check_tensors
from sparring.configs.language import ROLE
from sparring.configs.language.runs import GRPORunConfig

DR_GRPO_LENGTH = 64
"""Constant divisor of dr_grpo: roughly the number of decision tokens in the orders of ten units."""
AGREEMENT = 0.01
"""Largest gap in nats between sampler and trainer under equal weights: rounding is 1e-4, a wrong mask is nats."""
COMPARED = 16
"""Number of decisions per step that are scored again with the weights that played them."""


@dataclass(frozen=True)
class Sample:
    """A decision and its advantage within its group; `before` is set with importance correction."""

    decision: Decision
    advantage: float
    before: Before | None = None


@dataclass(frozen=True)
class Before:
    """Trainer log-probabilities, importance weights and keep mask of a sample's N decision tokens before the step."""

    logp: Tensor
    weight: Tensor
    kept: Tensor


class GRPOLearner:
    """Learner of the named `parameters` of `model`; `without_adapters` returns a context that disables the adapters.

    All `processes` call `learn` and `agreement` with the same arguments. `divided` is true for a model divided among
    them. A game has `seats`.
    """

    def __init__(
        self,
        model: Any,
        parameters: dict[str, Parameter],
        config: GRPORunConfig,
        *,
        base: str,
        without_adapters: Any,
        seed: int,
        processes: Processes = ALONE,
        divided: bool = False,
        seats: int = 1,
    ) -> None:
        self._processes, self._divided = processes, divided
        self.model, self.parameters, self._run = model, parameters, config
        self.grpo = self.config = config.grpo  # the guard reads `config.target_kl`
        self.optimizer = torch.optim.AdamW(parameters.values(), lr=self.grpo.learning_rate, weight_decay=0.0)
        self.reference = kl.Reference(parameters, self.grpo, base=base, without_adapters=without_adapters)
        self.beta = kl.Beta(self.grpo)
        self.version = 0
        self.role_baseline = torch.zeros(seats, dtype=torch.float64)
        """Of `grpo.baseline=role`, by seat."""
        self._seed = seed
        self._device = next(iter(parameters.values())).device

    def learn(self, samples: Sequence[Sample], *, rate_scale: float = 1.0) -> dict[str, float]:
        """Train on all `samples` in minibatches, `epochs` times. Raises `ValueError` for decisions that are not exact.

        Without samples only the step counters advance, and `processing/empty_batches` is 1.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.grpo.learning_rate * rate_scale
        parts, tally = [], StepStats()
        corrected: dict[str, float] = dict(NO_METRICS) if self.grpo.use_importance_correction else {}
        if self.grpo.use_importance_correction and samples:
            samples, corrected = self._corrected(samples)
        for epoch in range(self.grpo.epochs if samples else 0):
            order = np.random.default_rng([self._seed, self.version, epoch]).permutation(len(samples))
            for begin in range(0, len(order), self.grpo.minibatch_samples):
                chosen = [samples[number] for number in order[begin : begin + self.grpo.minibatch_samples].tolist()]
                parts.append(self._minibatch(chosen, tally))
                tally.stopped |= self.grpo.target_kl > 0 and tally.kl_last > self.grpo.target_kl
                if tally.stopped:
                    break
            if tally.stopped:
                break
        return self._end(parts, tally) | corrected

    @torch.no_grad()
    def agreement(self, decisions: Sequence[Decision], weights: Mapping[str, Tensor]) -> dict[str, float]:
        """Compare sampler and trainer, in nats, on up to `COMPARED` decisions under the `weights` that played them.

        Raises `DisagreementError` for a gap above `AGREEMENT`, unless importance correction is on.
        """
        deciding = [decision for decision in decisions if (decision.allowed_counts > 1).any()]
        if not deciding:
            return {}
        batch = self._collate(deciding[:: -(-len(deciding) // COMPARED)])
        with kl.in_place_of(self.parameters, {name: value.to(self._device) for name, value in weights.items()}):
            logp = self._processes.broadcast(self._score(batch).logp.cpu()).to(self._device)
            trainer = LogProbs(logp, Source.TRAINER, "those that played")
        if not self.grpo.use_importance_correction:
            check_agreement(trainer, LogProbs(batch.sampled_logp, Source.SAMPLER, "sampler"), at_most=AGREEMENT)
        gap = (trainer.values - batch.sampled_logp).abs()
        return {"ppo/logp_gap_mean": float(gap.mean()), "ppo/logp_gap_max": float(gap.max())}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that further learning depends on."""
        return {
            "parameters": {name: parameter.detach().clone() for name, parameter in self.parameters.items()},
            "optimizer": self.optimizer.state_dict(),
            "reference": self.reference.state_dict(),
            "beta": self.beta.state_dict(),
            "version": self.version,
            **({"role_baseline": self.role_baseline} if self.grpo.baseline == ROLE else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict` of this learner, or a stored one that has passed `check`."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state["parameters"][name])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))  # it keeps references to the tensors
        self.reference.load_state_dict(state["reference"])
        self.beta.load_state_dict(state["beta"])
        self.version = state["version"]
        self.role_baseline = state.get("role_baseline", self.role_baseline)

    def check(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a stored state for `load_state_dict`; raises `ContentError` for one of other adapters or with NaN.

        The reference checks its part itself.
        """
        weights = check_tensors(state["parameters"], self.parameters, "parameters")
        moments = check_optimizer(state["optimizer"], self.optimizer, "optimizer")
        expected = {"role_baseline": self.role_baseline} if self.grpo.baseline == ROLE else {}
        baseline = check_tensors({key: state[key] for key in expected if key in state}, expected, "learner")
        return {**state, "parameters": weights, "optimizer": moments, **baseline}

    @torch.no_grad()
    def _corrected(self, samples: Sequence[Sample]) -> tuple[list[Sample], dict[str, float]]:
        """Return the samples with trainer scores and importance weights from before the step, and the metrics."""
        read = samples if self._processes.alone else [sample for sample in samples if _decisions(sample)]
        parts = [(self._score(self._collate(part)).logp.cpu(), counts) for part, counts in self._micro_batches(read)]
        logps = self._processes.gather_items([logp for logp, counts in parts if counts])
        batch = self._collate(samples)
        trainer = LogProbs(torch.cat([torch.empty(0), *logps]).to(self._device), Source.TRAINER, self._weights)
        sampler = LogProbs(batch.sampled_logp, Source.SAMPLER, "sampler")
        importance = correction(trainer, sampler, batch.sample, len(samples), self.grpo)
        counts = torch.bincount(batch.sample, minlength=len(samples)).tolist()
        split = zip(
            *(values.split(counts) for values in (trainer.values, importance.weight, importance.kept)), strict=True
        )
        before = [replace(sample, before=Before(*part)) for sample, part in zip(samples, split, strict=True)]
        return before, importance.metrics

    def _minibatch(self, samples: Sequence[Sample], tally: StepStats) -> tuple[list[Terms], Totals]:
        """Take an optimizer step on whole samples, in micro-batches of `model.batch_size`."""
        counts = [_decisions(sample) for sample in samples]
        sizes = [len(sample.decision.token_ids) for sample in samples]
        totals = Totals.of(torch.tensor(counts), torch.tensor(sizes), length=DR_GRPO_LENGTH)
        if totals.empty:
            return [], totals
        self.optimizer.zero_grad(set_to_none=True)
        terms = []
        samples = [sample for sample, count in zip(samples, counts, strict=True) if count]  # others have no gradient
        for part, counted in self._micro_batches(samples):
            tokens = self._tokens(part, tally if counted else StepStats())
            micro_batch = policy_loss(tokens, totals, self.grpo, beta=self.beta.value)
            (micro_batch.loss if counted else 0.0 * micro_batch.loss).backward()
            terms += [micro_batch] if counted else []
        self._step(tally, self._add_up(tally, sum(float(term.loss.detach()) for term in terms)))
        return terms, totals

    def _micro_batches(self, samples: Sequence[Sample]) -> Iterator[tuple[Sequence[Sample], bool]]:
        """Yield the samples of this process in parts of `model.batch_size`, and whether they count."""
        size, part = self._run.model.batch_size, self._processes.part(samples)
        for begin in range(0, len(part), size):
            yield part[begin : begin + size], True
        if self._divided:
            largest = -(-len(samples) // self._processes.size)
            for _ in range(-(-largest // size) - -(-len(part) // size)):
                yield samples[:1], False

    def _add_up(self, tally: StepStats, loss: float) -> float:
        """Add up the gradients of a minibatch over the processes, end it in `tally`, and return the joint loss."""
        kls = tally.kls(self._device)
        if self._processes.alone:
            tally.end_minibatch(float(kls.mean()))
            return loss
        gradients = []
        for parameter in self.parameters.values():
            if parameter.grad is None:  # this process had no sample
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        sums = torch.stack([torch.tensor(float(loss), device=self._device), kls.sum(), torch.ones_like(kls).sum()])
        self._processes.add_up_together([*gradients, sums])
        joint, kl_sum, tokens = sums.tolist()
        tally.end_minibatch(kl_sum / tokens)
        return float(joint)

    def _collate(self, decisions: Sequence[Sample] | Sequence[Decision]) -> TokenBatch:
        """Return the decisions, also of samples, as a batch on the model's device."""
        plain = [item.decision if isinstance(item, Sample) else item for item in decisions]
        return collate(plain, share=not self._divided).to(self._device)

    def _tokens(self, samples: Sequence[Sample], tally: StepStats) -> Tokens:
        """Return the decision tokens of some samples, scored by the policy and by the reference."""
        batch = self._collate(samples)
        scores = self._score(batch)
        sampled = LogProbs(batch.sampled_logp, Source.SAMPLER, "sampler")
        advantage = torch.tensor([sample.advantage for sample in samples], device=self._device)
        tally.log_ratios.append(scores.logp.detach() - batch.sampled_logp)
        tokens = Tokens(
            logp=LogProbs(scores.logp, Source.POLICY, self._weights),
            old=sampled,
            sample=scores.sample,
            advantage=advantage,
            entropy=scores.entropy,
            kl=self._kl(batch, scores, tally),
        )
        before = [sample.before for sample in samples if sample.before is not None]
        if not before:
            return tokens
        old, weight, keep = (torch.cat([getattr(part, name) for part in before]) for name in ("logp", "weight", "kept"))
        return replace(tokens, old=LogProbs(old, Source.TRAINER, self._weights), weight=weight).select(keep)

    def _kl(self, batch: TokenBatch, scores: Scores, tally: StepStats) -> Tensor:
        """Return the KL to the reference [N] at every decision token, with a gradient for the policy."""
        reference = self.reference.score(lambda: self._score(batch).logps)
        policy = LogProbs(scores.logps, Source.POLICY, self._weights)
        drawn = reference.values[batch.chosen]
        tally.k3s.append(kl.k3_times_ratio(scores.logp.detach(), drawn, batch.sampled_logp))
        form, weights = self.grpo.kl_form, self.reference.weights
        if form != "exact":
            return kl.log_ratio_kl(policy, reference, batch.chosen, form, weights=weights)
        return kl.kl_to_reference(policy, reference, scores.row, len(scores.logp), weights=weights)

    def _score(self, batch: TokenBatch) -> Scores:
        return score(self.model, batch)

    def _step(self, tally: StepStats, loss: float) -> None:
        """Step if loss and gradient are finite; clipping would turn an infinite norm into NaN weights."""
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        norm = float(get_total_norm(gradients))
        tally.norms.append(norm)
        if not (math.isfinite(norm) and math.isfinite(loss)):
            tally.skipped += 1
            self.optimizer.zero_grad(set_to_none=True)
            return
        tally.loss += loss
        clip_grad_norm_(self.parameters.values(), self.grpo.max_grad_norm)
        self.optimizer.step()
        tally.steps += 1

    def _end(self, parts: list[tuple[list[Terms], Totals]], tally: StepStats) -> dict[str, float]:
        self.version += 1
        if tally.steps:
            self.reference.update()
        terms = [term for minibatch, _ in parts for term in minibatch]
        if not self._processes.alone:
            on_host = [Terms(*(getattr(term, field.name).detach().cpu() for field in fields(term))) for term in terms]
            terms = self._processes.gather_items(on_host)
            tally.k3s = self._processes.gather_items([values.cpu() for values in tally.k3s])
        names = ("samples", "tokens", "all_tokens")
        joint = Totals(**{name: sum(getattr(part, name) for _, part in parts) for name in names}, length=DR_GRPO_LENGTH)
        metrics = self._processes.broadcast(loss_metrics(terms, joint))
        metrics["benchmark/kl"] = metrics.get("kl/mean", math.nan)
        metrics |= self.beta.metrics() | self.reference.metrics()
        self.beta.observe(metrics.get("kl/mean") if math.isfinite(metrics.get("kl/mean", 0.0)) else None)
        weights = get_total_norm([parameter.detach() for parameter in self.parameters.values()])
        return metrics | tally.metrics() | {"train/weight_norm": float(weights)}

    @property
    def _weights(self) -> str:
        return f"policy@{self.version}"


def _decisions(sample: Sample) -> int:
    """Return the number of decision tokens of a sample that are kept."""
    if not sample.decision.exact:
        why = sample.decision.why_inexact or "no reason given"
        line = f"a decision without exact log-probabilities ({why}) cannot be used for training"
        raise InputError(f"{line}; choose another backend")
    return int((sample.decision.allowed_counts > 1).sum()) if sample.before is None else int(sample.before.kept.sum())


class StepStats:
    """Statistics accumulated over the minibatches of one step."""

    def __init__(self) -> None:
        self.loss, self.steps, self.skipped, self.stopped = 0.0, 0, 0, False
        self.norms: list[float] = []
        self.drifts: list[float] = []
        self.log_ratios: list[Tensor] = []
        """log r = log pi - log pi_sampler of a minibatch's decision tokens."""
        self.k3s: list[Tensor] = []
        """k3 estimates of the KL to the reference, one per decision token."""
        self.kl_last = 0.0

    def kls(self, device: torch.device) -> Tensor:
        """Return r - 1 - log r [N] of the minibatch's tokens, estimates of the KL from the policy that played."""
        log_ratio = torch.cat(self.log_ratios or [torch.empty(0, device=device)])
        return log_ratio.expm1() - log_ratio

    def end_minibatch(self, kl: float) -> None:
        """Record a minibatch's KL from the policy that played, the mean of `kls` over all its tokens."""
        self.log_ratios = []
        self.kl_last = kl
        self.drifts.append(kl)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the step."""
        finite = [norm for norm in self.norms if math.isfinite(norm)]
        estimated = {"kl/k3_mean": float(torch.cat(self.k3s).mean())} if self.k3s else {}
        return estimated | {
            "benchmark/loss": self.loss / max(self.steps, 1),
            "benchmark/grad_norm": float(np.mean(finite)) if finite else 0.0,
            "train/skipped_steps": float(self.skipped),
            "train/kl_stop": float(self.stopped),
            "train/epochs_completed": float(self.steps > 0 or not self.norms),
            "train/approx_kl": float(np.mean(self.drifts)) if self.drifts else 0.0,
            "train/kl_max": max(self.drifts, default=0.0),
        }
