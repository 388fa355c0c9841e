"""Context without dropout, so that sampling, scoring and comparing use the same function of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Put `model` into evaluation mode, and back into its previous mode on exit; gradients are still recorded."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
