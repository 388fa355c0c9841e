"""Networks with styles: each style as a network without them, and the style of a match.

A network with K styles takes D numbers of an observation and K columns, 1.0 for the style of the match and 0.0 for the
others. So a style adds a constant to the first layer, and each is a plain network of D inputs: W x + (b + w_k). Who
plays such a network draws a style for every match by its `mixture` [K]; the opponent does not see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import MIXTURE
from sparring.agents.policies.networks import PolicyNetwork, build_network

TRUNKS = ("actor.0", "critic.0")
"""The first layers, which see the style."""


def plain_shape(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shape of a style of a network of that `shape`."""
    return {key: value for key, value in shape.items() if key != "styles"}


def style_weights(weights: Mapping[str, Tensor], style: int) -> dict[str, Tensor]:
    """Return the weights of the plain network that plays `style`; those without styles as they are."""
    if MIXTURE not in weights:
        return dict(weights)
    plain = {name: weight for name, weight in weights.items() if name != MIXTURE}
    inputs = weights["actor.0.weight"].shape[1] - len(weights[MIXTURE])
    for layer in TRUNKS:
        matrix = weights[f"{layer}.weight"]
        plain[f"{layer}.weight"] = matrix[:, :inputs].clone()
        plain[f"{layer}.bias"] = weights[f"{layer}.bias"] + matrix[:, inputs + style]
    return plain


def plain_network(network: PolicyNetwork, style: int) -> PolicyNetwork:
    """Return a network without styles, on the same device, that plays one of `network`."""
    plain = build_network(plain_shape(network.shape))
    plain.load_state_dict(style_weights(network.state_dict(), style))
    return plain.to(network.log_std.device)


def with_styles(weights: Mapping[str, Tensor], styles: int) -> dict[str, Tensor]:
    """Return the weights of a network with `styles` that all play like the plain one, equally often."""
    styled = dict(weights)
    for layer in TRUNKS:
        matrix = weights[f"{layer}.weight"]
        styled[f"{layer}.weight"] = torch.cat([matrix, matrix.new_zeros(len(matrix), styles)], dim=1)
    styled[MIXTURE] = torch.full((styles,), 1.0 / styles, device=weights["log_std"].device)
    return styled


def likeliest_style(weights: Mapping[str, Tensor]) -> int:
    """Return the number of the style that is drawn most often; 0 without styles."""
    return int(weights[MIXTURE].argmax()) if MIXTURE in weights else 0


def draw_styles(memory: Tensor, mixture: Tensor, generator: torch.Generator) -> Tensor:
    """Return `memory` [B, 1] with a style drawn where it is 0, at the start of a match: the style's number plus 1."""
    uniform = torch.rand(len(memory), generator=generator, device=memory.device)
    bounds = mixture.repeat(len(mixture), 1).tril().sum(1)  # torch refuses cumsum on a GPU if it must be deterministic
    drawn = torch.searchsorted(bounds, uniform, right=True).clamp(max=len(mixture) - 1)
    return torch.where(memory > 0, memory, drawn.unsqueeze(1) + 1.0)


def style_columns(memory: Tensor, styles: int) -> Tensor:
    """Return the columns [B, K] of the styles in `memory` [B, 1]."""
    numbers = torch.arange(1, styles + 1, device=memory.device)
    return (memory == numbers).float()
