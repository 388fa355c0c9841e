"""State players in matches: as opponents in training and evaluation, and mixtures of them as one policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.opponents.players import SAMPLED_PREFIX, OpponentError
from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.players.row_states import RowGame
from sparring.envs.imported.evaluation.players.state_players import open_player
from sparring.envs.imported.match import make_match
from sparring.envs.imported.states import TurnState, has_text, own_path
from sparring.eval.paired.response_game import Choices, StatePolicy


class StateSeats:
    """A state policy in a batch of matches of OpenSpiel or of a `game`; `generator` samples its actions."""

    memory_size = 0

    def __init__(self, policy: StatePolicy, name: str, seed: int = 0, *, game: RowGame | None = None) -> None:
        self.name, self._policy, self._game = name, policy, game
        self.generator = torch.Generator()
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Restart the sequence of actions."""
        self.generator.manual_seed(seed)

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Raise an error: observation rows do not contain the state."""
        raise OpponentError(f"opponent {self.name}: needs the match itself; set env.workers=0")

    def choose_rows(self, batch: Any, rows: Tensor) -> Tensor:
        """Return actions [R, A] for `rows` [R] of the N * S seats of a batch in this process."""
        chosen = self._draw(self._game.states(batch, rows) if self._game else self._states(batch, rows))
        actions = torch.zeros(len(rows), batch.action_size)
        actions[:, 0] = torch.tensor(chosen, dtype=torch.float32)
        return actions

    def _states(self, batch: Any, rows: Tensor) -> list[Any]:
        """Return the states of the matches in which `rows` decide."""
        if not hasattr(batch, "match"):
            raise OpponentError(
                f"opponent {self.name}: needs the match itself, which is in a worker; set env.workers=0"
            )
        places = [divmod(row, batch.deciding.shape[1]) for row in rows.tolist()]
        return [seat_state(batch.match(match).state, seat) for match, seat in places]

    def action(self, match: Any, seat: int) -> np.ndarray:
        """Return the action in one match, float64 [1]."""
        return np.array(self._draw([seat_state(match.state, seat)]), dtype=np.float64)

    def _draw(self, states: Sequence[Any]) -> list[int]:
        uniform = torch.rand(len(states), generator=self.generator, dtype=torch.float64).tolist()
        chosen = []
        for choices, number in zip(self._policy(states), uniform, strict=True):
            actions, weights = zip(*choices, strict=True)
            index = int(np.searchsorted(np.cumsum(weights), number, side="right"))
            chosen.append(actions[min(index, len(actions) - 1)])
        return chosen


def seat_state(state: Any, seat: int) -> Any:
    """Return the state in which `seat` decides, also in a simultaneous move."""
    if state.is_simultaneous_node():
        return TurnState(state, (0,) * seat)
    return state if has_text(state.get_game()) else TurnState(state)


def open_state_seats(text: str, contract: Mapping[str, Any], seed: int, *, deterministic: bool = True) -> StateSeats:
    """Return the player of states that `text` names, in matches of a contract. Raises `InputError` for another game.

    A zip takes its likeliest action if it is `deterministic`, unless it is named with `stochastic:`.
    """
    package, _, game_id = str(contract["id"]).partition(":")
    zipped, rows = text.endswith(".zip"), package != "openspiel"
    if rows and not zipped:
        raise InputError(f"{text}: plays only OpenSpiel games, but this is {contract['id']}; name another opponent")
    file, game = text.removeprefix(SAMPLED_PREFIX), RowGame(contract) if rows else None
    match: Any = None if rows else make_match("openspiel", game_id, dict(contract["kwargs"]))
    player = open_player(file, game or match.game)
    sure = deterministic and file == text and zipped
    return StateSeats(player.likeliest if sure else player, text, seed, game=game)


def mixed(policies: Sequence[StatePolicy]) -> StatePolicy:
    """Return the policy that samples one of several uniformly for each seat before the game.

    At an information state its probabilities are their mean, weighted by the probability that each assigns to the
    seat's past actions. By Kuhn's theorem (1953) the two are equivalent under perfect recall.
    """
    if len(policies) == 1:
        return policies[0]
    answers: dict[tuple[int, str], list[dict[int, float]]] = {}
    weights: dict[tuple[int, str], np.ndarray] = {}

    def mixture(states: Sequence[Any]) -> list[Choices]:
        paths = [own_path(state) for state in states]
        asked = {key: state for path in paths for key, state, _ in path if key not in answers}
        if asked:
            given = zip(*(policy([*asked.values()]) for policy in policies), strict=True)
            answers.update(zip(asked, ([dict(choices) for choices in each] for each in given), strict=True))
        result: list[Choices] = []
        for path in paths:
            key, _, _ = path[-1]
            if key not in weights:
                reach = np.ones(len(policies))
                for before, _, action in path[:-1]:
                    reach *= [answer.get(action, 0.0) for answer in answers[before]]
                weights[key] = reach / reach.sum() if reach.sum() else np.full(len(policies), 1.0 / len(policies))
            total: dict[int, float] = {}
            for weight, answer in zip(weights[key], answers[key], strict=True):
                for action, probability in answer.items():
                    total[action] = total.get(action, 0.0) + float(weight) * probability
            result.append([(action, p) for action, p in sorted(total.items()) if p > 0.0])
        return result

    return mixture
