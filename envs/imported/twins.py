"""Twins: OpenSpiel games in C++ with the rules of a PettingZoo game in Python.

A twin's match has PettingZoo's seats, spaces, action numbers, masks and observations, assembled from OpenSpiel's
tensor. A policy cannot distinguish the two and plays both. `equality.py` tests by replay whether the rules are equal. A
twin without `columns` has different rules; the test names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparring.configs.core.errors import ConfigError
from sparring.envs.imported import openspiel, pettingzoo
from sparring.envs.imported.match import ImportedMatch

CLASSIC = re.compile(r"pettingzoo\.classic\.(?P<name>[a-z]\w*)_v\d+(:(raw_)?env)?")
"""Games that may have a twin, in any version: the equality test decides."""
DRAWING = ("render_mode", "screen_height", "screen_scaling")
"""Options that do not change the rules."""


def _same(state: Any, seat: int) -> dict[int, int]:
    return {action: action for action in state.legal_actions(seat)}


def _limit_actions(state: Any, seat: int) -> dict[int, int]:
    """Return call 0, raise 1, fold 2 and check 3 of RLCard; OpenSpiel has fold 0, call or check 1, raise 2."""
    legal = state.legal_actions(seat)
    numbers = {0: 2, 1: 0 if 0 in legal else 3, 2: 1}
    return {numbers[action]: action for action in legal}


def _no_limit_actions(state: Any, seat: int) -> dict[int, int]:
    """Return fold, call, half the pot, the pot and all of RLCard; OpenSpiel numbers half the pot last."""
    numbers = {0: 0, 1: 1, 4: 2, 2: 3, 3: 4}
    return {numbers[action]: action for action in state.legal_actions(seat)}


def _chess_actions(state: Any, player: int) -> dict[int, int]:
    """Return the 8 x 8 x 73 planes of PettingZoo, which the player who moves sees from its own side."""
    import chess
    from pettingzoo.classic.chess import chess_utils

    board = chess.Board(str(state))
    chess_utils.legal_moves(board)  # numbers the moves that it has not seen yet
    moves = {action: board.parse_san(state.action_to_string(action)) for action in state.legal_actions(player)}
    black = board.turn == chess.BLACK
    mirrored = {action: chess_utils.mirror_move(move) if black else move for action, move in moves.items()}
    return {chess_utils.moves_to_actions[move.uci()]: action for action, move in mirrored.items()}


def _connect_four_columns(seat: int) -> np.ndarray:
    """Return where the board [6, 7, 2], own pieces first, is in OpenSpiel's planes [3, 6, 7], upwards."""
    planes = np.arange(3 * 6 * 7).reshape(3, 6, 7)[:, ::-1]
    return np.stack([planes[seat], planes[1 - seat]], axis=-1).ravel()


def _tic_tac_toe_columns(seat: int) -> np.ndarray:
    """Return where the board [3, 3, 2], own marks first, is in OpenSpiel's planes: free, second and first player."""
    planes = np.arange(3 * 9).reshape(3, 3, 3)
    return np.stack([planes[2 - seat], planes[1 + seat]], axis=-1).ravel()


def _sent_two(kwargs: Mapping[str, Any]) -> list[list[int]]:
    """Return a game of go that repeats a position without a ko: White sends two stones, and takes one back."""
    size = int(kwargs.get("board_size", 19))
    if size < 5:
        return []
    stones: list[tuple[int, int] | None] = [(1, 0), (1, 2), (1, 1), (0, 3), None, (0, 1), None, (0, 0), (0, 2), (0, 1)]
    return [[size * size if stone is None else stone[0] * size + stone[1] for stone in stones]]


def _knights_return(kwargs: Mapping[str, Any]) -> list[list[int]]:
    """Return a game of chess in which both knights go out and back until a position occurs for the third time."""
    out, back = 3563, 3126  # g1f3 and f3g1 as the player sees them
    return [[out, out, back, back, out, out, back, back]]


@dataclass(frozen=True)
class Twin:
    """An OpenSpiel game and its mapping to PettingZoo's numbering."""

    game: str
    """Its name in OpenSpiel, with parameters in parentheses."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Options that both games have under one name, with their types in OpenSpiel."""
    first: int = 0
    """OpenSpiel's number of the player in seat 0; seat 1 has the other of 0 and 1."""
    scale: float = 1.0
    """PettingZoo's rewards divided by OpenSpiel's: 0.5 for chips against big blinds of two chips."""
    actions: Callable[[Any, int], dict[int, int]] = _same
    """OpenSpiel's number of each legal action of a player in a state, by PettingZoo's."""
    columns: Callable[[int], np.ndarray] | None = None
    """Indices of PettingZoo's observation of a seat in OpenSpiel's tensor, int64 [F]; None if it cannot be built."""
    lines: Callable[[Mapping[str, Any]], list[list[int]]] = lambda kwargs: []
    """Games, as PettingZoo actions, for rules that random play seldom reaches."""

    @property
    def name(self) -> str:
        """OpenSpiel's short name."""
        return self.game.partition("(")[0]


HOLDEM = (
    "numPlayers=2,numRounds=4,blind=1 2,firstPlayer=1 2 2 2,numSuits=4,numRanks=13,numHoleCards=2,numBoardCards=0 3 1 1"
)
TWINS = {
    "connect_four": Twin("connect_four", columns=_connect_four_columns),
    "tictactoe": Twin("tic_tac_toe", columns=_tic_tac_toe_columns),
    "go": Twin("go", {"max_game_length": 100_000}, {"board_size": int, "komi": float}, lines=_sent_two),
    "chess": Twin("chess", first=1, actions=_chess_actions, lines=_knights_return),
    "leduc_holdem": Twin("leduc_poker", actions=_limit_actions, scale=0.5),
    "texas_holdem": Twin(
        f"universal_poker(betting=limit,raiseSize=2 2 4 4,maxRaises=4 4 4 4,{HOLDEM})",
        actions=_limit_actions,
        scale=0.5,
    ),
    "texas_holdem_no_limit": Twin(
        f"universal_poker(betting=nolimit,bettingAbstraction=fchpa,stack=100 100,{HOLDEM})",
        actions=_no_limit_actions,
        scale=0.5,
    ),
    "rps": Twin("repeated_game(stage_game=matrix_rps(),num_repetitions=15)"),
}
"""Twins by the name of PettingZoo's game, without its version."""


def find_twin(game_id: str) -> Twin | None:
    """Return the twin of a game of PettingZoo, or None."""
    known = CLASSIC.fullmatch(game_id)
    return TWINS.get(known["name"]) if known else None


def make(game_id: str, kwargs: Mapping[str, Any]) -> TwinMatch:
    """Create a match of the twin of a game of PettingZoo with its options `kwargs`.

    Raises `ConfigError` for a game without one, an option that it lacks, and without OpenSpiel.
    """
    twin = find_twin(game_id)
    if twin is None:
        raise ConfigError(f"env.id={game_id}: has no twin in OpenSpiel; games with a twin: {', '.join(TWINS)}")
    match = pettingzoo.make(game_id, dict(kwargs))
    match.close()
    renumbered = twin.first or twin.scale != 1.0 or twin.actions is not _same
    kind = RenumberedMatch if renumbered else TwinMatch
    return kind(twin, match, {**twin.parameters, **_parameters(twin, kwargs)})


def _parameters(twin: Twin, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenSpiel's parameters for the options of PettingZoo's game."""
    parameters = {}
    for name, value in kwargs.items():
        if name in twin.shared:
            parameters[name] = twin.shared[name](value)
        elif name not in DRAWING:
            raise ConfigError(f"env.kwargs.{name}={value}: OpenSpiel's {twin.name} lacks this option; set env.twin=off")
    return parameters


class TwinMatch(openspiel.SpielMatch):
    """A match of OpenSpiel with the seats, spaces and observations of `match`, a game of PettingZoo."""

    def __init__(self, twin: Twin, match: ImportedMatch, parameters: dict[str, Any]) -> None:
        super().__init__(*openspiel.open_parts(twin.game, parameters, "auto"))
        self.twin = twin
        self.seats, self.remarks = match.seats, match.remarks
        self.observation_spaces, self.action_spaces = match.observation_spaces, match.action_spaces
        self.columns = np.stack([twin.columns(seat) for seat in range(len(self.seats))]) if twin.columns else None

    def observe(self, seat: int) -> Any:
        """See `ImportedMatch.observe`; the observation of a game with a `Dict` of one array."""
        assert self.columns is not None
        ((key, box),) = self.observation_spaces[seat].spaces.items()  # type: ignore[attr-defined]
        return {key: self.tensor(seat)[self.columns[seat]].reshape(box.shape).astype(box.dtype)}

    def mask(self, seat: int) -> np.ndarray:
        """See `ImportedMatch.mask`."""
        return np.isin(np.arange(self.action_spaces[seat].n), self.legal(seat))  # type: ignore[attr-defined]


class RenumberedMatch(TwinMatch):
    """A match whose players, actions or rewards have other numbers in OpenSpiel."""

    def deciding(self) -> list[int]:
        """See `ImportedMatch.deciding`."""
        return sorted(player ^ self.twin.first for player in self._turn)

    def tensor(self, seat: int) -> np.ndarray:
        """See `SpielMatch.tensor`."""
        return super().tensor(seat ^ self.twin.first)

    def legal(self, seat: int) -> list[int]:
        """See `SpielMatch.legal`; numbers of PettingZoo's actions."""
        return sorted(self.twin.actions(self.state, seat ^ self.twin.first))

    def step(self, actions: Mapping[int, Any]) -> None:
        """See `ImportedMatch.step`."""
        twin = self.twin
        players = {seat ^ twin.first: action for seat, action in actions.items()}
        super().step({player: twin.actions(self.state, player)[action] for player, action in players.items()})
        self.rewards *= twin.scale
        if twin.first:
            self.rewards[:] = self.rewards[::-1].copy()
