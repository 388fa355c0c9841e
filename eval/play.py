"""Fly the dogfight against a policy or a bot in the browser: `python eval/play.py`; `--help` lists every option.

Opens a page of a server on 127.0.0.1 (extra `play`). `--static fly.html` writes one file that needs no server. Exit
codes: 0 done, 2 bad input or a package missing (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/play.py")

from sparring.agents.opponents.players import Player
from sparring.configs.core.files import write_atomically
from sparring.eval.command import announce_loading, make_folders, run_command, use_machine, write_asked
from sparring.eval.playing.opponents import find_opponent, known_opponents, load_opponent
from sparring.eval.playing.options import PlayingOptions, read_options
from sparring.eval.playing.server import Gate, check_packages, listen, serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/play.py", _run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    found = find_opponent(options.opponent)
    if options.static:
        _write_static(options, found, options.static)
    else:
        _serve(options, found)
    return 0


def _write_static(options: PlayingOptions, found: Player, path: Path) -> None:
    make_folders([], files=[path])
    announce_loading(quiet=options.quiet)
    from sparring.eval.playing.pages import static_page

    text = static_page(load_opponent(found).contestant)
    write_asked(path, lambda file: write_atomically(file, text), quiet=options.quiet)


def _serve(options: PlayingOptions, found: Player) -> None:
    check_packages()
    with listen(options.port) as listening:
        use_machine("cpu", 1, quiet=options.quiet)
        from sparring.eval.playing.live_match import LiveMatch
        from sparring.eval.playing.session import Stage

        # Played once here, so that an opponent that cannot play ends the command, and the kernels are compiled.
        LiveMatch(load_opponent(found), regime="default", seed=options.seed, rules=options.rules).close()
        gate = Gate(listening.getsockname()[1])
        print(f"Play at {gate.address}\nThe address works once; Ctrl-C ends the server.", flush=True)
        if options.browser and (sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
            webbrowser.open(gate.address)
        stage = Stage(known_opponents(options.opponent), options.rules, options.seed, options.replays)
        serve(stage, gate, listening)


if __name__ == "__main__":
    sys.exit(main())
