"""Payoff matrix of Diplomacy: `python eval/payoff.py --env diplomacy --opponents random,dumbbot,search`.

The game has seven seats, so two players meet in pairs of games. Each player has one power against six of the other, the
same power in both games. The player with the larger share of squares wins both games of the pair; equal shares are a
draw. Each power is played equally often. Intervals and ratings treat pairs as independent, as in the other games.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sparring.agents.opponents.players import Player, display_name
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.codes import DEFAULT_BOTS
from sparring.envs.diplomacy.evaluation.command import conditions
from sparring.envs.diplomacy.evaluation.options import LAST_YEAR, ONE_KIND, PAIR_OF_GAMES, YEARS, check_powers
from sparring.eval.command import GamePayoff
from sparring.eval.options import CONDITIONS, WHO, argument
from sparring.eval.paired import duels
from sparring.eval.paired.evaluation import PairedGame, PairedPlayers
from sparring.eval.paired.options import GAMES, PairedOptions
from sparring.eval.payoff import PayoffOptions, payoff, payoff_text

if TYPE_CHECKING:
    from sparring.agents.opponents.snapshots import Frozen
    from sparring.envs.diplomacy.evaluation.matches import DiplomacyEntrant, SwappedMatches

_EXAMPLES = """\
  python eval/payoff.py --env diplomacy                            the bots among themselves
  python eval/payoff.py --env diplomacy --opponents dumbbot,random,released/diplomacy_student --last-year 1910
  python eval/payoff.py --ckpt RUN --games 140                     a run's snapshots and the bots"""


@dataclass(frozen=True, kw_only=True)
class DiplomacyPayoffOptions(PayoffOptions, PairedOptions):
    """Options of a payoff matrix."""

    TEXT = payoff_text(_EXAMPLES, GAME.name)
    ABSENT: ClassVar[Mapping[str, str]] = ONE_KIND
    begin: ClassVar[None] = None
    """Games start in spring 1901."""
    opponents: tuple[str, ...] = argument(DEFAULT_BOTS, metavar="O", group=WHO, split=True)
    """Bots, policies, stochastic:POLICY, search:K=V,... and module:Name besides the snapshots (default: bots), or
    none."""
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Player with a fixed rating, as in random or random=1000 (default: random, or the first player, at 0)."""
    games: int = argument(140, GAMES, metavar="N", group=CONDITIONS)
    """Games per pair of players, a multiple of 14: both have every power equally often."""
    last_year: int = argument(LAST_YEAR, YEARS, metavar="Y", group=CONDITIONS)
    """The last year of a game."""

    def check_games(self) -> None:
        """Raise `InputError` unless both players have every power equally often."""
        check_powers(self.games, PAIR_OF_GAMES)


def open_players(
    options: DiplomacyPayoffOptions, player: Any, opponents: Sequence[Player], device: str, like: Any = None
) -> PairedPlayers:
    """Load the players. Raises `InputError` for unusable ones."""
    from sparring.envs.diplomacy.evaluation.matches import open_entrant

    sure = not options.stochastic
    return PairedPlayers(
        None, [open_entrant(display_name(located), located, device, deterministic=sure) for located in opponents]
    )


def frozen(options: DiplomacyPayoffOptions, folder: Path, device: str) -> list[Frozen[DiplomacyEntrant]]:
    """Return the policies of a run by age."""
    import torch

    from sparring.agents.opponents.snapshots import frozen_players
    from sparring.envs.diplomacy.evaluation.matches import DiplomacyEntrant
    from sparring.envs.diplomacy.training.opponents import PolicyOrders, read_policy

    def opened(path: Path) -> DiplomacyEntrant:
        policy = read_policy(path, device)
        return replace(build(policy.network, {}, display_name(path), path), training=policy.training, contestant=policy)

    def build(network: Any, contract: Any, name: str, path: Path) -> DiplomacyEntrant:
        noise = torch.Generator(device) if options.stochastic else None
        return DiplomacyEntrant(name, PolicyOrders(network, generator=noise), path)

    return frozen_players(folder, device, opened, build)


def matches(options: DiplomacyPayoffOptions, opened: Sequence[Any], device: str, threads: int) -> SwappedMatches:
    """Return matches to the last year of `options`."""
    from sparring.envs.diplomacy.evaluation.matches import SwappedMatches

    return SwappedMatches(options, device, threads)


FIND = partial(duels.find, GAME, models=False)
"""Language models are not compared here."""
MATRIX = PairedGame(GAME, FIND, open_players, matches, frozen, conditions, anchors=("random",))
PAYOFF = GamePayoff(DiplomacyPayoffOptions, partial(payoff, MATRIX))
