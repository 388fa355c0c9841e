"""LoRA: the layers of a model with low-rank additions, and their parameters.

A weight W of a chosen layer becomes W + (alpha / r) B A, with B = 0 initially (Hu et al. 2021), so that a new adapter
plays like the base. There is no dropout: the trained policy would differ from the one that played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig

from sparring.agents.llm.decoding.output_layer import ModelError
from sparring.configs.core.errors import choose
from sparring.configs.language import LORA_TARGETS, LanguageModelConfig

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
LAYERS = {"attention": ATTENTION, "all": (*ATTENTION, "gate_proj", "up_proj", "down_proj")}
"""Layer names of Llama and most others."""
GPT2_LAYERS = {"attention": ("c_attn", "attn.c_proj"), "all": ("c_attn", "c_proj", "c_fc")}


@dataclass(frozen=True)
class LoraShape:
    """Shape of an adapter; `targets` is attention or all."""

    rank: int
    alpha: float
    targets: str = "attention"

    @classmethod
    def of(cls, model: LanguageModelConfig) -> LoraShape:
        """Return the shape of a configuration."""
        return cls(model.lora_rank, model.lora_alpha or 2.0 * model.lora_rank, model.lora_targets)


def lora_config(model: Any, shape: LoraShape) -> LoraConfig:
    """Return the peft configuration; raises `ModelError` for a model with other layer names."""
    choose("lora_targets", shape.targets, LORA_TARGETS)
    names = [name for name, _ in model.named_modules()]
    for layers in (LAYERS, GPT2_LAYERS):
        wanted = layers[shape.targets]
        if all(any(f".{name}".endswith(f".{layer}") for name in names) for layer in wanted):
            return LoraConfig(
                r=shape.rank,
                lora_alpha=shape.alpha,  # type: ignore[arg-type]
                target_modules=list(wanted),
                fan_in_fan_out=layers is GPT2_LAYERS,
                task_type="CAUSAL_LM",
            )
    raise ModelError(
        f"{type(model).__name__} has no layers {', '.join(LAYERS[shape.targets])}: LoRA knows models built as Llama"
        " or GPT-2; try model.lora_targets=attention"
    )


def lora_parameters(model: Any, adapter: str) -> dict[str, torch.nn.Parameter]:
    """Return the parameters of one adapter of a peft model, by names without the adapter's name."""
    found = {}
    for name, parameter in model.named_parameters():
        before, _, after = name.partition(f".{adapter}.")
        if ".lora_" in before and after:
            found[f"{before.removeprefix('base_model.model.')}.{after}"] = parameter
    return found
