"""Resolution of player names: `bot:ace`, `brawler`, a path, a run's name, `final.pt`, `tiny`, a server's address.

Files are located but not read, and torch is not needed. An unknown name is therefore reported immediately, with the
choices and the nearest match.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparring.agents.opponents.suggestions import (
    BOT_PREFIX,
    MODEL_FILE,
    MODEL_FOLDER,
    NAMED_MODELS,
    RELEASED,
    not_found,
)
from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import InputError, UnknownNameError, choose, suggestion
from sparring.configs.core.paths import CHECKPOINTS, ROOT, SHIPPED, holds
from sparring.configs.opponents import is_code
from sparring.envs.game import HELD_OUT_PREFIX, Game, games

ONNX = ".onnx"
"""File suffix of an ONNX agent."""
POLICIES = (".pt", ONNX, ".zip")
"""Suffixes of policies: this project's, ONNX agents, Stable-Baselines3's."""

Player = str | Path
"""Text: a bot, a Python object, one of `NAMED_MODELS` or a server's address.

Path: a policy file, an adapter or a model folder."""


def find_player(text: str, game: Game | None = None, *, bare: Sequence[str] = ()) -> Player:
    """Find the player of `game`, or of any game if it is None, named by `text`.

    A bot is written as bot:NAME, a held-out opponent as held_out:NAME; names in `bare` (an opponent's bots) need no
    prefix. Python objects, `module:Name` or registered, are not imported here. Games of language models accept
    `NAMED_MODELS`, model folders and server addresses; every game accepts the files of `find_checkpoint`.
    Raises `UnknownNameError` with the choices and the nearest match.
    """
    held_out = [name for one in ([game] if game else games()) for name in one.held_out]
    if held_out and text.startswith(HELD_OUT_PREFIX):
        return choose("held-out opponent", text, held_out)
    if text in bare or ((game is None or game.opponents) and is_code(text)):
        return text
    if text.startswith(BOT_PREFIX):
        bots = [bot for one in ([game] if game else games()) for bot in one.bots]
        return choose("bot", text.removeprefix(BOT_PREFIX), bots)
    if (game is None or game.language_models) and (model := _find_model(text)):
        return model
    try:
        return find_checkpoint(text, game)
    except UnknownNameError as error:
        if not bare or Path(text).suffix or "/" in text:
            raise
        bots_known = f"no bot of that name ({', '.join(bare)}{suggestion(text, bare)})"
        raise UnknownNameError(f"unknown opponent {text!r}: {bots_known} and {error}") from error


def find_checkpoint(text: str, game: Game | None = None) -> Path:
    """Find the file named by `text`.

    Accepts a file, ONNX agents included (`.pt` may be left out), or a run's folder (its final.pt). Searches the working
    directory, the repository and its checkpoints folder, so a run's name or `released/<name>` suffices. The bare word
    final.pt is that of the run that saved last. Raises `UnknownNameError` with the choices of this game and the
    nearest match.
    """
    candidates = [place / path for path in (text, f"{text}/{FINAL}", f"{text}.pt") for place in _places(text)]
    found = next((candidate for candidate in candidates if holds(candidate.is_file)), None)
    if found is None and text == FINAL:
        found = _newest_final()
    if found is None:
        raise UnknownNameError(not_found(text, game, CHECKPOINTS, _others_of_run(text)))
    if found.suffix not in POLICIES:
        raise InputError(f"{text}: is no policy ({', '.join(POLICIES)}); give one, a run's name, or {FINAL}")
    return found.resolve()


def find_run(text: str, game: Game | None = None) -> Path:
    """Find the folder of a run given by its name, its folder or a checkpoint in it (final.pt is the newest run's).

    Raises `UnknownNameError` if there is none or it holds no checkpoint.
    """
    folder = find_folder(text) or find_checkpoint(text, game).parent
    if not any(folder.glob("*.pt")):
        raise UnknownNameError(f"{folder}: holds no checkpoint; name a run that has saved one, or {FINAL}")
    return folder


def find_folder(text: str, *, holding: str = "") -> Path | None:
    """Find a folder `text` that has a file `holding`, relative to the working directory, else a run's; or None."""
    places = (Path(text), CHECKPOINTS / text)
    found = (place for place in places if holds(place.is_dir) and holds((place / holding).exists))
    return next((place.resolve() for place in found), None)


def runs_with(name: str) -> list[str]:
    """List the runs whose folder has a file `name`."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob(f"*/{name}"))


def is_server(text: str) -> bool:
    """Return whether a player's text is a server address."""
    return text.startswith(("http://", "https://"))


def display_name(player: Player) -> str:
    """Return a player's name in tables: a bot's name, <run> for its final.pt, <run>/<file> for others, else a path.

    An ONNX agent keeps its .onnx, since its source checkpoint is in the same folder under the same name. A released
    policy is released/<name>, also where only the package is installed.
    """
    if isinstance(player, str):
        return player
    home = next((place for place in (CHECKPOINTS, SHIPPED) if player.is_relative_to(place)), None)
    if home is None:
        return str(player)
    inside = player.relative_to(home)
    if inside.suffix == ONNX:
        return str(inside)
    name = str(inside.parent if inside.name == FINAL else inside.with_suffix(""))
    return str(player) if any(name in game.bots for game in games()) else name


def display_path(path: Path) -> str:
    """Return a path inside the repository relative to it, so that files made on two machines agree."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def results_place(player: Player, kind: str = "eval") -> tuple[Path, str] | None:
    """Return the folder and file name for a player's results; None for a player that is no file or folder.

    Checkpoints other than final.pt and ONNX agents do not overwrite the run's results.
    """
    if isinstance(player, str):
        return None
    if player.name in (FINAL, MODEL_FOLDER):
        return player.parent, kind
    return player.parent, f"{kind}.{player.name if player.suffix == ONNX else player.stem}"


def content_of(path: Path) -> dict[str, Any]:
    """Return the content of a tensor file, empty if it is not one (loading it later raises). Loads torch."""
    from sparring.configs.core.regular_file import read_regular
    from sparring.configs.core.tensor_file import TensorFileError, unpack

    try:
        return unpack(read_regular(path))
    except (OSError, TensorFileError):
        return {}


def _find_model(text: str) -> Player | None:
    """Find a language model: a server, a model folder, a run that has one, or a named model."""
    if is_server(text):
        return text
    folders = [place / path for path in (text, f"{text}/{MODEL_FOLDER}") for place in _places("")]
    found = next((folder.resolve() for folder in folders if holds((folder / MODEL_FILE).is_file)), None)
    return found or (text if text in NAMED_MODELS else None)


def _places(text: str) -> tuple[Path, ...]:
    """Return the paths to try for `text`; the package's own folder only for files that it ships."""
    places = Path(), CHECKPOINTS.parent, CHECKPOINTS
    return (*places, SHIPPED) if text.startswith(f"{RELEASED}/") else places


def _newest_final() -> Path | None:
    """Find the newest final.pt by modification time; ties are broken by name."""
    finals = CHECKPOINTS.glob(f"*/{FINAL}")
    return max(finals, key=lambda path: (path.stat().st_mtime_ns, path.parent.name), default=None)


def _others_of_run(text: str) -> list[str]:
    """List the policies of the run whose folder, or a file in it, `text` names; empty for other texts."""
    for name in (text, str(Path(text).parent)):
        for folder in (place / name for place in _places(name)):
            if holds((folder / "config.yaml").is_file):
                return sorted(f"{name}/{path.stem}" for path in folder.glob("*.pt"))
    return []
