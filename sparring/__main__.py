"""The command `sparring`: `sparring play`, `sparring train +run=quickstart`; without arguments it lists what there is.

`play` and `watch` without options open one page in the browser, in which the released policy flies; they, `policies`,
`bench` and `runs` need the base package only. The other commands need the extra `train`: `sparring install train`.
Exit codes: those of the command; 2 for bad input or a package missing (one line on stderr).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import naming_files, write_atomically
from sparring.configs.core.parts import CommandPlace, parts
from sparring.envs.game import games, load

BAD_INPUT = 2

COMMANDS = parts("commands") | {
    "watch": CommandPlace("", "the released policy, or the policy file given, flies both aircraft", trains=False),
    "install": CommandPlace("", "install what an extra needs into this Python: sparring install train", trains=False),
}
TRAINING = ("torch", "warp", "hydra", "pettingzoo")  # one of them missing: the extra is not installed
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    called = sys.argv
    words = list(called[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except InputError as error:
        print(f"sparring: {error}", file=sys.stderr)
        return BAD_INPUT
    finally:
        sys.argv = called  # messages of this process name other commands as before


def overview() -> str:
    """Return the list of commands."""
    rows = "\n".join(f"  {name:17} {command.what}" for name, command in COMMANDS.items())
    return f"usage: sparring COMMAND ...\n\n{rows}\n\nsparring COMMAND --help says more."


def _run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h"):
        print(overview())
        return 0
    name, options = choose("command", words[0], COMMANDS), words[1:]
    command, helps = COMMANDS[name], bool({"--help", "-h"} & {*options})
    sys.argv = ["sparring", *words]  # messages name the command as it was called
    if options in (["--help"], ["-h"]) and not command.module:
        print(f"usage: sparring {name}{' [POLICY]' if name == 'watch' else ''}\n\n{command.what}")
    elif name == "watch" or (name == "play" and not options):
        _open_page(options, watching=name == "watch")
    elif name == "install":
        return _install(options)
    elif helps or name != "play" or not _opened_page(options):
        if command.trains and not helps:
            _require_training(name)
        sys.argv = ["sparring", *options]
        return int(import_module(command.module).main())
    return 0


def _opened_page(words: list[str]) -> bool:
    """Open the page of one file and return True, where the server lacks a package and the page can do what is asked.

    Raises `InputError` for a wrong option, and with the extras to install where the page does not do.
    """
    from sparring.eval.browser.server import ServerOptions
    from sparring.eval.options import parse, parse_known
    from sparring.eval.play import PlayChoice

    if not _missing(*ServerOptions.NEEDS):
        return False
    game = parse_known(PlayChoice, words).game
    settings: Any = parse(game.options, words)
    flags = {word.partition("=")[0] for word in words if word.startswith("-")}
    bots = {bot for one in games() for bot in one.bots}
    if game.page and flags <= {"--opponent", "--no-browser"} and settings.opponent not in bots:
        _open_page([settings.opponent], watching=False, opens=not settings.no_browser)
        return True
    _require_training("play", *settings.NEEDS.values())
    return False


def _open_page(options: list[str], *, watching: bool, opens: bool = True) -> None:
    """Write the page of a policy, the released one by default, and open it in the browser."""
    if len(options) > 1:
        raise InputError(f"watch {' '.join(options)}: takes one policy: a file, a run's name, or released/NAME")
    from sparring.eval.browser.server import open_browser

    policy, page = _browser_game().page(options[0] if options else "")
    path = _cache() / f"fly-{re.sub(r'[^A-Za-z0-9_.-]+', '-', policy)[-80:]}.html"
    with naming_files(path.parent):
        write_atomically(path, page)
    address = path.as_uri() + ("#watch" if watching else "")
    if opens and open_browser(address):
        print(f"Opened {address} in the browser: {policy}, with simulator and network on one page.")
    else:
        where = "No browser opens from here; open this file in one" if opens else "Open this file in a browser"
        print(f"{where}, on any machine: {path}")


def _browser_game() -> Any:
    """Return the first game that has a page of one file. Raises `InputError` if none has."""
    for game in games():
        if game.play and (browser := load(game.play)).page:
            return browser
    raise InputError("no game here has a page of one file; play one with a server: sparring play --env GAME")


def _cache() -> Path:
    """Return a folder for pages that exists and can be written to."""
    for base in (lambda: os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", tempfile.gettempdir):
        try:
            folder = Path(base()) / "sparring"
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # read-only, full, or there is neither a home nor a temporary folder
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise InputError("neither the cache folder nor the temporary one can be written to; set XDG_CACHE_HOME")


def _missing(*more: str) -> list[str]:
    return [package for package in (*TRAINING, *more) if find_spec(package) is None]


def _require_training(name: str, *more: str) -> None:
    if missing := _missing():
        raise InputError(
            f"{name}: needs the extra train, and {missing[0]} is not installed for {sys.executable}; run "
            f"`sparring install {' '.join(dict.fromkeys(('train', *more)))}` (1.3 GB with a CPU build of torch)"
        )


def _install(extras: list[str]) -> int:
    """Install the requirements of `extras` with this Python's pip."""
    names = metadata.metadata("sparring").get_all("Provides-Extra") or []
    if not extras:
        raise InputError(f"install: name an extra: {', '.join(names)}")
    needed = [requirement for extra in extras for requirement in requirements(choose("extra", extra, names))]
    if find_spec("pip") is None:
        raise InputError(
            f"install: this Python has no pip; with uv: uvx --with {' --with '.join(map(repr, needed))} ..."
        )
    print(f"Installing {', '.join(needed)} into {sys.prefix}")
    code = subprocess.run([sys.executable, "-m", "pip", "install", *cpu_build(needed), *needed], check=False).returncode
    if code:
        raise InputError(
            f"install: pip failed with {code}, for the reason above; without a network, run `pip download "
            f"{' '.join(map(repr, needed))}` where there is one, then here with PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER"
        )
    return 0


def cpu_build(needed: Sequence[str]) -> list[str]:
    """Return pip's words for the CPU build of torch, where torch is `needed` and this machine has no NVIDIA GPU.

    The usual build brings several GB of CUDA. Where pip has sources of its own, these are asked for a CPU build first.
    """
    if not any(name.startswith("torch") for name in needed) or shutil.which("nvidia-smi") or sys.platform == "darwin":
        return []
    elsewhere, configured = ["--extra-index-url", CPU_BUILDS], _pip("config", "list")
    if "index" not in configured and "find-links" not in configured:
        return elsewhere
    for source in ([], elsewhere):
        listed = _pip("index", "versions", "torch", "--retries=0", "--timeout=5", *source)
        if build := re.search(r"[\d.]+\+cpu", listed):
            return [*source, f"torch=={build[0]}"]
    print(f"pip's sources have no CPU build of torch: the usual one takes 4 GB more than that of {CPU_BUILDS}")
    return []


def _pip(*words: str) -> str:
    """Return what pip prints; empty where it fails."""
    return subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False).stdout


def requirements(extra: str) -> list[str]:
    """Return what the installed package says that `extra` needs, each as pip takes it."""
    stated = [requirement.partition(";") for requirement in metadata.requires("sparring") or []]
    return [
        need.strip() for need, _, marker in stated if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker)
    ]


if __name__ == "__main__":
    sys.exit(main())
