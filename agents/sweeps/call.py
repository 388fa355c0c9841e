"""`sparring.sweep`: several runs from a script, as `train.py +sweep=NAME` and `train.py --multirun` start them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.agents.sweeps.launch import SweepOutcome, launch_sweep
from sparring.configs.core.errors import ConfigError
from sparring.configs.foreign_names import in_our_words
from sparring.configs.overrides import as_override, override_texts
from sparring.configs.sweeps.expand import read_sweep
from sparring.configs.sweeps.grid import read_grid


def run_sweep(
    sweep: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    run: str | None = None,
    varied: Mapping[str, Sequence[Any]] | None = None,
) -> SweepOutcome:
    """Train the runs of the sweep file `sweep`, or of the run file `run` with every combination of `varied`.

    `overrides` are options of all runs, by key or as texts; `varied` has several values by key, such as
    `{"seed": [1, 2, 3], "ppo.clip": [0.1, 0.2]}`; beside a sweep file that is `seed`, or `runs`, a choice of its runs.
    The same call goes on where an interrupted one stopped. Needs the extra `sweeps`, for searches `search`.

    Returns the outcome of each run; a failed run is one of them, and no error. Raises `InputError` if any of the runs
    could not start, before the first one does, and `KeyboardInterrupt` after Ctrl-C.
    """
    if (sweep is None) == (run is None):
        raise ConfigError("give either a sweep file, sparring.sweep(NAME), or a run file with what varies, run=NAME")
    if isinstance(overrides, Mapping):
        overrides = override_texts(overrides)
    several = [f"{key}={','.join(map(as_override, values))}" for key, values in (varied or {}).items()]
    words = in_our_words([*overrides, *several])
    outcome = launch_sweep(read_sweep([f"+sweep={sweep}", *words]) if sweep else read_grid([f"+run={run}", *words]))
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome
