"""UCI engine programs for tests, which can exit on command."""

import sys

import chess

_PROGRAM = """#!{python}
import pathlib, sys
log, fatal, times, says = pathlib.Path({log!r}), {fatal!r}, {times}, {says!r}
position = ""
for line in sys.stdin:
    word = line.split()[0]
    if word == "uci":
        for name in ("Hash", "MultiPV"):
            print(f"option name {{name}} type spin default 1 min 1 max 99")
        print("id name Puppet 3\\nuciok")
    elif word == "isready":
        print("readyok")
    elif word == "position":
        position = line.replace("startpos", "fen {start}")
    elif word == "go":
        with log.open("a") as file:
            file.write(position)
        if fatal and fatal in position and log.read_text().count(fatal) <= times:
            sys.exit(1)
        lines = ("7 pv e2e4", "5 pv d2d4") if " w " in position else ("-7 pv e7e5", "-9 pv d7d5")
        for number, line in enumerate(lines if says is None else (), 1):
            print(f"info depth 1 multipv {{number}} score cp {{line}}")
        print("bestmove " + lines[0].split()[-1] if says is None else says)
    elif word == "quit":
        break
    sys.stdout.flush()
"""


def write_puppet(folder, *, fatal="", times=0, says=None):
    """An engine that ends at positions with the text `fatal`, so many times; the log lists its searches.

    It reports two moves, or what it `says`.
    """
    program, log = folder / "puppet", folder / "searches.txt"
    log.touch()
    program.write_text(
        _PROGRAM.format(
            python=sys.executable, log=str(log), start=chess.STARTING_FEN, fatal=fatal, times=times, says=says
        )
    )
    program.chmod(0o755)
    return str(program), log
