"""Dropout off for a while: what was sampled, scored twice or compared must be the same function of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Put `model` into evaluation mode, and back into the mode it was in; gradients flow all the same."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
