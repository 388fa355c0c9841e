"""Resolution of player names: `bot:ace`, `brawler`, a path, a run's name, `final.pt`, `tiny`, a server's address.

Files are located but not read, and torch is not needed, which would delay a message by many seconds. An unknown name is
therefore reported immediately, with the choices and the nearest match. A run's configuration contains its game and its
trainer, a released policy's name its game; without these it may be of any game.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sparring.agents.run.folder import FINAL, RunFolder, RunFolderError
from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError, UnknownNameError, choices, choose, require_package, suggestion
from sparring.configs.core.files import CHECKPOINTS, PACKAGE, ROOT, SHIPPED, holds
from sparring.configs.games import PACKAGES, current_id
from sparring.configs.kinds import run_kind
from sparring.configs.opponents import is_code
from sparring.envs.game import HELD_OUT_PREFIX, Game, check_plays, game_of, games

ONNX = ".onnx"
"""File suffix of an ONNX agent."""
POLICIES = (".pt", ONNX, ".zip")
"""Suffixes of policies: this project's, ONNX agents, Stable-Baselines3's."""

Player = str | Path
"""Text: a bot, a Python object, one of `NAMED_MODELS` or a server's address.

Path: a policy file, an adapter or a model folder."""


def find_player(text: str, game: Game | None = None, *, bare: Sequence[str] = (), models: bool = True) -> Player:
    """Find the player of `game`, or of any game if it is None, named by `text`.

    A bot is written as bot:NAME, a held-out opponent as held_out:NAME; names in `bare` (an opponent's bots) need no
    prefix. Players with options, `search:seconds=1`, are built when they play, and Python objects, `module:Name` or
    registered, are not imported here. Games of language models accept `NAMED_MODELS`, model folders and server
    addresses, except without `models`; every game accepts the files of `find_checkpoint`.
    Raises `UnknownNameError` with the choices and the nearest match.
    """
    if game and not models:
        game = replace(game, text_game="")
    held_out = [name for entry in ([game] if game else games()) for name in entry.held_out]
    if held_out and text.startswith(HELD_OUT_PREFIX):
        return choose("held-out opponent", text, held_out)
    if text in bare or any(entry.builds(text) for entry in _choices(game)) or is_code(text):
        return text
    if text.startswith(BOT_PREFIX):
        bots = [bot for entry in ([game] if game else games()) for bot in entry.bots]
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
    directory, the repository and its checkpoints folder, so a run's name is enough. A released policy's name is
    accepted unless a run has the same name. `final.pt` without a path means the newest run's policy. Raises
    `UnknownNameError` with the choices of this game and the nearest match.
    """
    paths = text, f"{text}/{FINAL}", f"{text}.pt", f"{RELEASED}/{text}.pt"
    candidates = [folder / path for path in paths for folder in _places(path)]
    file = next((candidate for candidate in candidates if holds(candidate.is_file)), None)
    if file is None and text == FINAL:
        finals = CHECKPOINTS.glob(f"*/{FINAL}")  # the newest; of equally old ones the last by name
        file = max(finals, key=lambda path: (path.stat().st_mtime_ns, path.parent.name), default=None)
    if file is None:
        raise UnknownNameError(not_found(text, game, CHECKPOINTS, _others_of_run(text)))
    if file.suffix not in POLICIES:
        raise InputError(f"{text}: not a policy ({', '.join(POLICIES)}); pass one, a run's name, or {FINAL}")
    if game:
        check_plays(file, game)
    return file.resolve()


def find_run(text: str, game: Game | None = None) -> Path:
    """Find the folder of a run given by its name, its folder or a checkpoint in it (final.pt is the newest run's).

    Raises `UnknownNameError` for a missing folder and for one without a checkpoint.
    """
    folder = find_folder(text) or find_checkpoint(text, game).parent
    if not any(folder.glob("*.pt")):
        raise UnknownNameError(f"{folder}: contains no checkpoint; name a run that has saved one, or {FINAL}")
    return folder


def find_folder(text: str, *, holding: str = "") -> Path | None:
    """Find a folder `text` that has a file `holding`, relative to the working directory, else a run's; or None."""
    places = (Path(text), CHECKPOINTS / text)
    folders = (path for path in places if holds(path.is_dir) and holds((path / holding).exists))
    return next((path.resolve() for path in folders), None)


def runs_with(name: str) -> list[str]:
    """List the runs whose folder has a file `name`."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob(f"*/{name}"))


def planner_samples(text: str) -> int | None:
    """Return the number of samples of `planner:k=16`, which `planner` means as well; None for another name."""
    match = PLANNER.fullmatch(text)
    if match is None:
        return None
    samples = int(match[1] or 16)
    if wrong := complaint(samples, SAMPLES):
        raise InputError(f"{text}: k={samples} {wrong}")
    return samples


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
    home = next((folder for folder in (CHECKPOINTS, SHIPPED) if player.is_relative_to(folder)), None)
    if home is None:
        return str(player)
    inside = player.relative_to(home)
    if inside.suffix == ONNX:
        return str(inside)
    name = str(inside.parent if inside.name == FINAL else inside.with_suffix(""))
    return str(player) if any(name in game.bots for game in games()) else name


def display_path(path: Path) -> str:
    """Return a path inside the repository relative to it; files made on two machines then agree."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def results_place(player: Player, kind: str = "eval") -> tuple[Path, str] | None:
    """Return the folder and file name for a player's results; None for a player that is not a file or folder.

    Results of other files than final.pt have its name. Those of released models never go into an installed package.
    """
    if isinstance(player, str):
        return None
    folder = ROOT if ROOT != PACKAGE and player.is_relative_to(SHIPPED) else player.parent
    name = f".{player.name if player.suffix == ONNX else player.stem}"
    return folder, kind + name * (player.name not in (FINAL, MODEL_FOLDER))


def content_of(path: Path) -> dict[str, Any]:
    """Return the content of a tensor file, of an ONNX model its contract; empty if it is neither. Loads torch.

    Loading such a file later raises.
    """
    if path.suffix == ONNX:
        from sparring.agents.opponents.onnx_file import read_contract

        with suppress(InputError):
            return {"contract": read_contract(path)}
        return {}
    require_package("torch", "train")
    from sparring.configs.core.archive import TensorFileError
    from sparring.configs.core.files import read_regular
    from sparring.configs.core.tensor_file import unpack

    try:
        return unpack(read_regular(path))
    except (OSError, TensorFileError):
        return {}


def _find_model(text: str) -> Player | None:
    """Find a language model: a server, a model folder, a run that has one, or a named model."""
    if is_server(text):
        return text
    folders = [base / path for path in (text, f"{text}/{MODEL_FOLDER}") for base in _places("")]
    folder_of_model = next((folder.resolve() for folder in folders if holds((folder / MODEL_FILE).is_file)), None)
    return folder_of_model or (text if text in NAMED_MODELS else None)


def _places(text: str) -> tuple[Path, ...]:
    """Return the paths to try for `text`; the package's own folder only for files that it ships."""
    places = Path(), CHECKPOINTS.parent, CHECKPOINTS
    return (*places, SHIPPED) if text.startswith(f"{RELEASED}/") else places


def _others_of_run(text: str) -> list[str]:
    """List the policies of the run whose folder, or a file in it, `text` names; empty for other texts."""
    for name in (text, str(Path(text).parent)):
        for folder in (base / name for base in _places(name)):
            if holds((folder / "config.yaml").is_file):
                return sorted(f"{name}/{path.stem}" for path in folder.glob("*.pt"))
    return []


RELEASED = "released"
BOT_PREFIX = "bot:"
SAMPLED_PREFIX = "stochastic:"
"""Before a checkpoint as an opponent: it samples its actions."""
PLANNER = re.compile(r"planner(?::k=(\d{1,6}))?")
SAMPLES = "[2, 1024]"
NAMED_MODELS = ("tiny", "smollm2")
"""Language models available by name."""
MODEL_FILE, MODEL_FOLDER = "config.json", "final"
"""A file in every language model's folder, and the name of the model folder in a run that cloned a bot."""


def not_found(text: str, game: Game | None, checkpoints: Path, siblings: Sequence[str]) -> str:
    """Return the message for `text`, no player of `game` (None: of any); `siblings` are of the run it names."""
    if any(text in entry.bots for entry in _choices(game)):
        return f"no checkpoint {text!r}: write {BOT_PREFIX}{text} for the bot"
    if siblings:
        return f"no checkpoint {text!r}: {choices(text, siblings)}"
    runs = runs_of(game, checkpoints)
    named = [*(NAMED_MODELS if _models(game) else ()), *released_of(game, checkpoints)]
    start = f"train one first (python train.py +run={_choices(game)[0].first_run})"
    if not runs + named:
        return f"no checkpoint {text!r} and none under {checkpoints}; {start}"
    if text == FINAL and not runs:
        hint = f"no run in {checkpoints} has saved one; {start}"
        return f"no checkpoint {text!r}: {hint} or choose from {', '.join(named)}"
    names = [FINAL, *runs, *named] if runs else named
    return f"no checkpoint {text!r}: {choices(text, names)}; or pass a path"


def runs_of(game: Game | None, checkpoints: Path) -> list[str]:
    """List runs that have saved their final policy, except those of another game."""
    models = [path.parent.parent for path in checkpoints.glob(f"*/{MODEL_FOLDER}/{MODEL_FILE}") if _models(game)]
    runs = sorted({*models, *(path.parent for path in checkpoints.glob(f"*/{FINAL}"))})
    return [run.name for run in runs if _plays(game, run / "config.yaml")]


def released_of(game: Game | None, checkpoints: Path) -> list[str]:
    """List released policies, except those of another game."""
    home = SHIPPED if ROOT != PACKAGE and not (checkpoints / RELEASED).is_dir() else checkpoints
    names = sorted(path.stem for path in (home / RELEASED).glob("*.pt"))
    prefixes = tuple(f"{other.name}_" for other in games() if game and other.id != game.id)
    return [f"{RELEASED}/{name}" for name in names if not name.startswith(prefixes)]


def trained_in(config: Path) -> str:
    """Return the environment of a stored configuration, empty if it is missing or unreadable.

    Games of other packages have those in front, as in policies: openspiel:leduc_poker.
    """
    env = _stored(config).get("env")
    if not isinstance(env, dict):
        return ""
    package = env.get("package")
    own = next((game.id for game in games() if game.name == package), str(env.get("id", "")))
    return f"{package}:{env.get('id', '')}" if package in PACKAGES else own


def trains_language_model(config: Path) -> bool:
    """Return whether a stored configuration trains a language model."""
    return run_kind(_stored(config)).language_model


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
    return f"{path}: was trained in {env_id}; this command accepts only {game.id}{hint}"


def _choices(game: Game | None) -> Sequence[Game]:
    return [game] if game else games()


def _models(game: Game | None) -> bool:
    return any(entry.language_models for entry in _choices(game))


def _plays(game: Game | None, config: Path) -> bool:
    """Return whether the policy of a stored configuration's run may play `game`; True if unknown."""
    if game is None:
        return True
    return trained_in(config) in ("", game.id) and (game.language_models or not trains_language_model(config))


def _stored(config: Path) -> dict[str, Any]:
    """Read a stored configuration; return an empty one if it is missing or unreadable."""
    try:
        return RunFolder(config.parent).read_config()
    except RunFolderError:
        return {}


class OpponentError(InputError):
    """An object that cannot act as an opponent; the message is one line with what it returned and what is expected."""


def made(source: Any, name: str) -> Any:
    """Return `source`, or an object of it if it is a class; raises `OpponentError` if that needs arguments."""
    if not inspect.isclass(source):
        return source
    try:
        return source()
    except TypeError as error:
        raise OpponentError(f"opponent {name}: cannot be created without arguments ({error})") from error


def reseed_source(source: Any, seed: int) -> None:
    """Call `reseed(seed)` of an object, given itself or by its method, that has random numbers of its own."""
    reseed = getattr(getattr(source, "__self__", source), "reseed", None)
    if callable(reseed):
        reseed(seed)


def act_function(source: Any, name: str) -> Callable[[Any], Any]:
    """Return the function to call in each position; raises `OpponentError` if `source` cannot be called."""
    source = made(source, name)
    act = getattr(source, "act", source)
    if not callable(act):
        kind = type(source).__name__
        raise OpponentError(f"opponent {name}: a {kind} cannot act; pass a function or an object with act(obs)")
    return cast(Callable[[Any], Any], act)
