"""Options of OpenSpiel games as text, and their run types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparring.configs.core.allowed import Form, option
from sparring.configs.core.errors import ConfigError
from sparring.configs.games import EnvConfig
from sparring.configs.language import NEEDS_OPPONENTS, CloneConfig, GRPOConfig
from sparring.configs.language.league import LeagueConfig
from sparring.configs.language.runs import CloneRunConfig, GRPORunConfig
from sparring.envs.imported.config import KWARGS
from sparring.envs.openspiel_text import ENV_ID, NAME

SHORT_NAME = Form(r"[A-Za-z_][A-Za-z0-9_]{0,199}", "the short name of an OpenSpiel game, such as kuhn_poker")
MENU, REASONING = "menu", "reasoning"
NOT_IN_TEXT = (
    "model.compact", "model.show_valid_moves", "model.show_board_context", "model.show_map_windows",
    "model.show_action_counts",
)  # fmt: skip
"""Options of language models that write Diplomacy's prompts."""
TEACHER = Form(r"[^\x00\n]*", "a player of the game that is not code, such as openspiel:cfr:1000 or a run")
GROUPED = ("grpo.play", "grpo.use_state_stratified_groups", "grpo.baseline")
"""Options of games with opponents and several decisions that have an effect here."""


@dataclass
class OpenSpielAnswerConfig:
    """Form of the answers."""

    form: str = option(MENU, (MENU, REASONING))
    """menu: a legal action, by an exact constraint. reasoning: free text with the action in its last line; a random
    legal action replaces an illegal, missing or truncated one."""
    max_tokens: int = option(256, "[1, 100000]", needs=["env.answer.form=reasoning"])
    """Maximum tokens of free text."""


@dataclass
class OpenSpielTextEnvConfig(EnvConfig):
    """An OpenSpiel game as text."""

    package: str = option(NAME, (NAME,))
    """openspiel_text: an OpenSpiel game (extra open-spiel) as text for language models."""
    id: str = option("kuhn_poker", SHORT_NAME)
    """Short name of the game, such as kuhn_poker or leduc_poker."""
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"allowed": KWARGS})
    """Options of the game itself: numbers, booleans and strings by name."""
    answer: OpenSpielAnswerConfig = field(default_factory=OpenSpielAnswerConfig)


@dataclass
class OpenSpielLeagueConfig(LeagueConfig):
    """Opponents of the learner in games without DumbBot, and ratings."""

    dumbbot_game_probability: float = option(0.0, "[0, 0]")
    """Games against DumbBot, which plays Diplomacy alone."""


@dataclass
class OpenSpielGRPORunConfig(GRPORunConfig):
    """GRPO trains a language model in an OpenSpiel game: in all seats, or in one seat at a time."""

    game, title, seats = ENV_ID, "OpenSpiel's games in text", 2
    lacks = (
        *GRPORunConfig.lacks, *NOT_IN_TEXT, *(name for name in NEEDS_OPPONENTS if name not in GROUPED), "dry_run",
        "overfit", "league.bots", "league.dumbbot_game_probability",
    )  # fmt: skip

    env: OpenSpielTextEnvConfig = field(default_factory=OpenSpielTextEnvConfig)
    grpo: GRPOConfig = field(default_factory=lambda: GRPOConfig(play="self_play"))
    league: OpenSpielLeagueConfig = field(default_factory=OpenSpielLeagueConfig)

    def check(self) -> None:
        """Refuse another trainer; raises `ConfigError`."""
        if self.trainer not in self.trainers:
            able = " or ".join(self.trainers)
            raise ConfigError(f"trainer={self.trainer}: does not train env.package={NAME}; choose {able}")
        super().check()

    def check_game(self) -> int:
        """Return the number of seats of the game; raises `ConfigError` if language models cannot play it."""
        from sparring.envs.openspiel_text.decisions import open_text_game

        return int(open_text_game(self.env.id, self.env.kwargs).num_players())


@dataclass
class OpenSpielCloneConfig(CloneConfig):
    """Behaviour cloning of random play, or of a teacher (`trainer=clone`)."""

    bot: str = option("random", ("random",))
    """Bot in all seats whose moves are imitated."""
    teacher: str = option("", TEACHER)
    """Player in all seats instead of the bot, such as openspiel:cfr:1000 or a PPO run; empty: the bot."""


@dataclass
class OpenSpielCloneRunConfig(CloneRunConfig):
    """A language model clones a player of a game of OpenSpiel."""

    game, title, seats = ENV_ID, "OpenSpiel's games in text", 2
    lacks = (*CloneRunConfig.lacks, *NOT_IN_TEXT, "dry_run", "env.answer")

    env: OpenSpielTextEnvConfig = field(default_factory=OpenSpielTextEnvConfig)
    clone: OpenSpielCloneConfig = field(default_factory=OpenSpielCloneConfig)


RUNS = (OpenSpielGRPORunConfig, OpenSpielCloneRunConfig)
"""Run types of OpenSpiel games as text."""
