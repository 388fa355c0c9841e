"""`sparring.exploit`, `payoff`, `seeds`, `curves` and `runs`: the commands of these names in `eval/` as functions.

Options are those of the command lines, with underscores. Both ways go through the same parser and the same code.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError, choose
from sparring.configs.overrides import override_texts
from sparring.eval.api.arguments import option_words, quiet_words, whole_name
from sparring.eval.command import CommandReport, write_files
from sparring.eval.parser import WholeName

ANSWERS = (
    *("list", "search", "get-run", "get-metrics", "get-artifacts", "get-cache-stats"),
    *("health", "analyze", "compare", "analyze-sweep"),
)
"""Commands of `eval/runs.py` that print one object as JSON."""


def exploit(
    policy: Any, overrides: Mapping[str, Any] | Sequence[str] = (), *, progress: bool = False, **options: Any
) -> CommandReport:
    """Train best responses to `policy`, as `python eval/exploit.py POLICY KEY=VALUE ...` does; return the table.

    `policy` is a checkpoint, an ONNX file or a Python object; a list of them is a mixture. `overrides` are options of
    the runs, such as `{"ppo.learning_rate": 3e-4}`; `options` are `steps`, `seeds`, `start`, `games`, `device`,
    `threads` and `out`. Runs and results are in `out`, by default below `checkpoints/exploit/`; finished runs are
    reused. `data` has a curve for each start, with the win rate of the best response over steps.

    Raises `InputError` for bad input, in one line, and `SystemExit` if a run is stopped, as `sparring.train` does.
    """
    if isinstance(overrides, Mapping):
        overrides = override_texts(overrides)
    policies = policy if isinstance(policy, list | tuple) else [policy]
    words = [*map(whole_name, policies), *overrides, *option_words(options), *quiet_words(progress=progress)]
    return _written(import_module("sparring.eval.exploit").exploit(words))


def payoff(run: str | Path, *, progress: bool = False, **options: Any) -> CommandReport:
    """Play the snapshots of `run` and other players against each other, as `python eval/payoff.py --ckpt RUN` does.

    `options` are `opponents`, `snapshots`, `games`, `seed`, `regimes`, `anchor` and others. `data` has `players`, the
    matrix `payoff` of shares of points, and ratings. Nothing is written unless `out="payoff.png"` says where.

    Raises `InputError` for bad input, in one line.
    """
    words = [*option_words({"ckpt": run, **options}), *quiet_words(progress=progress)]
    return _written(import_module("sparring.eval.payoff").payoff(words, keep=False))


def seeds(runs: Sequence[str | Path], **options: Any) -> CommandReport:
    """Sum up the evaluations of several seeds, as `python eval/seeds.py RUN RUN ...` does.

    `runs` are runs' names or folders, or eval.json files; `options` are `against`, `seed`, `resamples` and `out`.
    `data["rows"]` has a row per opponent and physics, with interquartile means and intervals.

    Raises `InputError` for bad input, in one line.
    """
    words = [*_names("runs", runs), *option_words(options)]
    return _written(import_module("sparring.eval.seeds").seeds(words))


def curves(runs: Sequence[str | Path] | Mapping[str, Sequence[str | Path]], **options: Any) -> CommandReport:
    """Read learning curves of runs, as `python eval/curves.py GROUP GROUP ...` does.

    `runs` are names or folders, or groups of these by label, such as `{"on": ["a", "b"], "off": ["c"]}`. `options` are
    `metrics`, `log`, `smooth`, `by_update`, `no_events`, `title` and `out`. `data["metrics"][METRIC]` has for each
    group the runs with `env_steps` and `values`. A picture is drawn only with `out="curves.png"`.

    Raises `InputError` for bad input, in one line.
    """
    groups = {label: _names(label, names) for label, names in runs.items()} if isinstance(runs, Mapping) else None
    words = [*(() if isinstance(runs, Mapping) else _names("runs", runs)), *option_words(options)]
    return _written(import_module("sparring.eval.curves").curves(words, keep=False, groups=groups))


def runs(command: str, *names: str, **options: Any) -> dict[str, Any]:
    """Ask recorded runs, as `python eval/runs.py COMMAND NAME ... --json` does; return the object that it prints.

    `command` is `list`, `search`, `get-run`, `get-metrics`, `get-artifacts`, `get-cache-stats`, `health`, `analyze`,
    `compare` or `analyze-sweep`. `names` are its arguments, such as runs; an option that may be repeated takes a list,
    `metrics=["rollout/reward"]`. Warnings and damaged places are printed on stderr.

    Raises `InputError` for bad input and unknown runs, in one line.
    """
    choose("command", command, ANSWERS)
    app = import_module("sparring.eval.runs")
    with redirect_stdout(io.StringIO()) as said:
        app.call([command, *map(whole_name, names), *option_words(options, repeated=None), "--json"])
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def _names(what: str, names: Sequence[str | Path]) -> list[WholeName]:
    if isinstance(names, str | Path):
        raise InputError(f"{what}: {str(names)!r} is one name; give a list, [{str(names)!r}]")
    return [whole_name(name) for name in names]


def _written(report: CommandReport) -> CommandReport:
    write_files(report.files)
    return report
