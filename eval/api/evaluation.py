"""`sparring.evaluate` and `sparring.record`: `eval/run.py` as functions, with the same options and the same numbers.

Options are those of the command line, with underscores: `games=40`, `regimes=["none", "full"]`, `stochastic=True`.
`eval/run.py --help` lists them. Both ways go through the same parser, so that they refuse the same input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError, listed
from sparring.configs.core.paths import user_path
from sparring.eval import run
from sparring.eval.api.arguments import option_words, quiet_words, whole_name
from sparring.eval.command import Evaluation, RecordingOptions, publish_evaluation, write

REPEATED = ("require",)
"""Options that the command line repeats, one value each."""


def evaluate(player: Any = None, *, progress: bool = False, **options: Any) -> Evaluation:
    """Evaluate `player` as `python eval/run.py --ckpt PLAYER ...` does, and return the table as data and text.

    `player` is what `sparring.load` takes or returns, a bot (`bot:ace`), a language model or a Python object;
    None for `ladder=True`.
    `options` are those of the command line (`opponents`, `games`, `episodes`, `seed`, `regimes`, `require`, `env`...).
    Nothing is printed, and nothing written unless `out` or `replay` says where; `progress` shows a bar.

    The result has `data`, the content of eval.json, `markdown`, and `failures`, a line per requirement not met.
    Raises `InputError` for bad input, in one line.
    """
    evaluation = run.evaluate(as_arguments(player, options, progress=progress))
    if options.get("out") is None:
        evaluation = replace(evaluation, place=None)
    publish_evaluation(replace(evaluation, failures=(), quiet=True))
    return evaluation


def record(player: Any, path: str | Path, *, progress: bool = False, **options: Any) -> Path:
    """Play one match of `player` and write its replay to `path`; return the path.

    The suffix chooses the kind: .html, a page on which to watch it (dogfight, Diplomacy, chess), .gif (dogfight,
    Gymnasium's environments) or .pgn (chess). `options` are those of `evaluate`; of several opponents each has a match.
    No table is written. Raises `InputError` for bad input, in one line.
    """
    path = user_path("path", path)
    words = as_arguments(player, {key: options[key] for key in ("env", "opponents") if key in options}, progress=False)
    known: RecordingOptions = import_module(run.COMMANDS[run.env_of(words)].partition(":")[0]).RECORDING
    option = known.by_suffix.get(path.suffix.lower())
    if option is None:
        raise InputError(f"{path}: is no replay of this game; give a name that ends in {listed([*known.by_suffix])}")
    arguments = as_arguments(player, {**known.shortest, **options, option: path}, progress=progress)
    evaluation = run.evaluate(arguments)
    write(path, evaluation.outputs[path])
    if evaluation.cut is not None:
        raise evaluation.cut
    return path


def as_arguments(player: Any, options: Mapping[str, Any], *, progress: bool) -> list[str]:
    """Return the words of the command line for a player and options."""
    words = [] if player is None else ["--ckpt", whole_name(getattr(player, "path", None) or player)]
    if (statistics := getattr(player, "vecnormalize", None)) is not None:
        options = {"vecnormalize": statistics, **options}
    return [*words, *option_words(options, repeated=REPEATED), *quiet_words(progress=progress)]
