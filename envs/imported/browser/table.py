"""The game of a server: a person in one seat, one player in all others, and the messages of the pages.

The page receives only what the person's seat may see: OpenSpiel's observation and information-state text. Other seats'
actions are shown in games with perfect information, and everything once the game is over. The player is queried in a
thread; its answer is dropped if a new game has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError
from sparring.configs.core.serving import in_thread
from sparring.configs.core.typed import Count, read, require
from sparring.envs.imported.evaluation.players.state_players import open_player
from sparring.envs.imported.states import first_state, has_text, is_open
from sparring.eval.browser.server import Send
from sparring.eval.browser.steps import step_entry, steps_page
from sparring.eval.browser.watched import WatchedGame, WatchingPage
from sparring.eval.command import fill_page, join_files

CHANCE, YOU = "chance", "you"
FOLDER = Path(__file__).parent
Action = Annotated[int, Field(strict=True, ge=0)]


class TableStep(NamedTuple):
    """An action of the game so far."""

    who: str
    """`chance`, `you`, or the seat as text."""
    action: str
    after: Any
    """The state after it."""


class PersonTable(WatchedGame):
    """The game shown on every open page. Raises `InputError` for an unknown player, as `open_player` does.

    Attributes:
        thinking: True while the player is choosing an action.
        problem: why the player did not answer; empty if nothing failed.

    """

    def __init__(self, game: Any, opponent: str, seat: int, seed: int) -> None:
        super().__init__()
        self.game, self.opponent, self.seat = game, opponent, seat
        self._player = open_player(opponent, game)
        self._random = Random(seed)
        self._begin()

    def _begin(self) -> None:
        self.state, self.played = first_state(self.game), list[TableStep]()
        self.thinking, self.problem = False, ""

    @property
    def yours(self) -> bool:
        """Whether the person decides."""
        return not (self.state.is_terminal() or self.state.is_chance_node()) and (
            self.state.current_player() == self.seat
        )

    def begin(self, seat: int) -> None:
        """Start a game in a seat. Raises `InputError` if the seat does not exist."""
        require(seat < self.game.num_players(), f"message.seat {seat}: must be below {self.game.num_players()}")
        self.seat = seat
        self._begin()
        self.think()

    def act(self, action: int) -> None:
        """Apply the person's action. Raises `InputError` if it is illegal or another seat decides."""
        require(self.yours, "it is not your turn")
        require(action in self.state.legal_actions(), f"action {action} is not legal now")
        self._apply(action)
        self.think()

    def think(self) -> None:
        """Sample chance nodes, and query the player in the background when it is to move."""
        while not self.state.is_terminal() and self.state.is_chance_node():
            self._apply(self._drawn(self.state.chance_outcomes()))
        if not (self.state.is_terminal() or self.yours or self.thinking):
            self.thinking, self.problem = True, ""
            self.in_background(self._ask(self.state))
        self.tell()

    async def _ask(self, state: Any) -> None:
        problem, choices = "the player failed; see the terminal", None
        try:
            (choices,) = await in_thread(lambda: self._player([state]))
        except InputError as error:
            problem = str(error)
        finally:
            if self.state is state:  # otherwise a new game has started
                self.thinking, self.problem = False, "" if choices else problem
                if choices:
                    self._apply(self._drawn(choices))
                    self.think()
                else:
                    self.tell()

    def _drawn(self, choices: Sequence[tuple[int, float]]) -> int:
        actions, weights = zip(*choices, strict=True)
        return int(self._random.choices(actions, weights)[0])

    def _apply(self, action: int) -> None:
        state, seat = self.state, self.state.current_player()
        who = CHANCE if state.is_chance_node() else YOU if seat == self.seat else f"seat {seat}"
        text = state.action_to_string(seat, action)
        self.state = state.child(action)
        self.played.append(TableStep(who, text, self.state))

    def message(self) -> dict[str, Any]:
        """Return the content of the page."""
        over = self.state.is_terminal()
        shown, remembered = self._seen(over)
        legal = self.state.legal_actions() if self.yours else []
        names = [[action, self.state.action_to_string(self.seat, action)] for action in legal]
        told = over or is_open(self.game)
        return {
            "kind": "game",
            "game": str(self.game),
            "opponent": self.opponent,
            "seat": self.seat,
            "seats": self.game.num_players(),
            "shown": shown,
            "remembered": remembered,
            "legal": names,
            "count": len(self.played),
            "thinking": self.thinking,
            "problem": self.problem,
            "played": [[one.who, one.action] for one in self.played if told or one.who == YOU],
            "told": told,
            "returns": [*self.state.returns()] if over else [],
        }

    def _seen(self, over: bool) -> tuple[str, str]:
        """Return the person's observation, and their information state where it says more."""
        state = getattr(self.state, "whole", self.state)
        if over or is_open(self.game):
            return str(state), ""
        remembered = state.information_state_string(self.seat) if has_text(self.game) else ""
        if not self.game.get_type().provides_observation_string:
            return remembered, ""
        shown = state.observation_string(self.seat)
        return shown, "" if remembered == shown else remembered

    def replay(self) -> str:
        """Return a replay page once the game is over, and a placeholder until then."""
        over = self.state.is_terminal()
        parts = [f"<p>You play seat {self.seat}; {escape(self.opponent)} plays all others.</p>"]
        if over:
            parts += [step_entry(one.who.partition(" ")[0], *one) for one in self.played]
        returns = ", ".join(f"{value:+g}" for value in self.state.returns()) if over else ""
        parts.append(f"<p>Returns by seat: {returns}</p>" if over else "<p>The actions are shown at the end.</p>")
        return steps_page(f"Sparring · {self.game}", parts)


class TableMessage(TypedDict):
    """A message from the page; the other keys depend on `kind`."""

    kind: Literal["begin", "act", "retry"]
    seat: NotRequired[Count]
    action: NotRequired[Action]
    count: NotRequired[Count]
    """Number of actions already shown on the page."""


class HostedTable:
    """The pages and connections of a server; all show the game of one table."""

    def __init__(self, table: PersonTable) -> None:
        self.table = table

    def page(self, path: str, socket: str) -> str | None:
        """Return the game page at "/" and the replay at "/replay"."""
        if path == "/replay":
            return self.table.replay()
        title = f"Sparring · {self.table.game.get_type().long_name}"
        script = join_files(FOLDER, "page.js")
        return (
            fill_page(FOLDER / "page.html", title=title, data={}, script=script, connect=socket)
            if path == "/"
            else None
        )

    def connect(self, send: Send) -> TableSession:
        """Return a new connection."""
        return TableSession(self.table, send)


class TableSession(WatchingPage[PersonTable]):
    """One open page."""

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for an invalid message or an illegal action."""
        action = read(TableMessage, message, "message")
        table = self._table
        match action["kind"]:
            case "begin":
                table.begin(action.get("seat", table.seat))
            case "act":
                require("action" in action, "message.action is missing")
                require(action.get("count", len(table.played)) == len(table.played), "the game has changed; look again")
                table.act(action["action"])
            case "retry":
                table.think()
