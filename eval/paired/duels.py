"""What evaluations of games of two sides in kernels share; `agents/opponents/duelists.py` makes their players."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sparring.agents.opponents.players import SAMPLED_PREFIX, Player, find_checkpoint, find_player
from sparring.configs.core.errors import InputError, choose
from sparring.envs.game import HELD_OUT_PREFIX, Game
from sparring.eval.options import WHO, argument
from sparring.eval.paired.evaluation import Cell, Matches, PairedPlayers
from sparring.eval.paired.options import PairedEvaluationOptions, PairedOptions
from sparring.eval.stats.tables import MatchRecord, record_of

if TYPE_CHECKING:
    from sparring.agents.opponents.duelists import Duelist

FILES = (".pt", ".onnx")
"""Players whose games can be kept: their file says all about them, which code and statistics beside a zip do not."""


@dataclass(frozen=True, kw_only=True)
class DuelEvaluationOptions(PairedEvaluationOptions):
    """Options of an evaluation that policies of other programs can play."""

    vecnormalize: Path | None = argument(None, metavar="PKL", group=WHO)
    """SB3's VecNormalize of the zip --ckpt (default: NAME_vecnormalize.pkl or vecnormalize.pkl beside it)."""

    def check(self) -> None:
        """Raise `InputError` for statistics without a zip, too."""
        if self.vecnormalize is not None and not self.ckpt.endswith(".zip"):
            raise InputError(f"--vecnormalize {self.vecnormalize}: goes with a zip of Stable-Baselines3 as --ckpt")
        super().check()


class KernelMatches(Matches):
    """Matches of a simulator with the settings `setting`, on which alone its games depend."""

    setting: Any
    ticks_per_second: ClassVar[float]
    regimes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Fields of `setting` that each regime changes."""

    @property
    def device(self) -> str:
        """Device of the simulator."""
        device: str = self.setting.device
        return device

    def under(self, regime: str) -> Any:
        """Return the settings of a regime; without a name those of all matches. Raises `UnknownNameError`."""
        return replace(self.setting, **self.regimes[choose("regime", regime, self.regimes)]) if regime else self.setting

    def stated(self) -> dict[str, Any]:
        """Return the settings; results do not depend on threads."""
        return asdict(replace(self.setting, threads=0))

    def identity(self, player: Duelist) -> tuple[Any, Path | None] | None:
        """Return contract and file of a policy, nothing but the name of a script; None for code."""
        from sparring.agents.policies.policy import Policy

        policy = player.contestant
        if not isinstance(policy, Policy) or player.name.startswith(HELD_OUT_PREFIX):
            return None, None
        if player.path is None or player.path.suffix not in FILES:
            return None
        return (policy.contract, policy.deterministic), player.path

    def played(
        self, cell: Cell, contestants: Sequence[Any], regime: str, setting: Any, recorder: Callable[..., None] | None
    ) -> MatchRecord:
        """Play the games of a cell. Raises `InputError` for actions that are not finite."""
        from sparring.agents.play.duel_matches import check_valid, play

        (player, opponent), (left, right), plan = cell.pair, contestants, cell.plan
        results = play(left, right, games=plan.games, seed=plan.seed, setting=setting, recorder=recorder)
        check_valid(results, player.name, opponent.name)
        return record_of(player.name, opponent.name, regime, results, self.ticks_per_second)


def find(game: Game, name: str, opponent: bool, *, models: bool = True) -> Player:
    """Locate a player; a bot needs no prefix as an opponent, `stochastic:FILE` is a text. Raises `UnknownNameError`."""
    if opponent and name.startswith(SAMPLED_PREFIX):
        find_checkpoint(name.removeprefix(SAMPLED_PREFIX), game)
        return name
    return find_player(name, game, bare=game.bots if opponent else (), models=models)


def open_players(
    open_player: Callable[..., Duelist],
    options: PairedOptions,
    player: Player | None,
    opponents: Sequence[Player],
    device: str,
    *,
    old_version: bool = False,
) -> PairedPlayers:
    """Load the players; opponents may be of an old version of the game."""
    how: dict[str, Any] = {"deterministic": not options.stochastic}
    first = None
    if player is not None:
        statistics = getattr(options, "vecnormalize", None)
        first = open_player(player, device, old_version=old_version, vecnormalize=statistics, **how)
    return with_notes(first, [open_player(name, device, old_version=True, **how) for name in opponents])


def with_notes(player: Duelist | None, opponents: Sequence[Duelist]) -> PairedPlayers:
    """Return the players with the notes on each."""
    players = [*([player] if player else ()), *opponents]
    return PairedPlayers(player, opponents, tuple(note for entry in players for note in entry.notes))
