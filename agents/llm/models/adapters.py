"""Adapters on one base model: the learner's, which is trained, and any number of frozen ones.

Frozen adapters are stored as tensors on the CPU. To play, one is copied into a slot of the model; there is one slot per
shape, so a league of hundreds needs only two adapters on the device. This never changes the learner's weights. The base
plays with all adapters disabled.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from peft import get_peft_model
from torch import Tensor

from sparring.agents.llm.models.lora import LoraShape, lora_config, lora_parameters
from sparring.configs.core.errors import InputError, choose

LEARNER, BASE = "learner", "base"

Weights = Mapping[str, Tensor]


class AdapterError(InputError):
    """An adapter that does not fit or cannot be read; the message is one line with its name and the problem."""


class Adapters:
    """LoRA on `model`, which is wrapped permanently: use `self.model`, a peft model.

    The learner's initial weights depend on `seed`. Frozen adapters have any name but "learner" and "base".
    """

    def __init__(self, model: Any, shape: LoraShape, *, seed: int = 0) -> None:
        self.shape = shape
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a message of transformers to peft
            torch.manual_seed(seed)
            self.model: Any = get_peft_model(model, lora_config(model, shape), adapter_name=LEARNER)
        self._frozen: dict[str, tuple[LoraShape, dict[str, Tensor]]] = {}
        self._slots: dict[LoraShape, str] = {}
        self._held: dict[str, str] = {}
        """Frozen adapter in each slot."""

    @property
    def names(self) -> list[str]:
        """Names of the frozen adapters."""
        return list(self._frozen)

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the learner's parameters, by name."""
        return lora_parameters(self.model, LEARNER)

    def weights(self, name: str = LEARNER) -> dict[str, Tensor]:
        """Return copies of an adapter's weights, on the CPU."""
        source = self.parameters() if name == LEARNER else self._frozen[choose("adapter", name, self._frozen)][1]
        return {key: value.detach().to("cpu", copy=True) for key, value in source.items()}

    def restore(self, weights: Weights, shape: LoraShape | None = None) -> None:
        """Copy `weights` into the learner, bit for bit. Raises `AdapterError` if they do not fit.

        It is also raised if their `shape`, where known, is not the learner's: equal weights with another alpha are
        another policy.
        """
        if shape not in (None, self.shape):
            raise AdapterError(
                f"the adapter was made with {_options(shape)}, the model has {_options(self.shape)}; give the adapter's"
            )
        _copy(weights, self.parameters(), LEARNER)

    def add(self, name: str, weights: Weights, shape: LoraShape | None = None) -> None:
        """Store copies of `weights` as a frozen adapter, replacing one of that name; `shape` if not the learner's.

        Raises `AdapterError` if they do not fit the model.
        """
        if name in (LEARNER, BASE):
            raise AdapterError(f"adapter {name!r}: this name means the {name} itself, choose another")
        slot = self._slot(shape or self.shape)
        _copy(weights, lora_parameters(self.model, slot), name)
        kept = {key: value.detach().to("cpu", copy=True) for key, value in weights.items()}
        self._frozen[name], self._held[slot] = (shape or self.shape, kept), name

    def remove(self, name: str) -> None:
        """Remove a frozen adapter."""
        del self._frozen[choose("adapter", name, self._frozen)]
        self._held = {slot: held for slot, held in self._held.items() if held != name}

    @contextmanager
    def playing(self, name: str) -> Iterator[None]:
        """Activate an adapter within the context: the learner, a frozen one, or "base" for none.

        Gradients reach the learner's weights only while the learner plays.
        """
        if name == LEARNER:
            yield
        elif name == BASE:
            with self.model.disable_adapter():
                yield
        else:
            self.model.set_adapter(self._load(name))
            try:
                yield
            finally:
                self.model.set_adapter(LEARNER)

    def _load(self, name: str) -> str:
        """Return the slot of a frozen adapter, after copying it there if necessary."""
        shape, weights = self._frozen[choose("adapter", name, [BASE, LEARNER, *self._frozen])]
        slot = self._slot(shape)
        if self._held.get(slot) != name:
            _copy(weights, lora_parameters(self.model, slot), name)
            self._held[slot] = name
        return slot

    def _slot(self, shape: LoraShape) -> str:
        if shape not in self._slots:
            slot = f"frozen_{len(self._slots)}"
            self.model.add_adapter(slot, lora_config(self.model.get_base_model(), shape))
            self.model.set_adapter(LEARNER)
            self._slots[shape] = slot
        return self._slots[shape]


def _options(shape: LoraShape) -> str:
    """Return a shape as command-line options."""
    return f"model.lora_rank={shape.rank} model.lora_alpha={shape.alpha:g} model.lora_targets={shape.targets}"


@torch.no_grad()
def _copy(weights: Weights, parameters: Mapping[str, Tensor], name: str) -> None:
    """Copy an adapter's weights into parameters; raises `AdapterError` before any change."""
    mine, wanted = ({key: tuple(value.shape) for key, value in part.items()} for part in (weights, parameters))
    if mine != wanted:
        unlike = sorted(key for key in mine.keys() | wanted.keys() if mine.get(key) != wanted.get(key))
        raise AdapterError(
            f"adapter {name!r} does not fit the model: {unlike[0]} is {mine.get(unlike[0])},"
            f" the model has {wanted.get(unlike[0])}; give the model.lora_rank and model.lora_targets it was made with"
        )
    for key, parameter in parameters.items():
        parameter.copy_(weights[key])
