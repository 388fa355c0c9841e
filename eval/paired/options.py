"""Options of the commands in which pairs of players meet, in any game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sparring.configs.core.errors import InputError
from sparring.curriculum.sprt import Hypotheses
from sparring.eval.options import CONDITIONS, RESULTS, WHO, EvaluateOptions, Pairs, PlayerOptions, TaskOptions, argument
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.requirements import parse_hypotheses

GAMES = "[2, 1000000]"
ALL = "all"
"""In place of the names of all regimes."""
PLAYER = "give a path, a run's name, final.pt for the newest run, or bot:NAME"


@dataclass(frozen=True, kw_only=True)
class PairedOptions(TaskOptions, PlayerOptions):
    """Options of every command in which pairs of players meet."""

    SETS: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names that stand for several opponents."""
    REGIMES: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Regimes by name, each with the settings of matches that it changes."""
    opponents: tuple[str, ...] = argument((), metavar="O", group=WHO, split=True)
    """Opponents."""
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Whose rating is fixed, as in ace or ace=1000 (default: the hardest bot that plays, at 0)."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions."""
    games: int = argument(400, GAMES, metavar="N", group=CONDITIONS)
    """Games per opponent, even."""
    regimes: tuple[str, ...] = ("",)
    """Those to play, in a game that has some."""
    snapshots: int = 0
    """Most policies of a run, in a payoff matrix."""
    sets: tuple[str, ...] = ()
    """Those of `SETS` that were named."""
    fixed: Anchor | None = None
    """The anchor of ratings, if one is given."""

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of them, as they are given."""
        return self.opponents

    def implied(self) -> dict[str, Any]:
        """Return the members of sets of opponents, and all regimes, in place of their names, and the anchor."""
        members = [member for name in self.named for member in self.SETS.get(name, (name,))]
        return {
            "fixed": Anchor.parse(self.anchor) if self.anchor else None,
            "sets": tuple(name for name in self.named if name in self.SETS),
            "opponents": tuple(dict.fromkeys(members)),
            "regimes": tuple(self.REGIMES) if ALL in self.regimes else self.regimes or ("",),
        }

    @property
    def loading(self) -> dict[str, Any]:
        """How policies are loaded."""
        return {"deterministic": not self.stochastic}

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        self.check_games()

    def check_games(self) -> None:
        """Raise `InputError` for an odd number of games."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since every match is played from both seats")


@dataclass(frozen=True, kw_only=True)
class PairedEvaluationOptions(PairedOptions, EvaluateOptions):
    """Options of an evaluation; the players have not been located."""

    OUTPUTS: ClassVar[Sequence[str]] = ("replay",)
    """Options that write what was watched."""
    MISSING: ClassVar[str] = PLAYER
    """What to give as --ckpt."""
    require: tuple[str, ...] = argument((), metavar="R", group=RESULTS, repeat=True)
    """Least share of wins, as in "ace>=0.95", "worst>=0.8" or "held_out:mean>=0.5"; of the score or of decided games,
    as in "score:ace>=0.6" or "decided>=0.5"; repeatable."""
    ladder: bool = argument(False, group=WHO)
    """Play all opponents (and --ckpt, where given) against each other."""
    sprt: Pairs | None = argument(None, metavar="K=V", group=RESULTS, nargs="*")
    """Test sequentially whether --ckpt is stronger than the one opponent: elo0=0 elo1=20 alpha=0.05 beta=0.05; --games
    at a time."""
    max_games: int = argument(100_000, GAMES, metavar="N", group=RESULTS)
    """Where --sprt gives up."""
    hypotheses: Hypotheses | None = None
    """Those of --sprt."""

    @property
    def filmed(self) -> int:
        """Number of opponents whose first game is filmed."""
        return 0

    @property
    def rated(self) -> bool:
        """True for a ladder, in which all players meet and are rated."""
        return self.ladder

    def implied(self) -> dict[str, Any]:
        """Return the parsed hypotheses too."""
        return super().implied() | {"hypotheses": None if self.sprt is None else parse_hypotheses(self.sprt)}

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        super().check()
        if self.ladder:
            outputs = self.OUTPUTS if self.rated else ()
            self._refuse(("require", *outputs, "sprt"), "--ladder: give a player with --ckpt instead")
        elif self.anchor is not None:
            raise InputError("--anchor goes with --ladder only: nothing else is rated")
        self.check_player()
        if self.sprt is not None:
            for name in ("opponents", "regimes"):
                if len(getattr(self, name)) != 1:
                    raise InputError(f"--sprt tests one thing: give --{name} one name, not {len(getattr(self, name))}")
            self._refuse(("require", *self.OUTPUTS), "--sprt: leave one of them out")

    def check_player(self) -> None:
        """Raise `InputError` without a player."""
        if not self.ladder:
            self.require_given("ckpt", self.MISSING)

    def check_opponents(self, names: Sequence[str], regimes: Sequence[str] = ()) -> None:
        """Raise `InputError` for an opponent named twice, and for a requirement of what is not played."""
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise InputError(f"--opponents names {twice} twice; leave one out")
        if self.require:
            from sparring.eval.stats.requirements import check_names

            check_names(self.require, names, regimes)

    def failures(self, records: Sequence[Any]) -> tuple[str, ...]:
        """Return a line for each requirement that the records, one per opponent and regime, do not meet."""
        if not self.require:
            return ()
        from sparring.eval.stats.requirements import failures

        return failures(self.require, records)

    def _refuse(self, names: Sequence[str], beside: str) -> None:
        for name in names:
            if self.gives(name):
                raise InputError(f"--{name} does not go with {beside}")
