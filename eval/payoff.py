"""A run against its own past: `python eval/payoff.py --ckpt RUN`; `--help` lists the options, with examples.

Takes what the run has frozen (its pool and its checkpoints), evenly thinned, and the bots, plays everyone against
everyone in seat-swapped pairs of games, and writes payoff.png, payoff.md and payoff.json: the share of the points of
each against each, a draw being half, and everybody's Bradley-Terry rating with its 95 % interval. A run that improves
is blue below the diagonal; what it beat once and loses to later shows as red there, which no single rating can say.

It is a command of its own, since its players are found in a folder rather than named, and its result is a picture.
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:  # Run as a script: only this repository's packages are meant, whatever else is installed.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from configs.installed import check_installed

    check_installed("eval/payoff.py")

import numpy as np

from configs.files import write_atomically
from configs.names import InputError
from envs.dogfight.rules import BOTS
from eval.command import make_folders, run_command, use_machine, write
from eval.options import (
    ANCHOR_HELP,
    STOCHASTIC_HELP,
    Parser,
    add_conditions,
    check_conditions,
    check_number,
    read_names,
    read_regimes,
)
from eval.ratings import Anchor, Rating
from eval.tables import Record, Report, conditions, origin, percent, ratings_markdown, table, title, to_json

if TYPE_CHECKING:
    from eval.arena import Plan
    from eval.entrants import Entrant
    from eval.snapshots import Frozen

SNAPSHOTS = "[2, 100]"
NOBODY = "nobody"

_EXAMPLES = """\
examples:
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and the five bots
  python eval/payoff.py --ckpt mean-knight-unified_dr_cpu --snapshots 20 --games 400 --out docs/cycle.png
  python eval/payoff.py --ckpt final.pt --opponents nobody     the snapshots among themselves
  python eval/payoff.py --ckpt final.pt --regimes full --anchor ace=1000

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True)
class Options:
    """What is to be played and drawn; every value has been checked, the run has not been looked for."""

    ckpt: str
    snapshots: int
    opponents: tuple[str, ...]
    anchor: Anchor | None
    stochastic: bool
    games: int
    seed: int
    regimes: tuple[str, ...]
    rules: str | None
    bot_rate: str | None
    device: str
    threads: int
    out: Path | None
    quiet: bool
    command: str


@dataclass(frozen=True)
class Payoffs:
    """Everyone against everyone: the run's policies by age, then the other opponents."""

    run: str
    frozen: Sequence[Frozen]
    others: Sequence[Entrant]
    report: Report

    @property
    def names(self) -> list[str]:
        """The K players in the order of rows and columns."""
        return [frozen.entrant.name for frozen in self.frozen] + [other.name for other in self.others]

    @property
    def labels(self) -> list[str]:
        """What they are called in the picture: the policies by their age, the others by their names."""
        return [millions(frozen.env_steps) for frozen in self.frozen] + [other.name for other in self.others]

    @property
    def shares(self) -> np.ndarray:
        """The row's share of the points against the column, float64 [K, K], NaN on the diagonal."""
        names = self.names
        shares = np.full((len(names), len(names)), np.nan)
        for record in self.report.records:
            shares[names.index(record.player), names.index(record.opponent)] = record.points
        return shares

    @property
    def ratings(self) -> list[Rating]:
        """Ratings in the order of the rows."""
        by_name = {rating.player: rating for rating in self.report.ratings(self.report.regimes[0])}
        return [by_name[name] for name in self.names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    return run_command("eval/payoff.py", _run, arguments)


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; raises `InputError` with one line naming what is wrong, and leaves after --help."""
    values = vars(_parser().read(arguments))
    if not values["ckpt"]:
        raise InputError("--ckpt is missing: give a run's name, its folder, or final.pt for the newest run")
    check_conditions(values)
    check_number("--snapshots", values["snapshots"], SNAPSHOTS)
    values["opponents"] = read_names("--opponents", values["opponents"])
    if values["opponents"] == (NOBODY,):
        values["opponents"] = ()
    values["regimes"] = read_regimes(values["regimes"])
    if len(values["regimes"]) != 1:
        raise InputError(f"--regimes: a payoff matrix is of one; give one name, not {len(values['regimes'])}")
    if values["out"] is not None and values["out"].suffix != ".png":
        raise InputError(f"--out {str(values['out'])!r}: must end in .png; .json and .md are written beside it")
    values["anchor"] = Anchor.parse(values["anchor"]) if values["anchor"] else None
    return Options(**values, command=shlex.join(["python", "eval/payoff.py", *arguments]))


def play(options: Options) -> Payoffs:
    """Find the players and let everyone play everyone; raises `InputError` where one of them cannot."""
    device, threads = use_machine(options.device, options.threads)
    from eval.arena import Plan, ladder, make_setting
    from eval.entrants import load_opponent
    from eval.snapshots import find_run, frozen_policies, thin

    folder, sure = find_run(options.ckpt), not options.stochastic
    frozen = thin(frozen_policies(folder, device, deterministic=sure), options.snapshots)
    others = [load_opponent(name, device, deterministic=sure) for name in options.opponents]
    entrants = [policy.entrant for policy in frozen] + others
    names = _check_names([entrant.name for entrant in entrants])
    anchor = (options.anchor or Anchor.among(names)).check(names)
    contestants = [entrant.contestant for entrant in entrants]
    setting = make_setting(contestants, rules=options.rules, bot_rate=options.bot_rate, device=device, threads=threads)
    plan = Plan(options.regimes, options.games, options.seed, setting, progress=not options.quiet)
    records = ladder(entrants, plan)
    return Payoffs(folder.name, frozen, others, _report(options, records, anchor, plan))


def payoff_json(payoffs: Payoffs) -> str:
    """The report of the games and ratings, with the players' ages and the matrix as the picture shows it."""
    from eval.entrants import display_path

    ages = [frozen.env_steps for frozen in payoffs.frozen] + [None] * len(payoffs.others)
    files = [f.entrant.path for f in payoffs.frozen] + [other.path for other in payoffs.others]
    content = json.loads(to_json(payoffs.report)) | {"kind": "payoff", "run": payoffs.run}
    content["players"] = [
        {"name": name, "env_steps": age, "file": display_path(file) if file else None}
        for name, age, file in zip(payoffs.names, ages, files, strict=True)
    ]
    content["payoff"] = [[None if np.isnan(share) else share for share in row] for row in payoffs.shares.tolist()]
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def payoff_markdown(payoffs: Payoffs, picture: str) -> str:
    """The picture called `picture`, the matrix it shows, and the ratings."""
    report = payoffs.report
    rows = [
        [name, *("" if np.isnan(share) else percent(share) for share in row)]
        for name, row in zip(payoffs.names, payoffs.shares.tolist(), strict=True)
    ]
    parts = [
        f"# Payoff matrix of {payoffs.run}: {title(report)}",
        conditions(report),
        f"![Payoff matrix]({picture})",
        "Points of the row against the column in %, a draw being half a point for each; policies by env steps.",
        table(["", *payoffs.labels], rows),
        ratings_markdown(report, report.regimes[0]),
        origin(report),
    ]
    return "\n\n".join(parts) + "\n"


def payoff_picture(payoffs: Payoffs) -> bytes:
    """The heatmap as a PNG."""
    from eval.heatmap import Chart, draw_heatmap

    report, ratings = payoffs.report, payoffs.ratings
    chart = Chart(
        title=f"Payoff matrix of {payoffs.run}",
        subtitle=f"{title(report)}; {report.games} games a cell; policies by env steps",
        labels=payoffs.labels,
        shares=payoffs.shares,
        elo=[rating.elo for rating in ratings],
        intervals=[rating.interval for rating in ratings],
        policies=len(payoffs.frozen),
    )
    buffer = io.BytesIO()
    draw_heatmap(chart).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def millions(env_steps: int) -> str:
    """A number of steps in a few letters: 950, 12.3k, 1.64M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if env_steps >= size:
            return f"{env_steps / size:.3g}{letter}"
    return str(env_steps)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    if options.out is not None:
        make_folders([], files=[options.out])
    payoffs = play(options)
    picture = options.out or _beside(options.ckpt)
    text = payoff_markdown(payoffs, picture.name)
    write(picture, lambda path: write_atomically(path, payoff_picture(payoffs)))
    write(picture.with_suffix(".json"), lambda path: write_atomically(path, payoff_json(payoffs)))
    write(picture.with_suffix(".md"), lambda path: write_atomically(path, text))
    if not options.quiet:
        print(f"{text}\nWrote {picture}, {picture.stem}.json and {picture.stem}.md")
    return 0


def _beside(run: str) -> Path:
    from eval.snapshots import find_run

    return find_run(run) / "payoff.png"


def _check_names(names: list[str]) -> list[str]:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"--opponents: {twice[0]} plays already, as a snapshot or as another opponent; leave it out")
    if len(names) < 2:
        raise InputError(f"--opponents: {names[0]} would be alone; name at least one opponent")
    return names


def _report(options: Options, records: Sequence[Record], anchor: Anchor, plan: Plan) -> Report:
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
    )


def _parser() -> Parser:
    parser = Parser(
        prog="python eval/payoff.py",
        description="Play a run's snapshots and the bots against each other and draw the payoff matrix. payoff.png, "
        "payoff.md and payoff.json are written into the run's folder.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    group = parser.add_argument_group("who plays")
    group.add_argument("--ckpt", metavar="RUN", help="a run's name, its folder, or final.pt (the newest run's)")
    group.add_argument(
        "--snapshots", type=int, default=10, metavar="N", help="at most so many, evenly over the steps (default: 10)"
    )
    group.add_argument(
        "--opponents",
        nargs="+",
        default=list(BOTS),
        metavar="O",
        help=f"bots and checkpoints besides them (default: the five bots), or {NOBODY}",
    )
    group.add_argument("--anchor", metavar="A", help=ANCHOR_HELP)
    group.add_argument("--stochastic", action="store_true", help=STOCHASTIC_HELP)
    add_conditions(parser, games=100)
    group = parser.add_argument_group("what becomes of the results")
    group.add_argument("--out", type=Path, metavar="PNG", help="the picture; .json and .md are written beside it")
    group.add_argument("--quiet", action="store_true", help="no bar, no table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
