"""From what a person writes (`bot:ace`, `brawler`, a path, a run's name, `final.pt`) to a bot or a policy's file.

Files are only looked for, not read: torch is not needed, so a name that does not exist is answered at once, with the
choices and the nearest match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import UnknownNameError, choose, suggestion
from sparring.configs.core.paths import CHECKPOINTS, ROOT, SHIPPED
from sparring.envs.dogfight.rules import BOTS
from sparring.eval.suggestions import BOT_PREFIX, DOGFIGHT_GAME, GAMES, GameChoices, not_found

RELEASED = "released/"
ONNX = ".onnx"
"""How the file of an ONNX agent ends."""

Player = str | Path
"""A bot by its name, or a policy by its file."""


def find_player(text: str) -> Player:
    """The evaluated player: a checkpoint, or a bot written as bot:NAME; raises `UnknownNameError`."""
    return _bot(text) if text.startswith(BOT_PREFIX) else find_checkpoint(text)


def find_opponent(text: str, game: GameChoices = DOGFIGHT_GAME) -> Player:
    """An opponent: one of the game's bots by its name, or whatever `find_player` takes; raises `UnknownNameError`."""
    if text in game.bots or text.startswith(BOT_PREFIX):
        return _bot(text, game.bots)
    try:
        return find_checkpoint(text, game)
    except UnknownNameError as error:
        if Path(text).suffix or "/" in text:
            raise
        bots = f"no bot of that name ({', '.join(game.bots)}{suggestion(text, game.bots)})"
        raise UnknownNameError(f"unknown opponent {text!r}: {bots} and {error}") from error


def find_checkpoint(text: str, game: GameChoices = DOGFIGHT_GAME, named: Sequence[str] = ()) -> Path:
    """The file a person means by `text`.

    A file, ONNX agents included (`.pt` may be left out), or a run's folder (its final.pt), looked for from the working
    directory, the repository and its checkpoints folder, so that a run's name and `released/<name>` are enough; the
    bare word final.pt is that of the run that saved last. Raises `UnknownNameError` with what there is of this game,
    `named` besides, and the nearest match.
    """
    candidates = [place / path for path in (text, f"{text}/{FINAL}", f"{text}.pt") for place in _places(text)]
    found = next((candidate for candidate in candidates if holds(candidate.is_file)), None)
    if found is None and text == FINAL:
        found = _newest_final()
    if found is None:
        raise UnknownNameError(not_found(text, game, CHECKPOINTS, _others_of_run(text), named))
    return found.resolve()


def find_run(text: str) -> Path:
    """The folder of a run given by its name, its folder or a checkpoint in it (final.pt is the newest run's).

    Raises `UnknownNameError` where there is none, or where it holds no checkpoint.
    """
    folder = find_folder(text, CHECKPOINTS) or find_checkpoint(text).parent
    if not any(folder.glob("*.pt")):
        raise UnknownNameError(f"{folder}: holds no checkpoint; name a run that has saved one, or {FINAL}")
    return folder


def find_folder(text: str, root: Path, *, holding: str = "") -> Path | None:
    """The folder `text`, from the working directory or else in `root`, that has a file `holding` in it, or None."""
    places = (Path(text), root / text)
    found = (place for place in places if holds(place.is_dir) and holds((place / holding).exists))
    return next((place.resolve() for place in found), None)


def display_name(player: Player) -> str:
    """What tables call a player: a bot by its name, <run> for its final.pt, <run>/<file> for others, else the path.

    An ONNX agent keeps its .onnx, since the checkpoint it was made from lies beside it under the same name.
    """
    if isinstance(player, str) or not player.is_relative_to(CHECKPOINTS):
        return str(player)
    inside = player.relative_to(CHECKPOINTS)
    if inside.suffix == ONNX:
        return str(inside)
    name = str(inside.parent if inside.name == FINAL else inside.with_suffix(""))
    return str(player) if any(name in game.bots for game in GAMES) else name


def display_path(path: Path) -> str:
    """A path from the repository on where it lies inside, so that files made on two machines agree."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def holds(check: Callable[[], bool]) -> bool:
    """What a path's `is_file` or `is_dir` says, and False for a name that nothing can have."""
    try:
        return check()
    except (OSError, ValueError):  # too long, or with a zero byte in it
        return False


def _bot(text: str, known: Sequence[str] = BOTS) -> str:
    return choose("bot", text.removeprefix(BOT_PREFIX), known)


def _places(text: str) -> tuple[Path, ...]:
    """Where to look for `text`; the package's own folder only for what it ships."""
    places = Path(), CHECKPOINTS.parent, CHECKPOINTS
    return (*places, SHIPPED) if text.startswith(RELEASED) else places


def _newest_final() -> Path | None:
    """Find the final.pt written last, by modification time, then by name so that a tie has one answer."""
    finals = CHECKPOINTS.glob(f"*/{FINAL}")
    return max(finals, key=lambda path: (path.stat().st_mtime_ns, path.parent.name), default=None)


def _others_of_run(text: str) -> list[str]:
    """The policies of the run whose folder, or a file in it, `text` names; none where it names no run's."""
    for name in (text, str(Path(text).parent)):
        for folder in (place / name for place in _places(name)):
            if holds((folder / "config.yaml").is_file):
                return sorted(f"{name}/{path.stem}" for path in folder.glob("*.pt"))
    return []
