"""What the commands of this room share: exit codes, the machine, how games are set up and reported, and writing files.

Nothing here loads torch before it has to, so that a slip on the command line is answered at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.status import COMPILING, LOADING, said_if_long, say
from sparring.eval.parser import PlayOptions
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import MatchRecord, Report

if TYPE_CHECKING:
    from sparring.eval.dogfight.arena import ArenaPlan
    from sparring.eval.dogfight.players import Entrant

BAD_INPUT = 2
INTERRUPTED = 130


def run_command(name: str, command: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    """The exit code of `command(arguments)`; bad input is one line on stderr and 2, Ctrl-C is 130.

    `arguments` are those of the process unless given.
    """
    try:
        return command(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def use_machine(options: PlayOptions) -> tuple[str, int]:
    """Load torch, once everything that can be refused without it was; returns the device and the number of threads."""
    # Threads that spin while they wait make playing ten times slower on a machine that does anything else.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    say(LOADING, shown=not options.quiet)
    from sparring.agents.distributed.threads import set_threads
    from sparring.configs.core.device import choose_device

    return str(choose_device(options.device)), set_threads(options.threads)


def make_plan(options: PlayOptions, entrants: Iterable[Entrant], device: str, threads: int) -> ArenaPlan:
    """How the games are played, under conditions that suit all `entrants`; raises `InputError` where none do."""
    from sparring.eval.dogfight.arena import ArenaPlan, make_setting

    contestants = [entrant.contestant for entrant in entrants]
    rules, bot_rate = options.rules, options.bot_rate
    with said_if_long(COMPILING, shown=not options.quiet):
        setting = make_setting(contestants, rules=rules, bot_rate=bot_rate, device=device, threads=threads)
    return ArenaPlan(options.regimes, options.games, options.seed, setting, progress=not options.quiet)


def make_report(
    options: PlayOptions,
    plan: ArenaPlan,
    records: Sequence[MatchRecord],
    entrants: Iterable[Entrant],
    *,
    anchor: Anchor | None = None,
) -> Report:
    """The records, what it takes to play the same games again, and what is to be said of the `entrants`."""
    return Report(
        player=None,
        records=records,
        games=plan.games,
        seed=plan.seed,
        rules=plan.setting.rules,
        bot_rate=plan.setting.bot_rate,
        action_repeat=plan.setting.action_repeat,
        deterministic=not options.stochastic,
        device=plan.setting.device,
        command=options.command,
        anchor=anchor,
        notes=gather_notes(entrants),
    )


def gather_notes(entrants: Iterable[Entrant]) -> tuple[str, ...]:
    """What has to be said of the players, each note once."""
    return tuple(dict.fromkeys(note for entrant in entrants for note in entrant.notes))


def make_folders(folders: Iterable[Path], *, files: Iterable[Path] = ()) -> None:
    """Make `folders` and those of `files` before anything is played, so that a wrong path does not cost the games.

    Raises `InputError` where that is impossible, and where a folder stands in a file's place.
    """
    files = list(files)
    for folder in [*(path.parent for path in files), *folders]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({error.strerror}); give another place") from error
    for path in files:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the name of a file")


def publish(text: str, files: Mapping[Path, str | bytes], *, quiet: bool = False) -> None:
    """Print `text`, write the `files` of one folder, and say so; where `quiet`, only write them."""
    if not quiet:
        print(text)
    for path, data in files.items():
        write(path, partial(write_atomically, data=data))
    if files and not quiet:
        first, *others = files
        print("Wrote", ", ".join([str(first), *(path.name for path in others)]))


def write(path: Path, writer: Callable[[Path], None]) -> None:
    """Call `writer(path)`; an `OSError` becomes an `InputError` that says what to do."""
    try:
        writer(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another place, as with --out") from error
