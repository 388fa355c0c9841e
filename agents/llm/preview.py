"""Dry run of a game's text tasks: its preview, with lengths in tokens of the game's own tokenizer."""

from __future__ import annotations

from collections.abc import Iterator

from sparring.agents.llm.models.load import check_packages
from sparring.configs.core.errors import InputError
from sparring.configs.schema import LanguageRunConfig
from sparring.envs.game import game_with_id, text_game


def preview(config: LanguageRunConfig) -> Iterator[str]:
    """Yield the lines of `dry_run=true`; raises `InputError` if the game has no preview."""
    game = text_game(config.env.id)
    if game.preview is None:
        raise InputError(f"dry_run=true: env.id={config.env.id} has no preview; leave it out")
    check_packages()
    from sparring.agents.llm.models.tokenizer import game_tokenizer

    tokenizer = game_tokenizer(game_with_id(config.env.id).name)
    yield from game.preview(config, lambda text: len(tokenizer(text, add_special_tokens=False).input_ids))
