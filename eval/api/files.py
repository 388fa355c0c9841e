"""`sparring.export`, `diplomacy_replay` and `play`: the commands of these names in `eval/` as functions."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.eval.api.arguments import option_words, quiet_words


def export(policy: Any, path: str | Path | None = None, *, batch: str | int | None = None) -> Path:
    """Write `policy` as an ONNX file, as `python eval/export.py --ckpt POLICY --out PATH` does; return the path.

    `policy` is a checkpoint of the dogfight, named as for `sparring.load`, or what that returns. By default the file is
    beside the checkpoint and ends in .onnx. The model takes any number of observations at once (`batch="free"`), or 1,
    which the public challenge asks and is the default under its rules. Needs the extra `export`.

    Raises `InputError` for bad input, in one line, and for a policy that is too large or differs from torch.
    """
    words = option_words({"ckpt": policy, "out": path, "batch": batch})
    written: Path = import_module("sparring.eval.export").export_policy(words).path
    return written


def diplomacy_replay(
    out: str | Path | None = None, *, players: Any = None, progress: bool = False, **options: Any
) -> tuple[Path, ...]:
    """Play or read a game of Diplomacy and write it, as `python eval/diplomacy_replay.py --out OUT` does.

    `out` is a page to watch. `players` is a player for all powers, a list of seven, or a mapping from powers, where
    the key "" is for all others: `{"FRANCE": "final.pt", "": "dumbbot"}`. `options` are `seed`, `last_year`, `game`, a
    saved game, `log`, the game as text, and `save`. Returns the written files. Raises `InputError` for bad input.
    """
    words = option_words({"out": out, "players": players, **options})
    written: tuple[Path, ...] = import_module("sparring.eval.diplomacy_replay").write_game(
        [*words, *quiet_words(progress=progress)]
    )
    return written


def play(opponent: Any = None, **options: Any) -> None:
    """Serve the page on which to play against `opponent`, as `python eval/play.py --opponent OPPONENT` does.

    `opponent` is a bot, a policy or a Python object; in Diplomacy `opponents` names several, as a list or by power,
    `{"GERMANY": Mine}`. `env` is the game, by default that of the opponent; further options are those of the game
    (`python eval/play.py --env diplomacy --help`). The address is printed and opened. Returns when the process is
    interrupted with Ctrl-C, by `KeyboardInterrupt`; `static="fly.html"` writes a page without a server and returns.

    Raises `InputError` for bad input, in one line.
    """
    import_module("sparring.eval.play").serve_opponent(option_words({"opponent": opponent, **options}))
