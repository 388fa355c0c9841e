"""The command `python train.py +run=quickstart seed=3`, also `sparring train`; `--help` explains it on one screen.

`--help runs` lists all runs, `--help options` all options, and `--help SECTION`, such as `--help ppo`, the options of a
section. Otherwise the command composes and checks the configuration, then calls `agents.trainers.train`. The entry
points `sparring.sweeps` train several runs at once. `resume=NAME` resumes a run; `torchrun --nproc-per-node 2 train.py
+run=quickstart` trains in two processes. Without arguments it names five things to try.

Exit codes:
- 0: done
- 1: the guard ended the run (reason in `guard_report.json`)
- 2: bad input or a missing package (one line on stderr)
- 75: stopped with SIGTERM, or one of several processes was lost
- 130: stopped with Ctrl-C
- 143: stopped with SIGTERM with trainer=sb3, which cannot resume
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from sparring.agents.run.signals import Stopped, stopping_at_once
from sparring.agents.trainers import train, train_run
from sparring.configs.core.errors import InputError, UnknownNameError, as_called, choose
from sparring.configs.core.parts import parts
from sparring.configs.core.status import end_now, quiet_on_closed_pipe, say
from sparring.configs.foreign_names import in_our_words, translation
from sparring.configs.help import FIRST_STEPS, OVERVIEW, help_on, option_keys
from sparring.configs.load import load
from sparring.configs.serialization import to_plain
from sparring.envs.game import load as reference

FLAGS = ("--help", "-h", "--cfg", *(flag for sweep in parts("sweeps").values() for flag in sweep.flags))
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code; a stopped process ends in here."""
    process = arguments is None
    try:
        with stopping_at_once():
            code = quiet_on_closed_pipe(_run, sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        if _first():
            say(f"train.py: {error}")
        code = BAD_INPUT
    except Stopped as stop:
        if not process:
            raise
        end_now(int(stop.code or 0))
    except KeyboardInterrupt:  # `StopRequest` says more, where a run has a folder
        if _first():
            say("\nstopped by Ctrl-C; the same command starts or continues the run")
        code = INTERRUPTED
    return end_now(code) if process and code == INTERRUPTED else code


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        if _first():
            say(FIRST_STEPS)
        return BAD_INPUT
    flags = {_flag(text) for text in arguments if text.startswith("-")}
    if flags & {"--help", "-h"}:
        sections = [text for text in arguments if text not in flags and "=" not in text]
        print(as_called("\n\n".join(map(help_on, sections)) if sections else OVERVIEW))
        return 0
    arguments = in_our_words([text for text in arguments if text not in flags])
    keys = {text.lstrip("+").partition("=")[0] for text in arguments}
    for key, sweep in parts("sweeps").items():
        if key in keys or flags & {*sweep.flags}:
            return int(reference(sweep.launch)(arguments, show="--cfg" in flags))
    config = load(arguments)
    if "--cfg" in flags:
        print(yaml.safe_dump(to_plain(config), sort_keys=False), end="")
        return 0
    if getattr(config, "dry_run", False):
        print("\n".join(reference(parts("trainers")[config.trainer].preview)(config)))
        return 0
    train(config)
    return 0


def _flag(text: str) -> str:
    """Return a flag; raises `InputError` for another, and for an option written as one, such as --lr."""
    key = text.lstrip("-").partition("=")[0].replace("-", "_")
    if meant := translation(key):
        raise UnknownNameError(f"{text!r}: options are written KEY=VALUE, without dashes; {meant}")
    ours = next((option for option in option_keys() if option == key or option.endswith(f".{key}")), "")
    if ours:
        raise UnknownNameError(f"{text!r}: options are written KEY=VALUE, without dashes: {ours}=VALUE")
    return choose("flag", text, FLAGS)


class CallableTrain(ModuleType):
    """The module as the function `sparring.train`: the package has one attribute for both."""

    __signature__ = signature(train_run)

    def __call__(self, *arguments: Any, **options: Any) -> Path:
        """Train a run; see `agents.trainers.train_run`."""
        return train_run(*arguments, **options)


def _first() -> bool:
    """Return whether this process prints, of those that torchrun starts."""
    return os.environ.get("RANK", "0") == "0"


if __name__ == "__main__":
    sys.exit(main())
else:
    sys.modules[__name__].__class__ = CallableTrain
