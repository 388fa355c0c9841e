"""One network with styles that plays several policies, each exactly.

Hidden units lie in blocks, one for each policy, beside a unit that is 1 in its styles. In the other styles a constant
keeps the block below 0, where ReLU gives 0. Biases are weights of the block's own unit, so a silent block adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import MIXTURE
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.networks import PolicyNetwork, build_network
from sparring.agents.policies.styles import plain_network

SILENT = -1000.0


def merged(members: Sequence[tuple[PolicyNetwork, float]], log_std: float) -> PolicyNetwork:
    """Return the mixture of networks with their shares; they have equal sizes, ReLU and no blocks."""
    styles = [(m, each, share * part) for m, (network, share) in enumerate(members) for each, part in _styles(network)]
    first, width = members[0][0], members[0][0].config.hidden
    hidden = -(-len(members) * (width + 1) // 8) * 8
    shape = first.shape | {"hidden": hidden, "styles": len(styles), "log_std_min": log_std}
    network = build_network(shape)
    weights = {name: torch.zeros_like(weight) for name, weight in network.state_dict().items()}
    weights["log_std"] += log_std
    weights[MIXTURE] = torch.tensor([share for _, _, share in styles])
    for trunk in ("actor", "critic"):
        inner, middle, outer = (weights[f"{trunk}.{layer}.weight"] for layer in (0, 2, 4))
        for style, (m, each, _) in enumerate(styles):
            own, rows, on = each.state_dict(), slice(m * width, (m + 1) * width), len(members) * width + m
            column = first.obs_dim + style
            inner[: len(members) * width, column] = SILENT
            inner[rows, : first.obs_dim], inner[rows, column] = own[f"{trunk}.0.weight"], own[f"{trunk}.0.bias"]
            inner[on, column] = middle[on, on] = 1.0
            middle[rows, rows], middle[rows, on] = own[f"{trunk}.2.weight"], own[f"{trunk}.2.bias"]
            outer[:, rows], outer[:, on] = own[f"{trunk}.4.weight"], own[f"{trunk}.4.bias"]
    network.load_state_dict(weights)
    return network


def save_merged(members: Sequence[tuple[Path, float]], log_std: float, path: Path) -> None:
    """Write the mixture of checkpoints with their shares."""
    loaded = [(load_checkpoint(file), share) for file, share in members]
    network = merged([(checkpoint.network, share) for checkpoint, share in loaded], log_std)
    first, steps = loaded[0][0], sum(checkpoint.training.get("env_steps", 0) for checkpoint, _ in loaded)
    training = first.training | {"run": path.stem, "env_steps": steps}
    save_checkpoint(path, network, contract=first.contract, training=training)


def _styles(network: PolicyNetwork) -> list[tuple[PolicyNetwork, float]]:
    """Return the plain networks of a mixture with their probabilities; of a plain network itself."""
    if not network.config.styles:
        return [(network, 1.0)]
    mixture: Tensor = network.get_buffer(MIXTURE)
    return [(plain_network(network, k), float(part)) for k, part in enumerate(mixture / mixture.sum())]
