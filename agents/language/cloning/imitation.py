"""Imitation learning: cross-entropy of the answers' next tokens.

    loss = mean over answer tokens of -log p(token | prompt, answer so far)

over the whole vocabulary, including the end tag and the end of text. The model therefore also learns legality, although
a constraint enforces it in play. The learning rate warms up linearly, then decays along a cosine to zero.

The optimizer is AdamW for all weights, or Muon for the matrices of the layers and AdamW for the rest. Muon (Jordan et
al. 2024) moves a matrix by its momentum with all singular values set to about 1. The step is scaled to the root mean
square of AdamW's (Liu et al. 2025), so both use one learning rate. On a CPU the two halves of a batch are computed in
parallel and their gradients are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import cos, pi
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from sparring.agents.distributed.processes import ParallelHalves
from sparring.agents.language.cloning.dataset import IGNORED, Batch
from sparring.agents.language.decoding.forward import all_logits, backbone, without_dropout
from sparring.configs.core.tensor_file import check_optimizer, check_tensors

ADAMW, MUON = "adamw", "muon"
BETAS, WEIGHT_DECAY = (0.9, 0.95), 0.1
MAX_GRAD_NORM = 1.0
WARMUP = 0.03
"""Fraction of the training in which the learning rate rises."""


def make_optimizers(model: Any, name: str) -> dict[str, Optimizer]:
    """Return the optimizers of `model` by the names of their states; weight decay applies to matrices only."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    ends = {id(end.weight) for end in (model.get_input_embeddings(), model.get_output_embeddings()) if end is not None}
    inner = [weight for weight in weights if name == MUON and weight.dim() == 2 and id(weight) not in ends]
    inner_ids = {id(weight) for weight in inner}
    rest = [weight for weight in weights if id(weight) not in inner_ids]
    groups = [
        {"params": [weight for weight in rest if weight.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [weight for weight in rest if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizers: dict[str, Optimizer] = {"optimizer": torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)}
    if inner:
        optimizers["muon"] = torch.optim.Muon(inner, lr=0.0, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
    return optimizers


def answer_loss(model: Any, batch: Batch) -> Tensor:
    """Return the summed cross-entropy of answer tokens, in nats; the head is computed for these tokens only."""
    hidden = backbone(model)(
        input_ids=batch.input_ids,
        position_ids=batch.position_ids,
        attention_mask=batch.attention_mask,
        use_cache=False,
    ).last_hidden_state
    trained = batch.targets != IGNORED
    return cross_entropy(all_logits(model, hidden[trained]), batch.targets[trained], reduction="sum")


def learning_rate(peak: float, done: float) -> float:
    """Return the rate at a fraction `done` of the training, 0 to 1."""
    if done < WARMUP:
        return peak * done / WARMUP
    return peak * 0.5 * (1.0 + cos(pi * (done - WARMUP) / (1.0 - WARMUP)))


class Imitator:
    """A model and its optimizer, "adamw" or "muon" (`make_optimizers`).

    With `halves` the two batches of a step are computed in parallel.
    """

    def __init__(self, model: Any, *, halves: bool = False, optimizer: str = ADAMW) -> None:
        self.model = model
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._optimizers = make_optimizers(model, optimizer)
        self._halves = ParallelHalves(parallel=halves)

    def learn(self, batches: Sequence[Batch], rate: float) -> tuple[float, float]:
        """Take one step on one or two batches; return its loss and the gradient norm before clipping.

        A step whose gradient is not finite is skipped; at least one of the two numbers is then not finite.
        """
        tokens = sum(int((batch.targets != IGNORED).sum()) for batch in batches)
        with without_dropout(self.model):  # its draws are in no training state, and two halves would share them
            loss = self._gradient(batches, tokens)
        norm = torch.nn.utils.clip_grad_norm_(self._weights, MAX_GRAD_NORM)
        if bool(torch.isfinite(norm)):
            for optimizer in self._optimizers.values():
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
        return float(loss), float(norm)

    def _gradient(self, batches: Sequence[Batch], tokens: int) -> Tensor:
        """Store the gradient of the mean over `tokens` in the weights' `grad`; return that mean."""
        calls = [partial(self._part, batch, tokens) for batch in batches]
        parts = [calls[0]()] if len(calls) == 1 else self._halves.both(*calls)
        for weight, *gradients in zip(self._weights, *(gradients for _, gradients in parts), strict=True):
            weight.grad = torch.stack(gradients).sum(0) if len(gradients) > 1 else gradients[0]
        return torch.stack([loss for loss, _ in parts]).sum()

    def _part(self, batch: Batch, tokens: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the contribution of a batch to the mean over `tokens`, and to its gradient."""
        loss = answer_loss(self.model, batch) / tokens
        return loss.detach(), torch.autograd.grad(loss, self._weights)

    def close(self) -> None:
        """Stop the thread of the second half."""
        self._halves.close()

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimizer state."""
        states = {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()}
        return {"model": self.model.state_dict(), **states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ContentError`, before any change, for one of another model."""
        weights = check_tensors(state["model"], self.model.state_dict(), "model")
        moments = {name: check_optimizer(state[name], optimizer, name) for name, optimizer in self._optimizers.items()}
        self.model.load_state_dict(weights)
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(moments[name])
