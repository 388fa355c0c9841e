"""Interface of games played in text, independent of the game: prompts, answers and tasks.

Each seat with a decision gets a `Prompt`. Its menu is a `Menu`, an exact constraint under which every legal answer is
one sequence of lines, or `FreeText`, any text that the game parses. A `TextTask` plays the games of one `RolloutPlan`
in parallel and computes the reward of every decision. A `TextGame`, referenced by the game's descriptor
(`envs/game.py`), combines them. This module needs neither torch nor a simulator, and players depend on no game.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.opponents import is_code
from sparring.envs.game import game_with_id, load


@dataclass(frozen=True)
class Option:
    """A legal line: its text, its packed value in the game, and its slot."""

    text: str
    value: int
    slot: int


class Menu(Protocol):
    """Legal answers to one prompt, line by line; each answer is one sequence of options."""

    @property
    def lines(self) -> int:
        """Number of lines of a complete answer; 0 without a decision."""

    @property
    def independent(self) -> bool:
        """True if the options of a line do not depend on the lines before it."""

    @property
    def longest(self) -> int:
        """Number of characters of the longest line, without the line end."""

    @property
    def name(self) -> str:
        """Name of the player, for messages."""

    def menu(self, line: int, last: int = -1) -> tuple[Option, ...]:
        """Return the options of line number `line` after a line for slot `last` (-1: none)."""


@dataclass(frozen=True)
class FreeText:
    """Any text of at most `tokens` tokens; `name` is its author, for messages.

    A `temperature` of None uses the model's; greedy models (temperature 0) ignore it. `top_p` is in (0, 1].
    """

    tokens: int
    name: str = "a player"
    lines: int = 0
    temperature: float | None = None
    top_p: float = 1.0

    def drawn_at(self, model: float) -> float:
        """Return the temperature for a model that samples at the temperature `model`."""
        return model if self.temperature is None or model == 0 else self.temperature


class UnreadLine(Protocol):
    """A line outside of an answer."""

    @property
    def text(self) -> str:
        """The line as written."""

    @property
    def problem(self) -> str:
        """Reason why it is not."""


class MenuReading(Protocol):
    """Text parsed as an answer from a menu."""

    @property
    def chosen(self) -> tuple[Option, ...]:
        """A complete legal answer; lines missing in the text are filled in."""

    @property
    def complete(self) -> bool:
        """True if the text had all lines."""

    @property
    def orders_extracted(self) -> int:
        """Number of lines found in the text."""

    @property
    def problems(self) -> Sequence[UnreadLine]:
        """Lines of the text that were not read or not accepted, with the reasons."""

    @property
    def illegal(self) -> int:
        """Number of lines that are not in the menu."""


@dataclass(frozen=True)
class TextFormat:
    """Text format of a game's answers: one option per line, between the tag that ends every prompt and a closing tag.

    Attributes:
        opening: tag at the end of a prompt, with its line end.
        closing: tag after the last line.
        probes: lines with every word that occurs in answers, to test tokenizers.
        read: parses any text as an answer from a menu; never raises.
        trial: artificial menu to test a server; `sample` is a text that tokenizers encode as different ids.

    """

    opening: str
    closing: str
    probes: Callable[[], Sequence[str]]
    read: Callable[[str, Any], MenuReading]
    trial: Menu
    sample: str

    def write(self, chosen: Sequence[Option]) -> str:
        """Return the completion for chosen options: one per line, then the closing tag."""
        return "".join(f"{option.text}\n" for option in chosen) + self.closing


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Facts known before a decision; grouping may use nothing else.

    Attributes:
        fork: number of the state from which the game was forked.
        seat: number of the deciding seat.
        step: calendar steps since the fork, including steps without a decision of the seat. Equal steps of a fork are
            at the same game time.
        stratum: key under which decisions of a seat and a step are comparable across forks, such as its strength.
        position: number that is equal for equal positions, such as a hash of the board.

    """

    fork: int
    seat: int
    step: int
    stratum: Hashable
    position: int


@dataclass(frozen=True)
class Prompt:
    """A decision to be made: the text, its menu, and its seat.

    Attributes:
        seed: determines the random draws, independently of the other prompts of a batch.
        position: the game's state in its own form, for scripted players, which do not read text.
        game: number of the game among those played in parallel; `seat` is the player's seat in it.
        player: name of the model that plays the seat.
        facts: facts for grouping if the decision is used for training, else None.
        number: number of the game among all of an evaluation.

    """

    text: str
    menu: Menu | FreeText
    seed: int = 0
    position: Any = None
    game: int = 0
    seat: int = 0
    player: str = ""
    facts: GroupFacts | None = None
    number: int = 0

    @property
    def is_open(self) -> bool:
        """True if there is a decision to make."""
        return isinstance(self.menu, FreeText) or self.menu.lines > 0


class TextAnswer(Protocol):
    """Answer to a prompt, as used by games."""

    @property
    def chosen(self) -> tuple[Option, ...]:
        """One option for every line of a menu; empty for free text."""

    @property
    def text(self) -> str:
        """Text of the answer, without tags."""


class TextPlayer(Protocol):
    """A player that answers prompts."""

    def decide(self, requests: Sequence[Prompt], /) -> Sequence[TextAnswer]:
        """Return one answer for each prompt, in order."""


class PolicyPlayer(TextPlayer, Protocol):
    """A player whose probabilities are known."""

    def at(self, temperature: float, /) -> PolicyPlayer:
        """Return the same player at another sampling temperature."""

    def policies(self, requests: Sequence[Prompt], /) -> Sequence[np.ndarray]:
        """Return the probabilities of the options of each menu of one line, float64 [n], in the menu's order."""


Answered = Sequence[tuple[Prompt, Any]]
"""Prompts with their `TextAnswer`s."""
DecidePrompts = Callable[[Sequence[Prompt], Callable[[set[int], str], None]], Answered]
"""Collects the players' answers; games whose player cannot answer are passed to the second argument with the cause."""


@dataclass(frozen=True)
class GroupPlan:
    """One position and its forks: `players` by seat, bots by name; the seats `heroes` learn."""

    players: tuple[str, ...]
    heroes: tuple[int, ...]
    categories: tuple[str, ...]
    """Matchmaking categories of the opponents when they were drawn (matchmaking.py); empty in self-play."""
    ratings: tuple[float, ...]
    warmup_phases: int
    """Number of phases played before the fork."""
    years: int
    """Length of a game after the fork, in the game's long time unit."""
    seed: int


@dataclass(frozen=True)
class RolloutPlan:
    """All groups of one step, each forked into `samples` games.

    `paths` are those of players that are checkpoints, relative to the run's folder.
    """

    step: int
    policy_version: int
    samples: int
    groups: tuple[GroupPlan, ...]
    paths: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GameEnding:
    """End of a finished or truncated game: players and points by seat (more is better), and its group."""

    players: tuple[str, ...]
    scores: tuple[int, ...]
    group: int
    finals: tuple[float, ...] = ()
    """Final scores by seat, by which players are rated; empty if the points are."""


class TextTask(Protocol):
    """Games of a plan, played in parallel step by step."""

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Set up the plan's games, group by group, with the forks of a group in sequence.

        Decisions before a fork are made by `decide` and are not used for training.
        """

    @property
    def over(self) -> bool:
        """True if all games have ended."""

    @property
    def failed(self) -> dict[int, str]:
        """Abandoned games with the reasons."""

    def prompts(self) -> list[Prompt]:
        """Return all decisions of this step, possibly none."""

    def apply(self, answered: Answered) -> None:
        """Apply the answers of this step and the scripted players' moves, and advance to the next step."""

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""

    def rewards(self) -> np.ndarray:
        """Return the rewards of the decisions, float64 [steps, games, seats]."""

    def endings(self) -> list[GameEnding]:
        """Return the endings of the games that did not fail."""

    def years(self) -> float:
        """Return the total game time of all games, in the plan's unit."""

    def metrics(self) -> dict[str, float]:
        """Return metrics of the games that did not fail, under names defined by the game."""

    def close(self) -> None:
        """Release resources."""


class Demonstration(Protocol):
    """A scripted player's answer to a prompt, for imitation."""

    @property
    def text(self) -> str:
        """Prompt text."""

    @property
    def menu(self) -> Menu | FreeText:
        """Legal answers."""

    @property
    def answer(self) -> str:
        """Answer of the player, as it follows the prompt."""

    @property
    def chosen(self) -> tuple[Option, ...]:
        """Answer of the player from a menu; empty for free text."""

    @property
    def again(self) -> tuple[Option, ...]:
        """Its answer with other random draws, if requested, else empty."""


class Demonstrations(Protocol):
    """Endless games of scripted players, with a state."""

    @property
    def source(self) -> str:
        """Origin of the answers, for messages, such as "dumbbot in 16 games"."""

    def next(self, *, twice: bool = False) -> Sequence[Sequence[Demonstration]]:
        """Return the decisions of the next step by game; with `twice` also those of other random draws."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all games."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""

    def close(self) -> None:
        """Release resources."""


@dataclass(frozen=True)
class ReferenceTable:
    """Columns of an evaluation's table (metric to heading), and the metrics of each row.

    `heading` stands above the rows' names; `prefix` precedes these in the names of metrics.
    """

    columns: Mapping[str, str]
    found: Mapping[str, Mapping[str, float]]
    games: int
    heading: str = "player"
    prefix: str = ""


@dataclass(frozen=True)
class TextGame:
    """Text interface of a game; `config` is always a `RunConfig`, `threads` is for the simulator.

    Attributes:
        format: text format of its answers; None if all of them are free text.
        corpus: texts with the words for a tokenizer of the game's own.
        task: `task(config, threads=)` makes a `TextTask`.
        demonstrations: `demonstrations(config, games=, seed=, threads=)` makes `Demonstrations` of `config.clone.bot`.
        references: `references(config, models, learner=, base=, threads=)` measures the named model `learner` against
            fixed opponents or on held-out prompts and returns a `ReferenceTable`. Raises `InputError`.
        bot_answers: `bot_answers(name, prompts, threads=)` returns a scripted player's choice for each prompt.
        headline: metrics in the progress line, by name, such as {"centres": "game/avg_sc_count"}.
        pieces: regular expression of a tokenizer of its own: how text is cut into tokens; empty: into words.
        preview: `preview(config, count_tokens)` yields the lines of `dry_run=true`; None without a preview.
        league_players: `league_players(config)` opens the players of `league.players` (`fixed_players`); None if the
            game does not support them. Raises `InputError`.

    """

    format: TextFormat | None
    corpus: Callable[[], Iterator[str]]
    task: Callable[..., TextTask]
    demonstrations: Callable[..., Demonstrations]
    references: Callable[..., ReferenceTable]
    bot_answers: Callable[..., list[tuple[Option, ...]]]
    headline: Mapping[str, str] = field(default_factory=dict)
    pieces: str = ""
    preview: Callable[..., Iterator[str]] | None = None
    league_players: Callable[[Any], Any] | None = None


def fixed_players(
    names: Sequence[str],
    open_player: Callable[[str], Any],
    *,
    option: str = "league.players=[{}]",
    reserved: str = "",
) -> dict[str, Any]:
    """Open the players that an `option` names; `open_player` returns a text for a bot.

    Raises `ConfigError` for a bot, a name that occurs twice, and code, which is not run. Names that begin with a
    `reserved` text are never code.
    """
    if len({*names}) < len(names):
        raise ConfigError(f"{option.format(','.join(names))}: has a name twice; give each once")
    players = {}
    for name in names:
        if is_code(name) and not (reserved and name.startswith(reserved)):
            raise ConfigError(f"{option.format(name)}: is code, which a league cannot keep; give a policy or search")
        players[name] = open_player(name)
        if isinstance(players[name], str):
            raise ConfigError(f"{option.format(name)}: is a bot, and the bots are in the league; leave it out")
    return players


def mix(*numbers: int) -> int:
    """Return a number in [0, 2^31) derived from several, the same on every machine."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 1


def text_game(env_id: str) -> TextGame:
    """Return the text interface of the game with this id; raises `InputError` for a game without one."""
    game = game_with_id(env_id)
    if not game.text_game:
        raise InputError(f"env.id={env_id}: language models cannot play it")
    interface: TextGame = load(game.text_game)
    return interface
