"""Games played in text: what prompts, answers and tasks are to those who decide and learn, whatever the game.

A game shows each seat that has to decide a `Prompt`. Its menu is either a `Menu`, an exact constraint under which every
legal answer is one sequence of lines, or `FreeText`, anything at all, which the game then reads as it can. A `TextTask`
plays the games of one `RolloutPlan` side by side and says what every decision was worth; a `TextGame`, named by the
game's record (`envs/game.py`), has all of it. Nothing here needs torch or a simulator, and no decider knows a game.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Option:
    """A line that may be written: its text, the packed value the game knows it by, and the slot it is for."""

    text: str
    value: int
    slot: int


class Menu(Protocol):
    """The legal answers to one prompt, line by line; each is one sequence of options."""

    @property
    def lines(self) -> int:
        """Lines of a complete answer; 0 where there is nothing to decide."""

    @property
    def independent(self) -> bool:
        """Whether the options of a line do not depend on the lines before."""

    @property
    def longest(self) -> int:
        """Characters of the longest line, without its end."""

    @property
    def name(self) -> str:
        """Who decides, for messages."""

    def menu(self, line: int, last: int = -1) -> tuple[Option, ...]:
        """The options of line number `line` after one for slot `last` (-1: there is none)."""


@dataclass(frozen=True)
class FreeText:
    """Any text of at most so many tokens; `name` is who writes it, for messages."""

    tokens: int
    name: str = "a player"
    lines: int = 0


class MenuReading(Protocol):
    """A text read as an answer from a menu."""

    @property
    def chosen(self) -> tuple[Option, ...]:
        """A complete legal answer; lines that the text lacks are filled up."""

    @property
    def complete(self) -> bool:
        """Whether the text had all lines."""


@dataclass(frozen=True)
class TextFormat:
    """How a game's answers are written: a line each, between the tag that ends every prompt and the closing one.

    Attributes:
        opening: the tag, with its line end.
        closing: the tag after the last line.
        probes: lines with every word that answers have, to try tokenizers with.
        read: reads any text as an answer from a menu; never raises.
        trial: a made-up menu to try a server with, and `sample` a text that tokenizers read as different ids.

    """

    opening: str
    closing: str
    probes: Callable[[], Sequence[str]]
    read: Callable[[str, Any], MenuReading]
    trial: Menu
    sample: str

    def write(self, chosen: Sequence[Option]) -> str:
        """The completion that stands for chosen options: a line each, then the closing tag."""
        return "".join(f"{option.text}\n" for option in chosen) + self.closing


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a decision before it is made, and all that grouping may look at.

    Attributes:
        fork: number of the state that the game was forked from.
        seat: who decides.
        step: calendar steps since the fork, counted whether or not the seat had to decide, so that equal steps of a
            fork are the same moment everywhere.
        stratum: what makes decisions of a seat and a step comparable across forks, such as its strength.
        position: a number that is the same for equal positions, such as a hash of the board.

    """

    fork: int
    seat: int
    step: int
    stratum: Hashable
    position: int


@dataclass(frozen=True)
class Prompt:
    """A decision to be made: the text, its menu, and whose it is.

    Attributes:
        seed: decides the draws, whatever else is asked at the same time.
        position: the game as it stands, in the game's own form, for scripted players, which read no text.
        game: number of the game among those played side by side; `seat` is the player's place in it.
        player: name of the model that plays the seat.
        facts: what groups are formed by, where the decision is learned from; else None.

    """

    text: str
    menu: Menu | FreeText
    seed: int = 0
    position: Any = None
    game: int = 0
    seat: int = 0
    player: str = ""
    facts: GroupFacts | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is anything to decide."""
        return isinstance(self.menu, FreeText) or self.menu.lines > 0


class TextAnswer(Protocol):
    """An answer as games need it."""

    @property
    def chosen(self) -> tuple[Option, ...]:
        """One option for every line of a menu; none for free text."""

    @property
    def text(self) -> str:
        """What was written, without tags."""


class TextPlayer(Protocol):
    """Answers prompts."""

    def decide(self, requests: Sequence[Prompt], /) -> Sequence[TextAnswer]:
        """One answer for each prompt, in order."""


Answered = Sequence[tuple[Prompt, Any]]
"""Prompts with their `TextAnswer`s."""
DecidePrompts = Callable[[Sequence[Prompt], Callable[[set[int], str], None]], Answered]
"""Has prompts answered by their players; games whose player cannot answer go to the second argument with the cause."""


@dataclass(frozen=True)
class GroupPlan:
    """One position and its forks: `players` by seat, bots by their names; the `heroes` learn."""

    players: tuple[str, ...]
    heroes: tuple[int, ...]
    categories: tuple[str, ...]
    """What the opponents were to the hero when they were drawn (matchmaking.py); empty in self-play."""
    ratings: tuple[float, ...]
    warmup_phases: int
    """Phases played before the fork."""
    years: int
    """Length of a game after the fork, in the game's long unit of time."""
    seed: int


@dataclass(frozen=True)
class RolloutPlan:
    """All groups of one step, each forked into `samples` games; `paths` of the players that are checkpoints."""

    step: int
    policy_version: int
    samples: int
    groups: tuple[GroupPlan, ...]
    paths: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GameEnding:
    """How a game ended or was cut off: players and points by seat, the more the better, and its group."""

    players: tuple[str, ...]
    scores: tuple[int, ...]
    group: int


class TextTask(Protocol):
    """The games of a plan, all played side by side, one step after another."""

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Put up the plan's games, group by group, the forks of a group one after the other.

        What leads to a fork may need decisions, which `decide` has made; they are not learned from.
        """

    @property
    def over(self) -> bool:
        """Whether no game goes on."""

    @property
    def failed(self) -> dict[int, str]:
        """Games that were given up, and why."""

    def prompts(self) -> list[Prompt]:
        """Every decision to be made in this step; there may be none."""

    def apply(self, answered: Answered) -> None:
        """Carry out the answers of this step, let scripted players move, and go on to the next step."""

    def fail(self, games: set[int], why: str) -> None:
        """Give games up."""

    def rewards(self) -> np.ndarray:
        """What a decision was worth, float64 [steps, games, seats]."""

    def endings(self) -> list[GameEnding]:
        """How the games that did not fail ended."""

    def years(self) -> float:
        """Game time of all games together, in the plan's unit."""

    def metrics(self) -> dict[str, float]:
        """What is worth knowing of the games that did not fail, by names of the game's own."""

    def close(self) -> None:
        """Release what it holds."""


class Demonstration(Protocol):
    """A scripted player's answer to a prompt, to be imitated."""

    @property
    def text(self) -> str:
        """The prompt."""

    @property
    def menu(self) -> Menu:
        """What could be answered."""

    @property
    def chosen(self) -> tuple[Option, ...]:
        """What the player answered."""

    @property
    def again(self) -> tuple[Option, ...]:
        """What it answers with other draws, where that was asked for."""


class Demonstrations(Protocol):
    """Games of scripted players that never end, with a state."""

    def next(self, *, twice: bool = False) -> Sequence[Sequence[Demonstration]]:
        """The decisions of the next step, game by game; with `twice` those that other draws would give as well."""

    def state_dict(self) -> dict[str, Any]:
        """Where all games are."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""

    def close(self) -> None:
        """Release what it holds."""


@dataclass(frozen=True)
class ReferenceTable:
    """Columns of an evaluation's table (metric to heading), and for each opponent its metrics."""

    columns: Mapping[str, str]
    found: Mapping[str, Mapping[str, float]]
    games: int


@dataclass(frozen=True)
class TextGame:
    """All that a game offers in text; `config` is a `RunConfig` throughout, `threads` those of the simulator.

    Attributes:
        format: of its answers.
        corpus: texts whose words a tokenizer of the game's own should know.
        task: `task(config, threads=)` makes a `TextTask`.
        demonstrations: `demonstrations(config, games=, seed=, threads=)` makes `Demonstrations` of `config.clone.bot`.
        references: `references(config, models, learner=, base=, threads=)` plays the named model `learner` against
            opponents that do not change, and returns a `ReferenceTable`. Raises `InputError`.
        bot_answers: `bot_answers(name, prompts, threads=)` is what a scripted player chooses for each.

    """

    format: TextFormat
    corpus: Callable[[], Iterator[str]]
    task: Callable[..., TextTask]
    demonstrations: Callable[..., Demonstrations]
    references: Callable[..., ReferenceTable]
    bot_answers: Callable[..., list[tuple[Option, ...]]]


def mix(*numbers: int) -> int:
    """One number in [0, 2^31) from several, the same everywhere."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 1
