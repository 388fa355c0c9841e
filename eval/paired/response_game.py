"""What a game contributes to best responses to its policies, as records: the part that trains them imports no game."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.configs.schema import NamedOpponentsRunConfig
from sparring.envs.game import Game
from sparring.eval.stats.tables import MatchRecord

FORMAT = "sparring response"
"""Of the file of a response that was found."""
COLD, WARM, CLONE, SAMPLING, ADVANTAGE = "cold", "warm", "clone", "sampling", "advantage"
SEARCH, VALUE, LOCAL = "search", "value", "local"
DETERMINISTIC, STOCHASTIC = "deterministic", "stochastic"
"""How the policy acts that is exploited."""


class ResponseOptions(Protocol):
    """Options of the command that a game reads."""

    start: tuple[str, ...]
    """Attackers."""
    target: tuple[str, ...]
    """How the policy acts."""
    games: int
    """Games of an evaluation."""
    options: tuple[str, ...]
    """Options of the runs."""
    modules: tuple[str, ...]
    """Modules that may be imported to make the game."""
    env: str
    """Package of their games; empty for policies' files, and where only one has such players."""
    id: str
    """Game of players that do not name it themselves; empty for policies' files."""
    seat: int | None
    """The only seat to attack; None is all."""
    device: str
    """Device of the policies."""
    threads: int
    """CPU threads; 0 is every core."""


Choices = Sequence[tuple[int, float]]
"""Actions or outcomes of chance with their probabilities."""
StatePolicy = Callable[[Sequence[Any]], Sequence[Choices]]
"""From `GameState`s to the choices of the player who decides in each."""


class GameState(Protocol):
    """State of a game in which one player decides at a time; the names are those of OpenSpiel's `State`."""

    def is_terminal(self) -> bool:
        """Return whether the game is over."""

    def is_chance_node(self) -> bool:
        """Return whether chance decides."""

    def chance_outcomes(self) -> Choices:
        """Return the outcomes of chance."""

    def current_player(self) -> int:
        """Return who decides."""

    def legal_actions(self) -> Sequence[int]:
        """Return what the player who decides can do."""

    def information_state_string(self, player: int) -> str:
        """Return all that `player` remembers; distinct for what it can tell apart, and without forgetting."""

    def action_to_string(self, player: int, action: int) -> str:
        """Return the name of an action, or of an outcome of chance."""

    def child(self, action: int) -> GameState:
        """Return a copy of the state after an action or an outcome of chance."""

    def history(self) -> Sequence[int]:
        """Return the actions and outcomes of chance so far, which only the attack in poker reads."""

    def returns(self) -> Sequence[float]:
        """Return the returns of all players at the end."""


class SeatResponse(Protocol):
    """A response in one seat of a game whose states can be copied."""

    @property
    def player(self) -> int:
        """The seat."""

    @property
    def searches(self) -> bool:
        """Whether a search met some of its information states; a network answers in all of them."""

    def choices(self, states: Sequence[GameState]) -> Sequence[Choices | None]:
        """Return its choices in each of the states, or None where the frozen policy acts in its place."""


@dataclass(frozen=True)
class StateGame:
    """A game whose states can be copied, with the policy that is exploited in it."""

    new_state: Callable[[], Any]
    """Makes the first `GameState`."""
    players: int
    lowest: float
    highest: float
    """Bounds of the returns."""
    policy: StatePolicy
    """The policy's choices in each of the `GameState`s, for the player who decides there."""
    name: str = ""
    """The game with its options, in its package's words."""
    passive: Callable[[Any], tuple[int, int]] | None = None
    """The actions `(fold, check or call)` in a state of a poker, -1 for a fold where there is nothing to call."""


@dataclass(frozen=True)
class Target:
    """A policy to exploit: what the run is given, its name, and what a checkpoint says about itself."""

    against: str
    name: str
    sha256: str
    game: ResponseGame
    matches: Mapping[str, Any] = field(default_factory=dict)
    """Options of its matches, equal in a mixture; empty if it plays any."""
    settings: Sequence[str] = ()
    """The same as options of a run."""
    network: Sequence[str] = ()
    """Options of a run that give the best response its network."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    player: Any = None
    """What answers for a player of others, which is not in a file."""
    named: Callable[[bool], str] | None = None
    """`(sampled)`: register such a player as an opponent of runs, and return its name."""
    modules: Sequence[str] = ()
    """Modules whose code makes the game of such a player."""
    seats: int = 0
    """Seats of the game that can be attacked alone."""


def check_weights(text: str, player: Any, start: Sequence[str], target: Sequence[str]) -> None:
    """Raise `InputError` for an attack that needs a checkpoint of a player that is not one."""
    if isinstance(player, Path) and player.suffix == ".pt":
        return
    if WARM in start:
        raise InputError(f"{text}: only a checkpoint has weights to begin with; add --start {COLD}")
    if STOCHASTIC in target:
        raise InputError(f"{text}: only a checkpoint samples its actions; leave out --target {STOCHASTIC}")


def no_plans(options: ResponseOptions, targets: Sequence[Target]) -> list[MatchRecord]:
    """Return no games of planners."""
    return []


def no_facts(*_: Any) -> tuple[dict[str, Any], str]:
    """Return no entries and no text."""
    return {}, ""


def no_clone(options: ResponseOptions, targets: Sequence[Target], sampled: bool, folder: Path) -> str:
    """Raise `InputError`: the game does not imitate players."""
    raise InputError(f"--attacker {CLONE}: imitates a player of OpenSpiel's games, with --id; leave it out")


@dataclass(frozen=True)
class ResponseGame:
    """What a game hands in for best responses to its policies."""

    name: str
    kind: type[NamedOpponentsRunConfig]
    """Kind of the runs."""
    base: Sequence[str]
    """Options with which every run begins."""
    read: Callable[[ResponseGame, str, Any], Target]
    """Read a policy, given `ResponseOptions`. Raises `InputError` for one that cannot be exploited."""
    configured: Callable[[type[NamedOpponentsRunConfig], Sequence[str], int], NamedOpponentsRunConfig]
    """Configuration of a run of so many steps, from its kind and options."""
    bots: Sequence[str] = ()
    """Scripted players, which have names of their own in metrics."""
    game: Game | None = None
    floor: str = ""
    recorded: Path | None = None
    """Player that only flees, and its best responses on record, which are shown beside those of others."""
    planned: Callable[[Any, Sequence[Target]], list[MatchRecord]] = no_plans
    """Games of the planners that were asked for."""
    states: Callable[[Any, Sequence[Target], bool], StateGame] | None = None
    """`(options, targets, sampled)`: the game with copies of states, which attacks by sampling need."""
    seated: Callable[[Any, Path], StatePolicy] | None = None
    """`(options, file)`: the policy of a file in such a game."""
    attacks: Mapping[str, Callable[[Any, Sequence[Target]], Any]] = field(default_factory=dict)
    """`(options, targets)`: the response of an attack of the game's own, which takes no moves."""
    play: Callable[[Any, Sequence[Target], bool, Any, int], np.ndarray] | None = None
    """`(options, targets, sampled, response, seed)`: the returns [G, P] of new games, in which a response has seat i %
    P of game i. A response is the file of a policy or of such an attack; with None the policy has all seats."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest return of `play`."""
    clone: Callable[[Any, Sequence[Target], bool, Path], str] = no_clone
    """`(options, targets, sampled, folder)`: a checkpoint in the folder that imitates the policy's own play."""
    facts: Callable[..., tuple[dict[str, Any], str]] = no_facts
    """`(options, targets, runs, labels)`: entries of exploit.json, and text below the report."""


def steps_per_update(config: NamedOpponentsRunConfig) -> int:
    """Return the env steps of one update."""
    return config.env.num_envs * config.ppo.rollout_steps
