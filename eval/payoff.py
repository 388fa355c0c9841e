"""Payoff matrix of a run against its snapshots: `python eval/payoff.py --ckpt RUN`; see `--help` for examples.

Plays a round robin of a run's snapshots (pool and checkpoints, evenly thinned) and other players in seat-swapped pairs
of games; Without a run, only `--opponents` play. Writes payoff.png, payoff.md and payoff.json: each player's point
share against each other (a draw is half a point) and Bradley-Terry ratings, with 95 % intervals. A run that improves is
blue below the diagonal. Red there marks a loss to an earlier version, which a single rating cannot show.

Players, conditions and matches are those of the game's evaluation (`eval/paired/evaluation.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/payoff.py")

from sparring.agents.opponents import players
from sparring.agents.run.folder import FINAL
from sparring.configs.core.errors import InputError, choose
from sparring.configs.games import PACKAGES
from sparring.envs.game import games, load
from sparring.eval.command import (
    CommandReport,
    GamePayoff,
    kept_cells,
    make_folders,
    publish_report,
    run_command,
)
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
from sparring.eval.paired.evaluation import (
    PairedGame,
    anchor_of,
    make_plan,
    make_report,
    round_robin,
)
from sparring.eval.paired.options import GAMES, PairedOptions
from sparring.eval.plots import check_matplotlib
from sparring.eval.run import GYMNASIUM, GameChoice, env_of_player
from sparring.eval.stats.payoff import ELSEWHERE, MEANING, NO_OPPONENTS, SNAPSHOTS, PayoffMatrix
from sparring.eval.stats.tables import SCHEMA_VERSION, Report, conditions, origin, table, title

SCRIPT = "eval/payoff.py"
PAYOFFS = {
    **{game.name: game.payoff for game in games() if game.payoff},
    **dict.fromkeys(PACKAGES, "sparring.envs.imported.evaluation.command:PAYOFF"),
}
"""Allowed values of `--env`, each with its payoff matrix; the first is the default."""


def payoff_text(examples: str, env: str = "") -> CommandText:
    """Return a game's --help text with these examples."""
    return CommandText(
        SCRIPT,
        "Play a run's snapshots and other players against each other and draw the payoff matrix. payoff.png, payoff.md "
        "and payoff.json are written into the run's folder.",
        f"examples:\n{examples}\n\nexit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C",
        env=env,
    )


@dataclass(frozen=True, kw_only=True)
class PayoffOptions(CommandOptions):
    """Options that the command adds to a game's pair options; no run has been located yet."""

    env: str = argument("", metavar="G")
    """The game, if no run determines it: dogfight, diplomacy, chess, air_combat, pettingzoo, openspiel (--env GAME
    --help lists its options)."""
    ckpt: str = argument("", metavar="RUN", group=WHO)
    """A run's name, its folder, or final.pt (the newest run's); without it, only --opponents play."""
    snapshots: int = argument(10, SNAPSHOTS, metavar="N", group=WHO)
    """Most snapshots, evenly spaced over the steps."""
    games: int = argument(100, GAMES, metavar="N", group=CONDITIONS)
    """Games per pair of players, an even number."""
    out: Path | None = argument(None, metavar="PNG", group=RESULTS)
    """The picture; .json and .md are written to the same folder."""

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of opponents, as given; empty for `NO_OPPONENTS`."""
        opponents: tuple[str, ...] = vars(self)["opponents"]  # an option of pairs in every game
        return () if opponents == (NO_OPPONENTS,) else opponents

    def implied(self) -> dict[str, Any]:
        """Expand sets of opponents. Raises `InputError` if neither players nor a game are named."""
        if not self.env and not self.gives("opponents"):
            self.require_given("ckpt", "pass a run's name, its folder, or final.pt for the newest run; or --opponents")
        return super().implied()

    def check(self) -> None:
        """Raise `InputError` for another picture format or several regimes."""
        super().check()
        check_suffix("--out", self.out, ".png", hint=ELSEWHERE)
        if (count := len(vars(self)["regimes"])) != 1:
            raise InputError(f"--regimes: a payoff matrix needs exactly one, got {count}")


class PayoffChoice(GameChoice):
    """The options that determine the game."""

    TEXT = CommandText(SCRIPT, "")

    @property
    def game(self) -> str:
        """The game; for a run, the game in its folder. Raises `InputError` for unknown names."""
        folder = players.find_folder(self.ckpt) if self.ckpt and not self.env else None
        return env_of_player(folder / FINAL) if folder else super().game

    @property
    def kind(self) -> GamePayoff:
        """How the matrix is made, in the named game or else the game of the run or opponents."""
        if self.env:
            choose("game", self.env, PAYOFFS)
        try:
            game = self.game
        except InputError:  # rejected below, with the runs of the game
            game = ""
        if game == GYMNASIUM:
            raise InputError(
                f"--ckpt {self.ckpt}: was trained in a Gymnasium environment, which has one player; compare "
                "the returns of runs with eval/seeds.py RUN RUN --against RUN RUN"
            )
        kind: GamePayoff = load(PAYOFFS.get(game) or next(iter(PAYOFFS.values())))
        return kind


@dataclass(frozen=True)
class Payoffs:
    """Round robin of the run's policies, named by age, and the other players, in this order."""

    run: str
    """Name of the run, or the game without a run."""
    folder: Path | None
    ages: Sequence[int]
    """Env steps of the run's policies."""
    players: Sequence[Any]
    """K players in the order of rows and columns."""
    report: Report

    @property
    def matrix(self) -> PayoffMatrix:
        """Scores and ratings in the order of the rows."""
        assert self.report.anchor is not None
        names = [player.name for player in self.players]
        return PayoffMatrix(names, len(self.ages), self.report.records, self.report.anchor)

    @property
    def files(self) -> list[str | None]:
        """Each player's file, None for a bot."""
        paths = [getattr(player, "path", None) for player in self.players]
        return [players.display_path(path) if path else None for path in paths]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command(SCRIPT, lambda words: publish_report(_played(words)), arguments)


def read(words: Sequence[str]) -> PlayerOptions:
    """Parse a command line with the options of its run's game. Raises `InputError`."""
    return parse(parse_known(PayoffChoice, words).kind.options, words)


def _played(words: Sequence[str]) -> CommandReport:
    kind = parse_known(PayoffChoice, words).kind
    return kind.payoff(parse(kind.options, words))


def payoff(game: PairedGame, options: PairedOptions, *, keep: bool = True) -> CommandReport:
    """Play a round robin. Without `keep` or a run, files are written only with --out.

    Raises `InputError` for bad input.
    """
    folder = _run_of(options.ckpt, game)
    alone = [options.ckpt] if options.ckpt and folder is None else []
    entrants = [game.find(name, True) for name in (*alone, *options.opponents)]
    if game.game:
        players.check_game(game.game, *([folder / FINAL] if folder else []), *entrants)
    picture = options.out or (folder / "payoff.png" if keep and folder else None)
    make_folders([], files=[picture])
    if picture:
        check_matplotlib()
    payoffs = play(game, options, folder, entrants, kept_cells((picture.parent, picture.stem)) if picture else None)
    text, data = payoff_markdown(payoffs, picture.name if picture else ""), payoff_json(payoffs)
    if picture is None:
        return CommandReport(text, data, quiet=options.quiet)
    files: dict[Path, str | bytes] = {
        picture: payoff_picture(payoffs),
        picture.with_suffix(".json"): data,
        picture.with_suffix(".md"): text,
    }
    return CommandReport(text, data, files, options.quiet)


def _run_of(ckpt: str, game: PairedGame) -> Path | None:
    """Return the folder of a run; None for no run, and for a released policy, which has no snapshots."""
    folder = players.find_run(ckpt, game.game) if ckpt else None
    return None if folder and folder.name == players.RELEASED else folder


def play(
    game: PairedGame, options: PairedOptions, folder: Path | None, rivals: Sequence[players.Player], file: Path | None
) -> Payoffs:
    """Load the players and play a round robin, keeping finished cells in a file. Raises `InputError`."""
    device, threads = game.machine(options, rivals)
    from sparring.agents.opponents.snapshots import names_by_age, thin

    thinned = thin(game.frozen(options, folder, device), options.snapshots) if folder else []
    ages = [frozen.env_steps for frozen in thinned]
    saved = [_renamed(frozen.player, name) for frozen, name in zip(thinned, names_by_age(ages), strict=True)]
    opened = game.open(options, None, rivals, device, saved[-1] if saved else None)
    entrants = [*saved, *opened.opponents]
    with opened.resources:
        _check_players(entrants, alone=not saved)
        anchor = anchor_of(game, options, [player.name for player in entrants])
        matches = game.matches(options, entrants, device, threads)
        plan = make_plan(game, options, matches, file)
        records = round_robin(entrants, plan)
    notes = [*(note for player in saved for note in getattr(player, "notes", ())), *opened.notes, *game.notes(records)]
    report = make_report(game, options, plan, records, notes, anchor=anchor)
    name = folder.name if folder else game.game.title if game.game else report.conditions.env
    return Payoffs(name, folder, ages, entrants, report)


def _renamed(player: Any, name: str) -> Any:
    """Return a copy of a player with another name."""
    renamed = copy(player)
    object.__setattr__(renamed, "name", name)  # works for a frozen dataclass, too
    return renamed


def _check_players(entrants: Sequence[Any], *, alone: bool) -> None:
    """Raise `InputError` for a duplicate or single player; `alone` means without a run."""
    names = [player.name for player in entrants]
    # A snapshot is named by its age, an opponent is not. A sampling policy is a different player.
    who = [
        (getattr(player, "path", None), getattr(policy, "deterministic", None))
        for player in entrants
        for policy in [player if hasattr(player, "deterministic") else getattr(player, "contestant", player)]
    ]
    twice = [n for n, key in zip(names, who, strict=True) if names.count(n) > 1 or (key[0] and who.count(key) > 1)]
    if twice:
        raise InputError(f"--opponents: {twice[-1]} already plays as a snapshot or another opponent; remove it")
    if len(names) < 2 and not alone:
        raise InputError(f"--opponents: {names[0]} would be the only player; name at least one opponent")
    if len(names) < 2:
        raise InputError(f"--opponents: {', '.join(names) or NO_OPPONENTS}: name at least two players, or a run")


def payoff_json(payoffs: Payoffs) -> str:
    """Return the JSON report of games and ratings, with the players' ages and the matrix as drawn."""
    report, matrix = payoffs.report, payoffs.matrix
    about, ages = report.conditions, [*payoffs.ages, *[None] * (len(payoffs.players) - len(payoffs.ages))]
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": about.payoff_kind, "run": payoffs.run}
    content |= {"folder": players.display_path(payoffs.folder) if payoffs.folder else None, "env": about.env}
    content |= dict(about.fields)
    content |= {name: getattr(report, name) for name in ("deterministic", "games", "seed", "device", "command")}
    content["players"] = [
        {"name": player.name, "env_steps": age, "file": file}
        for player, age, file in zip(payoffs.players, ages, payoffs.files, strict=True)
    ]
    content |= {"payoff": matrix.plain(), "intervals": matrix.plain_intervals()}
    ratings: Any = [asdict(rating) for rating in matrix.ratings]
    content |= {"anchor": asdict(matrix.anchor), "ratings": {report.regimes[0]: ratings} if about.varied else ratings}
    content |= {"records": [record.plain() for record in report.records], "notes": list(report.notes)}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def payoff_markdown(payoffs: Payoffs, picture: str = "") -> str:
    """Return markdown with the image `picture`, if there is one, its matrix, and the ratings."""
    report = payoffs.report
    files = [[player.name, file] for player, file in zip(payoffs.players, payoffs.files, strict=True) if file]
    parts = [
        f"# Payoff matrix of {payoffs.run}: {title(report)}",
        conditions(report),
        *([f"![Payoff matrix]({picture})"] if picture else []),
        MEANING + ("; policies by env steps." if payoffs.ages else "."),
        payoffs.matrix.markdown(),
        payoffs.matrix.ratings_markdown(),
        *([table(["policy", "file"], files)] if files else []),
        origin(report),
    ]
    return "\n\n".join(parts) + "\n"


def payoff_picture(payoffs: Payoffs) -> bytes:
    """Return the heatmap as PNG data."""
    report = payoffs.report
    ages = "; policies by env steps" if payoffs.ages else ""
    subtitle = f"{title(report)}; {report.games} games a cell{ages}"
    return payoffs.matrix.picture(f"Payoff matrix of {payoffs.run}", subtitle)


if __name__ == "__main__":
    sys.exit(main())
