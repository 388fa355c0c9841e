"""Fly the dogfight against a policy in the browser: `python eval/play.py`; `--help` lists every option.

`--static play.html` writes one file that needs no server. Exit codes: 0 done, 2 bad input or a package missing (one
line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/play.py")

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.eval.command import announce_loading, make_folders, run_command, write_asked
from sparring.eval.playing.options import PlayingOptions, read_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/play.py", _run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    if options.static:
        return _write_static(options, options.static)
    raise InputError("--static is missing: name the page to write")


def _write_static(options: PlayingOptions, path: Path) -> int:
    from sparring.eval.playing.opponents import find_opponent

    found = find_opponent(options.opponent)
    make_folders([], files=[path])
    announce_loading(quiet=options.quiet)
    from sparring.agents.policies.policy import Policy
    from sparring.eval.playing.opponents import load_opponent
    from sparring.eval.playing.pages import static_page

    policy = load_opponent(found).contestant
    if not isinstance(policy, Policy):
        raise InputError(f"--opponent {options.opponent}: a bot has no network to put into a page; give a checkpoint")
    text = static_page(policy)
    write_asked(path, lambda file: write_atomically(file, text), quiet=options.quiet)
    return 0


if __name__ == "__main__":
    sys.exit(main())
