"""Text interface of Diplomacy, for its descriptor in `envs/diplomacy/__init__.py`."""

from __future__ import annotations

from sparring.configs.schema import DiplomacyCloneRunConfig
from sparring.envs.diplomacy.text.bot_answers import bot_answers
from sparring.envs.diplomacy.text.prompts import PromptRules
from sparring.envs.diplomacy.text.text_format import DIPLOMACY_TEXT
from sparring.envs.diplomacy.text_games.bot_games import BotGames
from sparring.envs.diplomacy.text_games.corpus import corpus
from sparring.envs.diplomacy.text_games.references import references
from sparring.envs.diplomacy.text_games.task import DiplomacyTextTask
from sparring.envs.text import TextGame


def demonstrations(config: DiplomacyCloneRunConfig, *, games: int, seed: int, threads: int = 1) -> BotGames:
    """Return games of `config.clone.bot` against itself, with prompts by `config.model`."""
    rules, last_year = PromptRules.of(config.model), config.env.last_year
    return BotGames(games, bot=config.clone.bot, last_year=last_year, seed=seed, rules=rules, threads=threads)


DIPLOMACY = TextGame(
    format=DIPLOMACY_TEXT,
    corpus=corpus,
    task=DiplomacyTextTask,
    demonstrations=demonstrations,
    references=references,
    bot_answers=bot_answers,
    headline={"centres": "game/avg_sc_count"},
)
