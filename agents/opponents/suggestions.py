"""Error messages for an unknown player name and for a player of another game.

A run's configuration contains its game and its trainer, a released policy's name its game; without these it may be of
any game. Nothing here loads torch, which would delay the message by many seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import InputError, choices
from sparring.configs.core.regular_file import read_regular_text
from sparring.configs.kinds import run_kind
from sparring.configs.schema import LanguageRunConfig
from sparring.configs.serialization import read_yaml
from sparring.configs.stored.retired import current_id
from sparring.envs.game import Game, game_of, games

RELEASED = "released"
BOT_PREFIX = "bot:"
SAMPLED_PREFIX = "stochastic:"
"""Before a checkpoint as an opponent: it samples its actions."""
NAMED_MODELS = ("tiny", "smollm2")
"""Language models available by name."""
MODEL_FILE, MODEL_FOLDER = "config.json", "final"
"""A file in every language model's folder, and the name of the model folder in a run that cloned a bot."""


def not_found(text: str, game: Game | None, checkpoints: Path, others: Sequence[str]) -> str:
    """Return the message for `text`, no player of `game` (None: of any); `others` are of the run it names."""
    if any(text in one.bots for one in _choices(game)):
        return f"no checkpoint {text!r}: write {BOT_PREFIX}{text} for the bot"
    if others:
        return f"no checkpoint {text!r}: {choices(text, others)}"
    runs = runs_of(game, checkpoints)
    known = [*(NAMED_MODELS if _models(game) else ()), *released_of(game, checkpoints)]
    start = f"train one first (python train.py +run={_choices(game)[0].first_run})"
    if not runs + known:
        return f"no checkpoint {text!r} and none under {checkpoints}; {start}"
    if text == FINAL and not runs:
        nowhere = f"no run in {checkpoints} has saved one"
        return f"no checkpoint {text!r}: {nowhere}; {start} or choose from {', '.join(known)}"
    names = [FINAL, *runs, *known] if runs else known
    return f"no checkpoint {text!r}: give a path or {choices(text, names)}"


def runs_of(game: Game | None, checkpoints: Path) -> list[str]:
    """List runs that have saved their final policy, except those of another game."""
    models = [path.parent.parent for path in checkpoints.glob(f"*/{MODEL_FOLDER}/{MODEL_FILE}") if _models(game)]
    runs = sorted({*models, *(path.parent for path in checkpoints.glob(f"*/{FINAL}"))})
    return [run.name for run in runs if _plays(game, run / "config.yaml")]


def released_of(game: Game | None, checkpoints: Path) -> list[str]:
    """List released policies, except those of another game."""
    names = sorted(path.stem for path in (checkpoints / RELEASED).glob("*.pt"))
    others = tuple(f"{other.name}_" for other in games() if game and other.id != game.id)
    return [f"{RELEASED}/{name}" for name in names if not name.startswith(others)]


def trained_in(config: Path) -> str:
    """Return the environment of a stored configuration, empty if it is missing or unreadable."""
    env = _stored(config).get("env")
    return str(env.get("id", "")) if isinstance(env, dict) else ""


def trains_language_model(config: Path) -> bool:
    """Return whether a stored configuration trains a language model."""
    return issubclass(run_kind(_stored(config)), LanguageRunConfig)


def check_game(game: Game, *players: str | Path) -> None:
    """Raise `InputError` for a policy file in the folder of a run of another game.

    A run of an old version of the game passes: its loader decides which of its policies may play.
    """
    for player in players:
        env_id = trained_in(player.parent / "config.yaml") if isinstance(player, Path) else ""
        if env_id and current_id(env_id) != game.id:
            raise InputError(other_game(player, env_id, game))


def other_game(path: str | Path, env_id: str, game: Game) -> str:
    """Return the message for a policy of `env_id`, which does not play `game`."""
    other = game_of(env_id)
    hint = f"; its games are played by eval/run.py --env {other.name} --ckpt" if other else ""
    return f"{path}: was trained in {env_id}; this command takes only {game.id}{hint}"


def _choices(game: Game | None) -> Sequence[Game]:
    return [game] if game else games()


def _models(game: Game | None) -> bool:
    return any(one.language_models for one in _choices(game))


def _plays(game: Game | None, config: Path) -> bool:
    """Return whether the policy of a stored configuration's run may play `game`; True if unknown."""
    if game is None:
        return True
    return trained_in(config) in ("", game.id) and (game.language_models or not trains_language_model(config))


def _stored(config: Path) -> dict[str, Any]:
    """Read a stored configuration; return an empty one if it is missing or unreadable."""
    try:
        plain = read_yaml(read_regular_text(config))
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}
