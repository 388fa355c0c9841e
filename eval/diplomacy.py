"""Bots and policies in Diplomacy: `python eval/diplomacy.py --ladder`; `--help` lists the options, with examples.

One power is played by one bot, or by a policy, and six by another bot, each power equally often; a game that nobody has
won by the end of the last year is a draw. Says for either side solos, the shares by draw size and by sum of squares,
and centres, with 95 % intervals, and writes diplomacy.md and diplomacy.json where --out says. Exit codes: 0 done, 2 bad
input (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

if not __package__:  # Run as a script: only this repository's packages are meant, whatever else is installed.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from configs.installed import check_installed

    check_installed("eval/diplomacy.py")

from configs.allowed import complaint
from configs.names import InputError, choose
from configs.schema import DEVICE
from configs.waiting import COMPILING, LOADING, said_if_long, say
from envs.diplomacy.codes import BOTS, ENV_ID, NUM_POWERS
from eval.command import make_folders, publish, run_command
from eval.find import find_checkpoint
from eval.parser import SEED, THREADS, WIDTH, Parser, add_results, check_number, read_names
from eval.tables import percent, table

if TYPE_CHECKING:
    from agents.ppo.network import ActorCritic
    from eval.one_against_six import Record, Side
    from eval.spread import Estimate

GAMES = "[7, 1000000]"
YEARS = "[1901, 2000]"
SCHEMA_VERSION = 1
_HEADINGS = ("", "against", "solo %", "95 %", "draw size %", "95 %", "squares %", "95 %", "centres", "95 %")
_INTERVALS = (
    "Each figure is followed by its 95 % interval, Wilson's for solos and Student's t over games for the rest, which "
    "has no width, and says nothing, where all games ended alike."
)
_SIX = "Solos are those of any of the six, the rest is per power."

_EXAMPLES = f"""\
examples:
  python eval/diplomacy.py --ladder                           each bot against six of each
  python eval/diplomacy.py --ladder --games 210 --last-year 1920 --out docs/results
  python eval/diplomacy.py --bot dumbbot --opponents random,chaos --games 700
  python eval/diplomacy.py --ckpt final.pt --opponents random,chaos --last-year 1910

bots: {", ".join(BOTS)}
exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class Options:
    """What is to be played; every value has been checked."""

    bot: str | None
    ckpt: str | None
    ladder: bool
    opponents: tuple[str, ...]
    games: int
    last_year: int
    seed: int
    device: str
    threads: int
    out: Path | None
    quiet: bool
    command: str

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Who plays alone, and who plays the other six."""
        ones = self.opponents if self.ladder else [self.bot or self.ckpt or ""]
        return [(one, six) for one in ones for six in self.opponents]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    return run_command("eval/diplomacy.py", _run, arguments)


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; raises `InputError` with one line naming what is wrong, and leaves after --help."""
    values = _parser().read(arguments)
    values["opponents"] = read_names("--opponents", values["opponents"])
    for name in (*values["opponents"], *([values["bot"]] if values["bot"] else [])):
        choose("bot", name, BOTS)
    limits = {"games": GAMES, "last_year": YEARS, "seed": SEED, "threads": THREADS}
    for name, allowed in limits.items():
        check_number(f"--{name.replace('_', '-')}", values[name], allowed)
    if values["games"] % NUM_POWERS:
        whole = values["games"] + -values["games"] % NUM_POWERS
        raise InputError(
            f"--games {values['games']}: must be a multiple of 7, so that all powers are played as often; try {whole}"
        )
    if wrong := complaint(values["device"], DEVICE):
        raise InputError(f"--device {values['device']!r}: {wrong}")
    if [bool(values[name]) for name in ("bot", "ckpt", "ladder")].count(True) != 1:
        raise InputError("give either --bot NAME or --ckpt FILE, who then plays one power, or --ladder, for all")
    return Options(**values)


def play(options: Options) -> list[Record]:
    """Load the simulator and play every cell, with a bar that names the one in progress."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    path = find_checkpoint(options.ckpt) if options.ckpt else None
    say(LOADING, shown=not options.quiet)
    from tqdm import tqdm

    from agents.diplomacy_matches import play_against
    from agents.machine import set_threads
    from configs.machine import choose_device
    from envs.diplomacy.batch import DiplomacyBatch
    from eval.one_against_six import play_cell, record

    policy = load_policy(path) if path else None
    device, threads = str(choose_device(options.device)), set_threads(options.threads)
    with said_if_long(COMPILING, shown=not options.quiet):
        batch = DiplomacyBatch(options.games, device=device, last_year=options.last_year, threads=threads)
    records = []
    with tqdm(options.cells, unit="cell", disable=options.quiet) as bar:
        for one, six in bar:
            bar.set_description(f"{one} vs six {six}")
            if policy is None:
                records.append(play_cell(batch, one, six, options.seed))
            else:
                play_against(batch, policy.to(batch.device), six, seed=options.seed)
                records.append(record(batch, one, six))
    batch.close()
    return records


def load_policy(path: Path) -> ActorCritic:
    """The network of a checkpoint for Diplomacy; raises `InputError` where there is none."""
    from agents.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path)
    if checkpoint.contract["id"] != ENV_ID:
        raise InputError(f"{checkpoint.path}: plays {checkpoint.contract['id']}, not {ENV_ID}; use eval/run.py")
    return checkpoint.network


def to_markdown(options: Options, records: Sequence[Record]) -> str:
    """Both sides of every cell."""
    one = [_row(record.one, record.six, record.alone) for record in records]
    by_six = sorted(records, key=lambda record: options.opponents.index(record.six))
    six = [_row(record.six, record.one, record.together) for record in by_six]
    played = (
        f"{options.games} games each to the end of {options.last_year}, every power played equally often, seed "
        f"{options.seed}. An equal share is {percent(1 / NUM_POWERS)} %. {_INTERVALS}"
    )
    parts = [
        f"# Diplomacy: one power against six\n\n{fill(played, WIDTH)}",
        f"## One against six\n\n{table(_HEADINGS, one)}",
        f"## Six against one\n\n{_SIX}\n\n{table(_HEADINGS, six)}",
        f"Command: `{options.command}`",
    ]
    return "\n\n".join(parts) + "\n"


def to_json(options: Options, records: Sequence[Record]) -> str:
    """The records and how they were played; equal ones give equal bytes."""
    names = ("games", "last_year", "seed", "device", "command")
    content = {"schema_version": SCHEMA_VERSION, "kind": "diplomacy"}
    content |= {name: getattr(options, name) for name in names}
    content["records"] = [asdict(record) for record in records]
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    make_folders([options.out] if options.out else [])
    records = play(options)
    text = to_markdown(options, records)
    files = {}
    if options.out:
        files = {options.out / "diplomacy.json": to_json(options, records), options.out / "diplomacy.md": text}
    publish(text, files, quiet=options.quiet)
    return 0


def _row(who: str, whom: str, side: Side) -> list[str]:
    shares = [cell for found in (side.solos, side.draw_size, side.squares) for cell in _cells(found, 100.0, 1)]
    return [who, whom, *shares, *_cells(side.centres, 1.0, 2)]


def _cells(found: Estimate, scale: float, digits: int) -> list[str]:
    value, low, high = (f"{scale * number:.{digits}f}" for number in (found.value, *found.interval))
    return [value, f"{low} to {high}"]


def _parser() -> Parser:
    parser = Parser(
        "eval/diplomacy.py",
        "Let bots play Diplomacy, or a policy: one of a kind against six of another, and print what either side got.",
        _EXAMPLES,
    )
    players = parser.add_argument_group("who plays")
    players.add_argument("--bot", metavar="B", help="who plays one power")
    players.add_argument("--ckpt", metavar="FILE", help="a policy that plays one power: a path, a run's name, final.pt")
    players.add_argument("--ladder", action="store_true", help="all of --opponents, each in turn, play one power")
    players.add_argument(
        "--opponents", nargs="+", default=list(BOTS), metavar="O", help="who plays the other six (default: every bot)"
    )
    group = parser.add_argument_group("under what conditions")
    group.add_argument("--games", type=int, default=210, metavar="N", help="per pair, a multiple of 7 (default: 210)")
    group.add_argument("--last-year", type=int, default=1920, metavar="Y", help="then it is a draw (default: 1920)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the bots (default: 0)")
    group.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda, cuda:1 ... (default: auto)")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads; 0 is every core (default)")
    add_results(parser, out="write diplomacy.md and diplomacy.json there", metavar="DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
