"""What is proposed to whoever names a checkpoint that is not there: runs and policies of the game in question.

A run says its game and its trainer in its configuration, a released policy its game in its name; one that does not say
may be of any game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import suggestion
from sparring.configs.schema import DIPLOMACY, DOGFIGHT
from sparring.configs.serialization import read_yaml
from sparring.configs.validate_language import LANGUAGE_TRAINERS
from sparring.envs.diplomacy.board import codes
from sparring.envs.dogfight import rules

RELEASED = "released"
BOT_PREFIX = "bot:"


@dataclass(frozen=True)
class GameChoices:
    """A game whose players are asked for."""

    id: str
    prefix: str
    """Of the names of its released policies."""
    bots: tuple[str, ...]
    as_bot: str
    """How a bot is asked for by its name, which comes after it."""
    run: str
    """The run that makes the first policy."""
    language_models: bool = False
    """Whether these may play."""


DOGFIGHT_GAME = GameChoices(DOGFIGHT, "dogfight", tuple(rules.BOTS), f"write {BOT_PREFIX}", "quickstart")
DIPLOMACY_GAME = GameChoices(DIPLOMACY, "diplomacy", codes.BOTS, "give --bot ", "diplomacy_ppo", language_models=True)
DIPLOMACY_POLICIES = replace(DIPLOMACY_GAME, language_models=False)
GAMES = (DOGFIGHT_GAME, DIPLOMACY_GAME)


def not_found(text: str, game: GameChoices, checkpoints: Path, others: Sequence[str], named: Sequence[str] = ()) -> str:
    """The line about `text`; `others` are the policies of a run that it names, `named` what else may be asked for."""
    if text in game.bots:
        return f"no checkpoint {text!r}: {game.as_bot}{text} for the bot"
    if others:
        return f"no checkpoint {text!r}: choose from {', '.join(others)}{suggestion(text, others)}"
    runs, released = runs_of(game, checkpoints), released_of(game, checkpoints)
    start = f"train one first (python train.py +run={game.run})"
    known = [*named, *released]
    if not runs + known:
        return f"no checkpoint {text!r} and none under {checkpoints}; {start}"
    if text == FINAL and not runs:
        nowhere = f"no run in {checkpoints} has saved one"
        return f"no checkpoint {text!r}: {nowhere}; {start} or choose from {', '.join(known)}"
    choices = [FINAL, *runs, *known] if runs else known
    return f"no checkpoint {text!r}: give a path or choose from {', '.join(choices)}{suggestion(text, choices)}"


def runs_of(game: GameChoices, checkpoints: Path) -> list[str]:
    """Runs that have saved their last policy, but for those of another game."""
    models = [path.parent.parent for path in checkpoints.glob("*/final/config.json") if game.language_models]
    runs = sorted({*models, *(path.parent for path in checkpoints.glob(f"*/{FINAL}"))})
    return [run.name for run in runs if _plays(game, run / "config.yaml")]


def released_of(game: GameChoices, checkpoints: Path) -> list[str]:
    """Released policies, but for those of another game."""
    names = sorted(path.stem for path in (checkpoints / RELEASED).glob("*.pt"))
    others = tuple(f"{other.prefix}_" for other in GAMES if other.id != game.id)
    return [f"{RELEASED}/{name}" for name in names if not name.startswith(others)]


def trained_in(config: Path) -> str:
    """The environment of a stored configuration, empty where there is none that can be read."""
    env = _stored(config).get("env")
    return str(env.get("id", "")) if isinstance(env, dict) else ""


def trains_language_model(config: Path) -> bool:
    """Whether a stored configuration is that of a run which trains a language model."""
    return _stored(config).get("trainer") in LANGUAGE_TRAINERS


def _plays(game: GameChoices, config: Path) -> bool:
    """Whether what the run of a stored configuration has trained may play, as far as that is known."""
    return trained_in(config) in ("", game.id) and (game.language_models or not trains_language_model(config))


def _stored(config: Path) -> dict[str, Any]:
    """A stored configuration, empty where there is none that can be read."""
    try:
        plain = read_yaml(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}
