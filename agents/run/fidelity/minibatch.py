"""Hash of a fixed minibatch: loss, gradients and their norm, of made-up data under the present weights.

A training state holds the hash; a resumed run computes it again with the state's weights. Equal bits are evidence that
this machine computes as the earlier one did; different bits prove that it does not. Nothing of the run is changed: the
data have a generator of their own, and gradients are not stored in the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

SEED = 20_231


def minibatch_sha256(loss: Callable[[torch.Generator], Tensor], parameters: Iterable[Tensor]) -> str:
    """Return the SHA-256 of `loss`, of its gradients in `parameters` that require one, and of the gradients' norm.

    `loss` draws its data from the CPU generator that it is given and must not draw elsewhere.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    with torch.enable_grad():
        value = loss(torch.Generator().manual_seed(SEED))
        found = torch.autograd.grad(value, trained, allow_unused=True)
    gradients = [gradient for gradient in found if gradient is not None]
    digest = sha256()
    # The norm is the longest sum of an update; with other vector widths its order differs first.
    for tensor in (value, *gradients, get_total_norm(gradients)):
        digest.update(tensor.detach().to("cpu").contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
