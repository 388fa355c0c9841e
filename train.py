"""Train an agent: `python train.py +run=quickstart seed=3`; `--help` lists the runs and every option.

Composes and checks the configuration, then hands it to `agents.ppo.loop.train`, which knows nothing of command lines.
`resume=NAME` continues a run; `torchrun --nproc-per-node 2 train.py +run=quickstart` trains in two processes.
Exit codes: 0 done, 2 bad input (one line on stderr), 130 stopped with Ctrl-C, 75 with SIGTERM or because one of
several processes was lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from configs.help import help_text
from configs.load import load
from configs.names import InputError, choose
from configs.plain import to_plain
from configs.schema import RunConfig

FLAGS = ("--help", "-h", "--cfg")
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        if os.environ.get("RANK", "0") == "0":  # of the processes that torchrun starts, one says it
            print(f"train.py: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _run(arguments: Sequence[str]) -> None:
    flags = {choose("flag", text, FLAGS) for text in arguments if text.startswith("-")}
    if flags & {"--help", "-h"}:
        print(help_text())
        return
    config = load([text for text in arguments if text not in flags])
    if "--cfg" in flags:
        print(yaml.safe_dump(to_plain(config), sort_keys=False), end="")
        return
    # Threads that spin while they wait make training ten times slower on a machine that does anything else.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _trainer(config.trainer)(config)  # late: a mistyped option is answered before torch and Warp load


def _trainer(name: str) -> Callable[[RunConfig], Path]:
    if name == "sb3" and os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("trainer=sb3: learns in one process; start it without torchrun, or use trainer=ppo")
    if name == "sb3":
        try:
            from agents.sb3 import train as sb3
        except ModuleNotFoundError as error:
            raise InputError(f'trainer=sb3 needs {error.name}: pip install -e ".[sb3]"') from error
        return sb3
    from agents.ppo.loop import train

    return train


if __name__ == "__main__":
    sys.exit(main())
