"""Model that imitation starts from: a new small one in the game's tokens, or a given one with its own tokenizer."""

from __future__ import annotations

from typing import Any

from sparring.agents.llm.decoding.kv_cache import check_context
from sparring.agents.llm.decoding.output_layer import ModelError, check_finite, check_head
from sparring.agents.llm.models.load import load_model
from sparring.agents.llm.models.tiny import build_tiny
from sparring.agents.llm.models.tokenizer import game_tokenizer
from sparring.configs.core.device import choose_device
from sparring.configs.language import NEW_MODEL
from sparring.configs.schema import CloneRunConfig
from sparring.envs.game import game_with_id


def first_model(config: CloneRunConfig, *, seed: int) -> tuple[Any, Any]:
    """Return the model, with random weights from `seed` if it is new, and its tokenizer.

    Raises `ModelError` for a model that is missing, damaged, or could not play after the training.
    """
    if config.model.name == NEW_MODEL:
        return _new(config, seed)
    model, tokenizer = load_model(config.model, device=config.device)
    check_finite(model)
    check_head(model)
    check_context(model)
    if tokenizer.eos_token_id is None:
        raise ModelError(f"model {config.model.name}: its tokenizer has no end of text; set its eos_token")
    return model, tokenizer


def longest_text(model: Any) -> int | None:
    """Return the number of tokens that a model reads at most, None if it has no limit."""
    return getattr(model.config, "max_position_embeddings", None)


def _new(config: CloneRunConfig, seed: int) -> tuple[Any, Any]:
    clone, tokenizer = config.clone, game_tokenizer(game_with_id(config.env.id).name)
    shape = {"hidden": clone.hidden, "layers": clone.layers, "heads": clone.heads}
    model = build_tiny(tokenizer, **shape, init_std=clone.init_std, seed=seed)
    return model.to(choose_device(config.device)), tokenizer
