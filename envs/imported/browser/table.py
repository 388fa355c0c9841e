"""The game of a server: a person in one seat, one player in all others, and the messages of the pages.

The page receives only what the person's seat may see. Other seats' actions are shown in games that hide nothing, and
everything once the game is over. The player is queried in a thread; its answer is dropped if a new game has started.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError
from sparring.configs.core.serving import in_thread
from sparring.configs.core.typed import Count, read, require
from sparring.eval.browser.server import Send
from sparring.eval.browser.steps import step_entry, steps_page
from sparring.eval.browser.watched import WatchedGame, WatchingPage
from sparring.eval.command import fill_page, join_files

CHANCE, YOU = "chance", "you"
FOLDER = Path(__file__).parent
Action = Annotated[int, Field(strict=True, ge=0)]


class Seen(NamedTuple):
    """What a seat sees."""

    text: str
    remembered: str = ""
    """What it remembers, if that is more than it sees."""
    picture: str = ""
    """Address of an image with its data; empty without one."""

    @property
    def image(self) -> str:
        """The picture as HTML, empty without one."""
        return f'<img src="{self.picture}" alt="The game after this action">' if self.picture else ""


class TableStep(NamedTuple):
    """An action of the game so far."""

    who: str
    """`chance`, `you`, or the seat as text."""
    action: str
    after: Seen
    """The whole position after it."""


class PersonTable(WatchedGame):
    """The game shown on every open page.

    Attributes:
        title: heading of the page.
        name: the game in its package.
        seats: number of seats.
        told: whether the page shows the other seats' actions during the game.
        thinking: True while the player is choosing an action.
        problem: why the player did not answer; empty if nothing failed.

    """

    title: str
    name: str
    seats: int
    told: bool

    def __init__(self, opponent: str, seat: int) -> None:
        super().__init__()
        self.opponent, self.seat = opponent, seat
        self._start()

    def _start(self) -> None:
        self.played = list[TableStep]()
        self.thinking, self.problem = False, ""
        self._deal()

    @property
    @abstractmethod
    def yours(self) -> bool:
        """Whether the person decides."""

    @property
    @abstractmethod
    def returns(self) -> Sequence[float]:
        """Returns by seat, once the game is over; empty until then."""

    @abstractmethod
    def _deal(self) -> None:
        """Start a game, up to the first decision of a player."""

    @abstractmethod
    def _legal(self) -> list[tuple[int, str]]:
        """Return the person's legal actions with their names."""

    @abstractmethod
    def _take(self, action: int) -> None:
        """Apply a legal action of the person."""

    @abstractmethod
    def _request(self) -> Callable[[], Any]:
        """Return the function that asks the player for the other seats' decisions; it runs in a thread."""

    @abstractmethod
    def _receive(self, answer: Any) -> None:
        """Apply the result of that function."""

    @abstractmethod
    def _seen(self) -> Seen:
        """Return what the page shows."""

    def begin(self, seat: int) -> None:
        """Start a game in a seat. Raises `InputError` if the seat does not exist."""
        require(seat < self.seats, f"message.seat {seat}: must be below {self.seats}")
        self.seat = seat
        self._start()
        self.think()

    def act(self, action: int) -> None:
        """Apply the person's action. Raises `InputError` if it is illegal or another seat decides."""
        require(self.yours, "it is not your turn")
        require(action in dict(self._legal()), f"action {action} is not legal now")
        self._take(action)
        self.think()

    def think(self) -> None:
        """Query the player in the background when it is to move."""
        if not (self.returns or self.yours or self.thinking):
            self.thinking, self.problem = True, ""
            self.in_background(self._ask(self.played, self._request()))
        self.tell()

    async def _ask(self, game: list[TableStep], request: Callable[[], Any]) -> None:
        problem = "the player failed; see the terminal"
        try:
            answer = await in_thread(request)
            if self.played is game:  # otherwise a new game has started
                self._receive(answer)
            problem = ""
        except InputError as error:
            problem = str(error)
        finally:
            if self.played is game:
                self.thinking, self.problem = False, problem
                if problem:
                    self.tell()
                else:
                    self.think()

    def message(self) -> dict[str, Any]:
        """Return the content of the page."""
        over = len(self.returns) > 0
        seen, told = self._seen(), over or self.told
        return {
            "kind": "game",
            "game": self.name,
            "opponent": self.opponent,
            "seat": self.seat,
            "seats": self.seats,
            "shown": seen.text,
            "remembered": seen.remembered,
            "picture": seen.picture,
            "legal": self._legal() if self.yours else [],
            "count": len(self.played),
            "thinking": self.thinking,
            "problem": self.problem,
            "played": [[one.who, one.action] for one in self.played if told or one.who == YOU],
            "told": told,
            "returns": [*self.returns],
        }

    def _who(self, seat: int) -> str:
        return YOU if seat == self.seat else f"seat {seat}"

    def replay(self) -> str:
        """Return a replay page once the game is over, and a placeholder until then."""
        parts = [f"<p>You play seat {self.seat}; {escape(self.opponent)} plays all others.</p>"]
        if not self.returns:
            return steps_page(f"Sparring · {self.name}", [*parts, "<p>The actions are shown at the end.</p>"])
        parts += [
            step_entry(one.who.partition(" ")[0], one.who, one.action, one.after.text, one.after.image)
            for one in self.played
        ]
        parts.append(f"<p>Returns by seat: {', '.join(f'{value:+g}' for value in self.returns)}</p>")
        return steps_page(f"Sparring · {self.name}", parts)


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
        title, script = f"Sparring · {self.table.title}", join_files(FOLDER, "page.js")
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
