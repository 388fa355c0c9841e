"""Training texts of the game's own tokenizer: every location, power, verb and number, and games of bots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.choices import WAIVE
from sparring.envs.diplomacy.orders.notation import LETTERS
from sparring.envs.diplomacy.text.prompts import PromptRules, render
from sparring.envs.diplomacy.text.text_format import DIPLOMACY_TEXT
from sparring.envs.diplomacy.text_games.bot_games import BotGames

VERBS = ("H", "-", "VIA", "S", "C", "R", "D", "B")
NUMBERS = (*range(100), *range(1901, 1941))
CORPUS_PHASES, CORPUS_SEED = 40, 1901


def corpus() -> Iterator[str]:
    """Yield the domain's words, with and without a leading space, then prompts of all kinds and answers of games."""
    words = [*standard_board().locations, *POWERS, *LETTERS, *VERBS, WAIVE, *map(str, NUMBERS)]
    yield from (f"{space}{word}" for word in words for space in ("", " "))
    games = BotGames(1, bot="dumbbot", last_year=1910, seed=CORPUS_SEED)
    kinds = list(kinds_of_prompts())
    for _ in range(CORPUS_PHASES):
        for decision in (decision for decisions in games.next() for decision in decisions):
            power, asked = decision.menu.power, decision.menu
            yield from (render(decision.row, power, asked, rules, last_year=1910) for rules in kinds)
            yield DIPLOMACY_TEXT.write(decision.chosen)
    games.close()


def kinds_of_prompts() -> Iterator[PromptRules]:
    """Yield compact and full rules with options on and off, except legal orders, whose words occur in the answers."""
    for compact in (True, False):
        plain = PromptRules(compact=compact)
        crowded = replace(plain, show_map_windows=True, show_action_counts=True)
        yield from (plain, crowded, replace(crowded, show_board_context=False))
