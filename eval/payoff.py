"""Payoff matrix of a run against its snapshots: `python eval/payoff.py --ckpt RUN`; see `--help` for examples.

Plays a round robin of the bots and the run's snapshots (pool and checkpoints, evenly thinned) in seat-swapped pairs
of games. Writes payoff.png, payoff.md and payoff.json: the share of points of each player against each, a draw being
half, and Bradley-Terry ratings with 95 % intervals. A run that improves is blue below the diagonal. Red there marks a
loss to an earlier version, which a single rating cannot show.

A separate command, since its players are found in a folder rather than named, and its result is a picture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/payoff.py")

from sparring.agents.opponents import players
from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import InputError, choose
from sparring.configs.games import is_imported
from sparring.envs.dogfight import GAME
from sparring.envs.game import game_named, game_of, games, load
from sparring.eval.command import (
    CommandReport,
    GamePayoff,
    kept_cells,
    make_folders,
    publish_report,
    run_command,
    use_machine,
)
from sparring.eval.dogfight.command import GAMES, PlayOptions, make_plan, make_report
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    CommandOptions,
    CommandText,
    PlayerOptions,
    argument,
    check_suffix,
    parse,
    parse_known,
)
from sparring.eval.plots import check_matplotlib
from sparring.eval.stats.payoff import ELSEWHERE, MEANING, NO_OPPONENTS, SNAPSHOTS, PayoffMatrix
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import Report, conditions, origin, table, title, to_json

if TYPE_CHECKING:
    from sparring.agents.opponents.dogfight.load import Entrant

SCRIPT = "eval/payoff.py"

_EXAMPLES = """\
examples:
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and the five bots
  python eval/payoff.py --ckpt mean-knight-unified_dr_cpu --snapshots 20 --games 400 --out docs/cycle.png
  python eval/payoff.py --ckpt final.pt --opponents none       the snapshots among themselves
  python eval/payoff.py --ckpt final.pt --regimes full --anchor ace=1000

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class PayoffOptions(PlayOptions):
    """Options of the command; the run has not been located."""

    TEXT = CommandText(
        SCRIPT,
        "Play a run's snapshots and the bots against each other and draw the payoff matrix. payoff.png, payoff.md and "
        "payoff.json are written into the run's folder.",
        _EXAMPLES,
    )
    env: str = argument("", metavar="G")
    """The game, where no run says it: dogfight, air_combat (whose options --env air_combat --help lists)."""
    ckpt: str = argument("", metavar="RUN", group=WHO)
    """A run's name, its folder, or final.pt (the newest run's)."""
    opponents: tuple[str, ...] = argument(("bots",), metavar="O", group=WHO, split=True)
    """Bots, checkpoints and ONNX agents besides them (default: the five bots), or none."""
    snapshots: int = argument(10, SNAPSHOTS, metavar="N", group=WHO)
    """At most so many, evenly over the steps."""
    games: int = argument(100, GAMES, metavar="N", group=CONDITIONS)
    """Games per pair of players, even."""
    out: Path | None = argument(None, metavar="PNG", group=RESULTS)
    """The picture; .json and .md are written beside it."""

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of them, as they are given; none for `NO_OPPONENTS`."""
        return () if self.opponents == (NO_OPPONENTS,) else self.opponents

    def check(self) -> None:
        """Raise `InputError` for a missing run, several regimes, or a picture of another form."""
        super().check()
        self.require_given("ckpt", "give a run's name, its folder, or final.pt for the newest run")
        if len(self.regimes) != 1:
            raise InputError(f"--regimes: a payoff matrix is of one; give one name, not {len(self.regimes)}")
        check_suffix("--out", self.out, ".png", more=ELSEWHERE)


@dataclass(frozen=True, kw_only=True)
class PayoffChoice(CommandOptions):
    """The options that say which game is meant."""

    TEXT = CommandText(SCRIPT, "")
    env: str = argument("")
    ckpt: str = argument("")

    @property
    def kind(self) -> GamePayoff:
        """How the matrix is made in the game that is named, or in that of the run; by default as in the dogfight."""
        if self.env:
            choose("game", self.env, [game.name for game in games() if game.payoff or game is GAME])
        reference = game_named(self.env).payoff if self.env else _payoff_of(self.ckpt)
        kind: GamePayoff = load(reference) if reference else DOGFIGHT
        return kind


def _payoff_of(run: str) -> str:
    """Return the reference to the payoff matrix of the game of a run or a released policy; empty if it has none."""
    try:
        place = players.find_folder(run) or players.find_checkpoint(run)
    except InputError:
        return ""  # refused below, with the runs of the dogfight
    env_id = players.trained_in((place if place.is_dir() else place.parent) / "config.yaml")
    if is_imported({"id": env_id}):
        return "sparring.eval.imported.payoff:PAYOFF"
    released = place.parent.name == players.RELEASED
    game = next((one for one in games() if released and place.name.startswith(f"{one.name}_")), game_of(env_id))
    return game.payoff if game else ""


@dataclass(frozen=True)
class Payoffs:
    """Round robin of the run's policies, named by age, and the other opponents, in this order."""

    run: str
    ages: Sequence[int]
    """Env steps of the run's policies."""
    entrants: Sequence[Entrant]
    """K players in the order of rows and columns."""
    report: Report

    @property
    def names(self) -> list[str]:
        """Names in the table and in the picture."""
        return [entrant.name for entrant in self.entrants]

    @cached_property
    def matrix(self) -> PayoffMatrix:
        """Scores and ratings in the order of the rows."""
        assert self.report.anchor is not None
        return PayoffMatrix(self.names, len(self.ages), self.report.records, self.report.anchor)


def payoff_json(payoffs: Payoffs) -> str:
    """Return the JSON report of games and ratings, with the players' ages and the matrix as drawn."""
    ages = [*payoffs.ages, *[None] * (len(payoffs.entrants) - len(payoffs.ages))]
    content = json.loads(to_json(payoffs.report)) | {"kind": "payoff", "run": payoffs.run}
    content["players"] = [
        {"name": entrant.name, "env_steps": age, "file": players.display_path(entrant.path) if entrant.path else None}
        for entrant, age in zip(payoffs.entrants, ages, strict=True)
    ]
    content["payoff"] = payoffs.matrix.plain()
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def payoff_markdown(payoffs: Payoffs, picture: str = "") -> str:
    """Return markdown with the image `picture`, if there is one, its matrix, and the ratings."""
    report = payoffs.report
    files = [[entrant.name, players.display_path(entrant.path)] for entrant in payoffs.entrants if entrant.path]
    parts = [
        f"# Payoff matrix of {payoffs.run}: {title(report)}",
        conditions(report),
        *([f"![Payoff matrix]({picture})"] if picture else []),
        f"{MEANING}; policies by env steps.",
        payoffs.matrix.markdown(),
        payoffs.matrix.ratings_markdown(),
        table(["policy", "file"], files),
        origin(report),
    ]
    return "\n\n".join(parts) + "\n"


def payoff_picture(payoffs: Payoffs) -> bytes:
    """Return the heatmap as PNG data."""
    report = payoffs.report
    subtitle = f"{title(report)}; {report.games} games a cell; policies by env steps"
    return payoffs.matrix.picture(f"Payoff matrix of {payoffs.run}", subtitle)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command(SCRIPT, lambda words: publish_report(_played(words)), arguments)


def read(words: Sequence[str]) -> PlayerOptions:
    """Return the options that a command line gives, those of its run's game. Raises `InputError`."""
    return parse(parse_known(PayoffChoice, words).kind.options, words)


def _played(words: Sequence[str]) -> CommandReport:
    kind = parse_known(PayoffChoice, words).kind
    return kind.payoff(parse(kind.options, words))


def play(
    options: PayoffOptions, folder: Path, opponents: Sequence[players.Player], kept: Path | None = None
) -> Payoffs:
    """Load the players and play a round robin, whose cells are kept in a file. Raises `InputError` for the players."""
    device, threads = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    from sparring.agents.opponents.dogfight.load import frozen_policies, open_player
    from sparring.agents.opponents.snapshots import names_by_age, thin
    from sparring.eval.dogfight.arena import ladder

    sure = not options.stochastic
    own = frozen_policies(folder, device, deterministic=sure, old_version=options.any_version)
    thinned = thin(own, options.snapshots)
    ages = [frozen.env_steps for frozen in thinned]
    policies = [replace(one.player, name=name) for one, name in zip(thinned, names_by_age(ages), strict=True)]
    others = [open_player(player, device, deterministic=sure, old_version=True) for player in opponents]
    entrants = policies + others
    names = _check_players(entrants)
    anchor = (options.fixed or Anchor.among(names)).check(names)
    plan = replace(make_plan(options, entrants, device, threads), kept=kept)
    report = make_report(options, plan, ladder(entrants, plan), entrants, anchor=anchor)
    return Payoffs(folder.name, ages, entrants, report)


def payoff(options: PayoffOptions, *, keep: bool = True) -> CommandReport:
    """Play a round robin in the dogfight. Without `keep`, there are no files unless --out names the picture.

    Raises `InputError` for bad input.
    """
    folder = players.find_run(options.ckpt, GAME)
    opponents = [players.find_player(name, GAME, bare=GAME.bots) for name in options.opponents]
    players.check_game(GAME, folder / FINAL, *opponents)
    picture = options.out or (folder / "payoff.png" if keep else None)
    make_folders([], files=[picture])
    if picture:
        check_matplotlib()
    payoffs = play(options, folder, opponents, kept_cells((picture.parent, picture.stem)) if picture else None)
    text, data = payoff_markdown(payoffs, picture.name if picture else ""), payoff_json(payoffs)
    if picture is None:
        return CommandReport(text, data, quiet=options.quiet)
    files: dict[Path, str | bytes] = {
        picture: payoff_picture(payoffs),
        picture.with_suffix(".json"): data,
        picture.with_suffix(".md"): text,
    }
    return CommandReport(text, data, files, options.quiet)


def _check_players(entrants: Sequence[Entrant]) -> list[str]:
    """Return the players' names. Raises `InputError` for a duplicate or a single player."""
    names = [entrant.name for entrant in entrants]
    who = [entrant.path or entrant.name for entrant in entrants]  # A snapshot is named by its age, an opponent is not.
    twice = [n for n, player in zip(names, who, strict=True) if names.count(n) > 1 or who.count(player) > 1]
    if twice:
        raise InputError(f"--opponents: {twice[-1]} plays already, as a snapshot or as another opponent; leave it out")
    if len(names) < 2:
        raise InputError(f"--opponents: {names[0]} would be alone; name at least one opponent")
    return names


DOGFIGHT = GamePayoff(PayoffOptions, payoff)


if __name__ == "__main__":
    sys.exit(main())
