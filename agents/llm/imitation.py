"""Learning to write what was written: cross-entropy of the answers' next tokens, and AdamW.

    loss = mean over answer tokens of -log p(token | prompt, answer so far)

over the whole vocabulary and including the end tag and the end of text: what is legal is learned as well, though a
constraint sees to it when the model plays. The learning rate rises in a straight line at first, then falls along a
cosine to zero.
"""

from __future__ import annotations

from math import cos, pi
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from agents.llm.head import all_logits, backbone
from agents.llm.packing import IGNORED, Batch

BETAS, WEIGHT_DECAY, MAX_GRAD_NORM = (0.9, 0.95), 0.1, 1.0
WARMUP = 0.03
"""Share of the training in which the learning rate rises."""


def answer_loss(model: Any, batch: Batch) -> Tensor:
    """Mean cross-entropy of the answers' tokens in nats; the head is asked for these tokens alone."""
    hidden = backbone(model)(
        input_ids=batch.input_ids,
        position_ids=batch.position_ids,
        attention_mask=batch.attention_mask,
        use_cache=False,
    ).last_hidden_state
    wanted = batch.targets != IGNORED
    return cross_entropy(all_logits(model, hidden[wanted]), batch.targets[wanted])


def learning_rate(peak: float, done: float) -> float:
    """The rate at a share `done` of the training, 0 to 1."""
    if done < WARMUP:
        return peak * done / WARMUP
    return peak * 0.5 * (1.0 + cos(pi * (done - WARMUP) / (1.0 - WARMUP)))


class Imitator:
    """A model and its optimizer; weight decay is for matrices alone."""

    def __init__(self, model: Any) -> None:
        self.model = model
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        groups = [
            {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=BETAS)

    def learn(self, batch: Batch, rate: float) -> tuple[float, float]:
        """One step; returns the loss before it and the norm of its gradient before clipping.

        A step whose gradient is not finite is left out; both numbers are then not finite, or one of them.
        """
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = answer_loss(self.model, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRAD_NORM)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if bool(torch.isfinite(norm)):
            self.optimizer.step()
        return float(loss.detach()), float(norm)

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
