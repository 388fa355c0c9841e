"""Payoff matrix in air combat: pilots, policies and the snapshots of a run against each other.

`python eval/payoff.py --ckpt RUN` of a run in air combat, or `--env air_combat` with `--opponents` alone. Every pair
plays the same starts from both seats; a cell has the share of points with a 95 % interval.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.opponents import players
from sparring.configs.core.errors import InputError
from sparring.envs.air_combat import GAME
from sparring.envs.air_combat.rules import BOTS, GUNS, MODELS
from sparring.eval.air_combat.command import GAMES, AirCell, find_opponent, matches_of, plain, play_cell, setting_of
from sparring.eval.command import CommandReport, GamePayoff, kept_cells, make_folders, use_machine
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    CommandText,
    PlayerOptions,
    TaskOptions,
    argument,
    check_suffix,
)
from sparring.eval.plots import check_matplotlib
from sparring.eval.stats.payoff import ELSEWHERE, MEANING, NO_OPPONENTS, SNAPSHOTS, PayoffMatrix
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import MatchRecord

if TYPE_CHECKING:
    from tqdm import tqdm

    from sparring.agents.opponents.air_combat import CombatConditions, Pilot

USUAL_ANCHOR = "dogfighter"
_EXAMPLES = """\
examples:
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and all pilots
  python eval/payoff.py --ckpt RUN --snapshots 20 --games 400 --opponents ace,evader
  python eval/payoff.py --env air_combat --model f16           the pilots among themselves, in the F-16
  python eval/payoff.py --env air_combat --opponents released/air_combat_quickstart,ace,evader --out air.png

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class AirPayoffOptions(TaskOptions, PlayerOptions):
    """Options of the command; the players have not been located."""

    TEXT = CommandText(
        "eval/payoff.py",
        "Play pilots, policies and the snapshots of a run in air combat against each other and draw the payoff "
        "matrix. payoff.png, payoff.md and payoff.json are written into the run's folder.",
        _EXAMPLES,
        env="air_combat",
    )
    env: str = argument("", ("", GAME.name), metavar="G", noun="game")
    """The game, where no run says it: air_combat."""
    ckpt: str = argument("", metavar="RUN", group=WHO)
    """A run's name, its folder, or final.pt (the newest run's); without one, opponents alone play."""
    opponents: tuple[str, ...] = argument(tuple(BOTS), metavar="O", group=WHO, split=True)
    """Pilots, checkpoints, stochastic:CHECKPOINT and module:Name besides the snapshots (default: all pilots), or
    none."""
    snapshots: int = argument(10, SNAPSHOTS, metavar="N", group=WHO)
    """At most so many, evenly over the steps."""
    anchor: str = argument("", metavar="A", group=WHO)
    """Whose rating is fixed, as in ace or ace=1000 (default: dogfighter, or the first player, at 0)."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions."""
    games: int = argument(100, GAMES, metavar="N", group=CONDITIONS)
    """Games per pair of players, even."""
    model: str = argument("", ("", *MODELS), metavar="|".join(MODELS), group=CONDITIONS, noun="model")
    """Flight model of the matches (default: that of the run)."""
    gun: str = argument("", ("", *GUNS), metavar="|".join(GUNS), group=CONDITIONS, noun="gun")
    """The gun (default: that of the run, or of another flight model)."""
    out: Path | None = argument(None, metavar="PNG", group=RESULTS)
    """The picture; .json and .md are written beside it."""

    def implied(self) -> dict[str, Any]:
        """Return no opponents for `NO_OPPONENTS`."""
        return {"opponents": () if self.opponents == (NO_OPPONENTS,) else self.opponents}

    def check(self) -> None:
        """Raise `InputError` for an odd number of games, or a picture of another form."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since every match is played from both seats")
        check_suffix("--out", self.out, ".png", more=ELSEWHERE)


@dataclass(frozen=True)
class AirPayoffs:
    """Who played, and how each did against each."""

    title: str
    ages: Sequence[int]
    """Env steps of the run's policies, the first of the pilots."""
    pilots: Sequence[Pilot]
    setting: CombatConditions
    records: Sequence[MatchRecord]
    matrix: PayoffMatrix


def payoff(options: AirPayoffOptions, *, keep: bool = True) -> CommandReport:
    """Play a round robin. Without `keep`, or without a run, there are no files unless --out names the picture.

    Raises `InputError` for bad input.
    """
    folder = _run_of(options.ckpt)
    named = [options.ckpt] if options.ckpt and folder is None else []
    others = [find_opponent(name) for name in (*named, *options.opponents)]
    players.check_game(GAME, *([folder / "final.pt"] if folder else []), *others)
    picture = options.out or (folder / "payoff.png" if keep and folder else None)
    make_folders([], files=[picture])
    if picture:
        check_matplotlib()
    payoffs = _play(options, folder, others, kept_cells((picture.parent, picture.stem)) if picture else None)
    text, data = _markdown(options, payoffs, picture.name if picture else ""), _json(options, payoffs)
    if picture is None:
        return CommandReport(text, data, quiet=options.quiet)
    subtitle = f"{_conditions(options, payoffs)}; {options.games} games a cell"
    files: dict[Path, str | bytes] = {
        picture: payoffs.matrix.picture(payoffs.title, subtitle),
        picture.with_suffix(".json"): data,
        picture.with_suffix(".md"): text,
    }
    return CommandReport(text, data, files, options.quiet)


def _run_of(ckpt: str) -> Path | None:
    """Return the folder of a run; None for no run, and for a released policy, which has no snapshots."""
    if not ckpt:
        return None
    folder = players.find_run(ckpt, GAME)
    return None if folder.name == players.RELEASED else folder


def _play(
    options: AirPayoffOptions, folder: Path | None, located: Sequence[players.Player], kept: Path | None
) -> AirPayoffs:
    device, threads = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    from sparring.agents.opponents.air_combat import frozen_pilots, open_player
    from sparring.agents.opponents.snapshots import names_by_age, thin

    sure = not options.stochastic
    frozen = thin(frozen_pilots(folder, device, deterministic=sure), options.snapshots) if folder else []
    ages = [one.env_steps for one in frozen]
    own = [replace(one.player, name=name) for one, name in zip(frozen, names_by_age(ages), strict=True)]
    pilots = [*own, *(open_player(one, device, deterministic=sure) for one in located)]
    names = _check_pilots(pilots)
    anchor = Anchor.parse(options.anchor or (USUAL_ANCHOR if USUAL_ANCHOR in names else names[0])).check(names)
    policies = [pilot for pilot in pilots if pilot.path]
    first = open_player(folder / "final.pt", device) if folder else (*policies, *pilots)[0]
    model, gun = matches_of(first, options.model, options.gun)
    setting = setting_of(pilots, model, gun, device, threads, quiet=options.quiet)
    cells = [AirCell(*pair, setting, options.games, options.seed, filmed=False) for pair in combinations(pilots, 2)]
    records = finish_tasks(
        _play_pair,
        cells,
        options.runner,
        kept=KeptResults(kept, MatchRecord) if kept else None,
        keys=[cell.key for cell in cells] if kept else (),
        label=lambda cell: f"{cell.player.name} vs {cell.opponent.name}",
        unit="pair",
        quiet=options.quiet,
    )
    title = f"Payoff matrix of {folder.name if folder else GAME.title}"
    return AirPayoffs(title, ages, pilots, setting, records, PayoffMatrix(names, len(ages), records, anchor))


def _play_pair(cell: AirCell, bar: tqdm[NoReturn]) -> MatchRecord:
    return play_cell(cell.player, cell.opponent, cell.setting, cell.games, cell.seed)


def _check_pilots(pilots: Sequence[Pilot]) -> list[str]:
    """Return the names. Raises `InputError` for a player named twice, or one that would be alone."""
    names = [pilot.name for pilot in pilots]
    who = [(pilot.path, getattr(pilot.contestant, "deterministic", None)) for pilot in pilots]
    for name, one in zip(names, who, strict=True):
        if names.count(name) > 1 or (one[0] and who.count(one) > 1):
            raise InputError(f"--opponents: {name} plays already, as a snapshot or as another opponent; leave it out")
    if len(names) < 2:
        raise InputError(f"--opponents: {', '.join(names) or NO_OPPONENTS}: name at least two players, or a run")
    return names


def _conditions(options: AirPayoffOptions, payoffs: AirPayoffs) -> str:
    setting, policy = payoffs.setting, "sampled actions" if options.stochastic else "deterministic"
    beyond = "".join(f", {name}={value}" for name, value in setting.options.contract.items())
    return f"{setting.model}, gun {setting.gun_name}{beyond}, {policy}"


def _markdown(options: AirPayoffOptions, payoffs: AirPayoffs, picture: str) -> str:
    parts = [
        f"# {payoffs.title}: {_conditions(options, payoffs)}",
        f"{options.games} games a pair in seat-swapped pairs, the unit of the intervals, seed {options.seed}",
        *([f"![Payoff matrix]({picture})"] if picture else []),
        MEANING + ("; policies by env steps." if payoffs.ages else "."),
        payoffs.matrix.markdown(intervals=True),
        payoffs.matrix.ratings_markdown(),
        f"Command: `{options.command}`",
    ]
    return "\n\n".join(parts) + "\n"


def _json(options: AirPayoffOptions, payoffs: AirPayoffs) -> str:
    setting, matrix = payoffs.setting, payoffs.matrix
    content: dict[str, Any] = {"kind": "air_combat_payoff", "env": GAME.id, "model": setting.model}
    content |= {"gun": setting.gun_name, "action_repeat": setting.action_repeat, "options": setting.options.contract}
    content |= {name: getattr(options, name) for name in ("games", "seed", "command")}
    ages = [*payoffs.ages, *[None] * (len(payoffs.pilots) - len(payoffs.ages))]
    content |= {"deterministic": not options.stochastic}
    content["players"] = [
        {"name": pilot.name, "env_steps": age, "file": players.display_path(pilot.path) if pilot.path else None}
        for pilot, age in zip(payoffs.pilots, ages, strict=True)
    ]
    content["payoff"] = matrix.plain()
    content["anchor"], content["ratings"] = asdict(matrix.anchor), [asdict(rating) for rating in matrix.ratings]
    content["records"] = [plain(record) for record in payoffs.records]
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


PAYOFF = GamePayoff(AirPayoffOptions, payoff)
