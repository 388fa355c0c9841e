"""The text matches as TextArena 0.7 environments: `TextArenaMatch`, and its names for `textarena.make`.

With as many players as a game has seats, such as seven in Diplomacy, every seat is a player. With one player, bots have
the other seats. A task of chess has one player. Every prompt is self-contained, so an observation is only the prompt of
the turn. `close` returns the sums of the rewards and, for each player, the seat and the outcomes of its answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import ALL, GAMES, ILLEGAL, MATCHES, MatchTurn, TextMatch, open_match

try:
    import textarena as ta
except ImportError as error:
    raise InputError(f"textarena 0.7 or later is needed ({error}): `sparring install textarena`") from error

NAMES = {f"Sparring-{game.title().replace('_', '')}-v0": game for game in GAMES}
"""Games by the names of `textarena.make`, after `register`."""


class TextArenaMatch(ta.Env):  # type: ignore[misc]
    """One match at a time of `game`, with the options of `open_match`; the number of players sets who plays."""

    def __init__(self, game: str = GAMES[0], **options: Any) -> None:
        self.game, self.options = game, options
        self._match: TextMatch | None = None
        self._seats: list[int] = []

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Start the match of a seed, 0 by default. Raises `InputError` for a wrong number of players or bad options."""
        option = MATCHES[self.game].seat_option if num_players > 1 else ""
        if self._match is not None:
            self._match.close()
            self._match = None
        match = open_match(self.game, **{**self.options, **({option: ALL} if option else {})})
        turn = match.start(0 if seed is None else seed)
        if num_players != len(match.seats):
            match.close()
            allowed = f"1 or {len(match.seats)}" if option else str(len(match.seats))
            raise InputError(f"num_players={num_players}: {self.game} has {allowed}")
        self._match, self._seats = match, list(match.seats)
        self._counts = [Counter[str]() for _ in range(num_players)]
        self._totals = [0.0] * num_players
        self.state = ta.State(num_players)
        names = turn.facts.get("seats") or [self.game] * num_players
        self.state.standard_resets({}, role_mapping=dict(enumerate(names)), secret_roles=dict(enumerate(names)))
        self._show(turn)

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Play the current player's answer; return whether the match is over, and the answer's status."""
        if self._match is None:
            raise InputError("no match is running: call reset")
        player = self.state.current_player_id
        turn = self._match.answer(action)
        self._counts[player][turn.answer] += 1
        for seat, reward in turn.rewards.items():
            self._totals[self._seats.index(seat)] += reward
        self.state.step_info |= {"answer": turn.answer, "problems": list(turn.problems), **turn.facts}
        self.state.game_info[player]["turn_count"] += 1
        self.state.game_info[player]["invalid_move"] |= turn.answer == ILLEGAL
        if turn.done:
            self.state.done, self.state.rewards = True, dict(enumerate(self._totals))
        else:
            self._show(turn)
        result: tuple[bool, dict[str, Any]] = self.state.step()
        return result

    def close(self) -> tuple[dict[int, float] | None, dict[int, dict[str, Any]]]:
        """End the match; return the rewards by player, None if it was not played to its end, and facts by player."""
        if self._match is not None:
            self._match.close()
        for player, counts in enumerate(self._counts):
            self.state.game_info[player]["answers"] = dict(counts)
        result: tuple[dict[int, float] | None, dict[int, dict[str, Any]]] = self.state.close()
        return result

    def _show(self, turn: MatchTurn) -> None:
        player = self.state.current_player_id = self._seats.index(turn.seat)
        self.state.add_observation(turn.prompt, ta.ObservationType.PROMPT, to_id=player)


def register() -> None:
    """Register the games for `textarena.make`; a second call does nothing."""
    for name, game in NAMES.items():
        if name not in ta.envs.registration.ENV_REGISTRY:
            wrappers = [ta.wrappers.SingleTurnObservationWrapper]
            ta.register(name, TextArenaMatch, default_wrappers=wrappers, game=game)
