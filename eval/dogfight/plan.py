"""How games of the dogfight are set up for the options of a command, and what its report says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sparring.configs.core.status import COMPILING, said_if_long
from sparring.eval.parser import PlayOptions
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import MatchRecord, Report

if TYPE_CHECKING:
    from sparring.eval.dogfight.arena import ArenaPlan
    from sparring.eval.dogfight.players import Entrant


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
