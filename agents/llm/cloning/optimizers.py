"""Optimizers of imitation: AdamW for all weights, or Muon for the matrices of the layers and AdamW for the rest.

Muon (Jordan et al. 2024) moves a matrix by its momentum with all singular values set to about 1, scaled so that the
root mean square of a step equals AdamW's (Liu et al. 2025), so one learning rate serves both. It needs fewer steps, and
a few more matrix products in each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

ADAMW, MUON = "adamw", "muon"
BETAS, WEIGHT_DECAY = (0.9, 0.95), 0.1


def make_optimizers(model: Any, name: str) -> dict[str, Optimizer]:
    """Return the optimizers of `model` by the names of their states; weight decay applies to matrices only."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    inner = _layer_matrices(model) if name == MUON else []
    own = {id(weight) for weight in inner}
    rest = [weight for weight in weights if id(weight) not in own]
    groups = [
        {"params": [weight for weight in rest if weight.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [weight for weight in rest if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    made: dict[str, Optimizer] = {"optimizer": torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)}
    if inner:
        made["muon"] = torch.optim.Muon(inner, lr=0.0, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
    return made


def _layer_matrices(model: Any) -> list[nn.Parameter]:
    """Return the trained matrices without embeddings and output layer."""
    ends = {id(end.weight) for end in (model.get_input_embeddings(), model.get_output_embeddings()) if end is not None}
    return [
        weight for weight in model.parameters() if weight.requires_grad and weight.dim() == 2 and id(weight) not in ends
    ]
