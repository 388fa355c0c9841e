"""What is proposed to whoever names a checkpoint that is not there: runs and policies of the game in question.

A run says its game in its configuration, a released policy in its name; one that does not say may be of any game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.run_folder import FINAL
from configs.names import suggestion
from configs.plain import read_yaml
from configs.schema import DIPLOMACY, DOGFIGHT
from envs.diplomacy import codes
from envs.dogfight import rules

RELEASED = "released"
BOT_PREFIX = "bot:"


@dataclass(frozen=True)
class Game:
    """A game whose players are asked for."""

    id: str
    prefix: str
    """Of the names of its released policies."""
    bots: tuple[str, ...]
    as_bot: str
    """How a bot is asked for by its name, which comes after it."""
    run: str
    """The run that makes the first policy."""


DOGFIGHT_GAME = Game(DOGFIGHT, "dogfight", tuple(rules.BOTS), f"write {BOT_PREFIX}", "quickstart")
DIPLOMACY_GAME = Game(DIPLOMACY, "diplomacy", codes.BOTS, "give --bot ", "diplomacy_ppo")
GAMES = (DOGFIGHT_GAME, DIPLOMACY_GAME)


def not_found(text: str, game: Game, checkpoints: Path, others: Sequence[str], named: Sequence[str] = ()) -> str:
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


def runs_of(game: Game, checkpoints: Path) -> list[str]:
    """Runs that have saved their last policy, but for those of another game."""
    models = (path.parent.parent for path in checkpoints.glob("*/final/config.json"))
    runs = sorted({*models, *(path.parent for path in checkpoints.glob(f"*/{FINAL}"))})
    return [run.name for run in runs if trained_in(run / "config.yaml") in ("", game.id)]


def released_of(game: Game, checkpoints: Path) -> list[str]:
    """Released policies, but for those of another game."""
    names = sorted(path.stem for path in (checkpoints / RELEASED).glob("*.pt"))
    others = tuple(f"{other.prefix}_" for other in GAMES if other is not game)
    return [f"{RELEASED}/{name}" for name in names if not name.startswith(others)]


def trained_in(config: Path) -> str:
    """The environment of a stored configuration, empty where there is none that can be read."""
    try:
        plain = read_yaml(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    env = plain.get("env") if isinstance(plain, dict) else None
    return str(env.get("id", "")) if isinstance(env, dict) else ""
