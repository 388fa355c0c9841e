"""The full tree of an OpenSpiel game in arrays: exact values, best responses and exploitability.

The tree is built once, breadth first. Nodes of a level are contiguous, so a policy's values take a few NumPy operations
per level. At a simultaneous move the players decide one after the other, without seeing each other's choices. H nodes,
I information states, K actions, S players, D columns of an observation row.

A best response of player i maximizes its expected return while the others play pi. With perfect recall it is found from
its last decisions to its first ones: at an information state s,

    a*(s) = argmax_a sum_{h in s} pi_{-i}(h) v(h a),

where pi_{-i}(h) is the probability that chance and the others let h happen. NashConv sums over the players what a best
response gains. Exploitability is NashConv / S, as in OpenSpiel, in games of two players whose returns sum to zero.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.imported.match import make_match
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.states import first_state

MOST_NODES = 400_000
"""Liar's dice with one six-sided die for each of two players has 294,883."""
PLAYOUTS = 200
SLACK = 1.25
"""Multiple of `MOST_NODES` above which an estimate from `PLAYOUTS` random games skips the build."""
CHANCE, END = -1, -2
"""Players of nodes at which no player decides."""


@dataclass(frozen=True)
class GameTree:
    """Tree of a game; `infosets` of all players are numbered together."""

    player: np.ndarray
    """Who decides, int64 [H]: a player, `CHANCE` or `END`."""
    parent: np.ndarray
    """int64 [H]; 0 for the root."""
    action: np.ndarray
    """Action that led to the node, int64 [H]; 0 after chance."""
    chance: np.ndarray
    """Probability of the edge from the parent if that is a chance node, else 1, float64 [H]."""
    infoset: np.ndarray
    """Information state of a decision, int64 [H]; 0 for others."""
    levels: list[slice]
    """Nodes by their number of edges from the root."""
    returns: np.ndarray
    """Returns at the end, float64 [H, S], 0 elsewhere."""
    owner: np.ndarray
    """Player of an information state, int64 [I]."""
    depth: np.ndarray
    """Number of the player's decisions before an information state, int64 [I]."""
    before: np.ndarray
    """The player's information state before, int64 [I]; -1 for none."""
    legal: np.ndarray
    """bool [I, K]."""
    rows: np.ndarray
    """Observation rows as a policy sees them, float32 [I, D]."""
    names: list[str]
    """OpenSpiel's text of every information state."""
    states: list[Any]
    """A state of every information state."""

    def values(self, table: np.ndarray) -> np.ndarray:
        """Return the expected returns float64 [S] if all play the probabilities `table`, float64 [I, K]."""
        edge = self._edges(table)
        return np.array([self._backed_up(edge, returns)[0] for returns in self.returns.T])

    def best_response(self, table: np.ndarray, player: int) -> float:
        """Return the expected return of a best response of `player` to the others' `table`, float64 [I, K]."""
        return self._respond(table, player)[0]

    def losses(self, table: np.ndarray) -> np.ndarray:
        """Return what the player loses at each information state by not playing a best response there, float64 [I].

            own(s) (max_a Q(s, a) - sum_a pi(a | s) Q(s, a))

        where own(s) is the product of the player's own probabilities on the way to s. The values of a best response
        after a are Q(s, a) = sum_{h in s} pi_{-i}(h) v(h a). Losses are not negative, and their sum is `nash_conv`.
        """
        edge, losses = self._edges(table), np.zeros(len(self.owner))
        for player in range(self.returns.shape[1]):
            values, own = self._respond(table, player)[1], np.zeros(len(self.owner))
            nodes = np.flatnonzero(self.player == player)
            own[self.infoset[nodes]] = self._reach(np.where(self._decided(player), edge, 1.0))[nodes]
            losses += own * (np.where(self.legal, values, -np.inf).max(1) - (table * values).sum(1))
        return losses

    def _respond(self, table: np.ndarray, player: int) -> tuple[float, np.ndarray]:
        """Return the value of a best response of `player`, and its Q(s, a), float64 [I, K], 0 for other players."""
        edge, decided = self._edges(table), self._decided(player)
        # A weight of 0 keeps values of decisions that are not made yet out of the sums.
        reach, best = self._reach(np.where(decided, 1.0, edge)), np.where(decided, 0.0, edge)
        infoset, returns = self.infoset[self.parent], self.returns[:, player]
        values, count = np.zeros(self.legal.shape), self.legal.shape[1]
        for depth in range(int(self.depth.max(initial=-1)), -1, -1):
            nodes = np.flatnonzero(decided & (self.depth[infoset] == depth))
            if not len(nodes):
                continue
            gained = reach[nodes] * self._backed_up(best, returns)[nodes]
            cells = infoset[nodes] * count + self.action[nodes]
            sums = np.bincount(cells, gained, minlength=self.legal.size).reshape(self.legal.shape)
            chosen = np.where(self.legal, sums, -np.inf).argmax(1)
            best[nodes] = chosen[infoset[nodes]] == self.action[nodes]
            values += sums
        return float(self._backed_up(best, returns)[0]), values

    def _decided(self, player: int) -> np.ndarray:
        """Return the nodes that a decision of `player` leads to, bool [H]."""
        decided: np.ndarray = self.player[self.parent] == player
        decided[0] = False
        return decided

    def nash_conv(self, table: np.ndarray) -> float:
        """Return the sum over players of what a best response gains over `table`, float64 [I, K]."""
        return float(self.gains(table).sum())

    def exploitability(self, table: np.ndarray, seat: int | None = None) -> float:
        """Return the mean over players, or over one `seat`, of what a best response gains over `table` [I, K]."""
        return float(self.gains(table, seat).mean())

    def gains(self, table: np.ndarray, seat: int | None = None) -> np.ndarray:
        """Return what a best response of each player, or in one `seat`, gains over `table` [I, K], float64 [S]."""
        seats = [*range(self.returns.shape[1])] if seat is None else [seat]
        gains: np.ndarray = np.array([self.best_response(table, each) for each in seats]) - self.values(table)[seats]
        return gains

    def uniform(self) -> np.ndarray:
        """Return the table of a player that draws uniformly among the legal actions, float64 [I, K]."""
        return self.legal / self.legal.sum(1, keepdims=True)

    def _edges(self, table: np.ndarray) -> np.ndarray:
        """Return the probability of the edge to every node, float64 [H]."""
        decided = self.player[self.parent] >= 0
        return np.where(decided, table[self.infoset[self.parent], self.action], self.chance)

    def _backed_up(self, edge: np.ndarray, returns: np.ndarray) -> np.ndarray:
        """Return the value of every node, float64 [H], with the edges' weights [H]."""
        value = returns.copy()
        for above, below in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            weighted = edge[below] * value[below]
            parents, size = self.parent[below] - above.start, above.stop - above.start
            value[above] += np.bincount(parents, weighted, minlength=size)
        return value

    def _reach(self, edge: np.ndarray) -> np.ndarray:
        """Return the product of the weights from the root to every node, float64 [H]."""
        reach = np.ones(len(edge))
        for level in self.levels[1:]:
            reach[level] = reach[self.parent[level]] * edge[level]
        return reach


def game_tree(
    game_id: str, kwargs: Mapping[str, Any], observation: str = "auto", roles: Sequence[str] = ()
) -> GameTree | None:
    """Return the tree of a game of OpenSpiel (`openspiel:` may stand before its name), built once in a process.

    None for a game without information states, or with more than `MOST_NODES` nodes. Raises `ConfigError` for a name
    that is not a game, and `InputError` for one in which a player forgets what it did.
    """
    name = game_id.removeprefix("openspiel:")
    return _tree(name, json.dumps(dict(kwargs), sort_keys=True), observation, tuple(roles))


@lru_cache(maxsize=4)
def _tree(name: str, options: str, observation: str, roles: tuple[str, ...]) -> GameTree | None:
    kwargs = json.loads(options)
    match: Any = make_match("openspiel", name, kwargs, observation=observation)
    kind = match.game.get_type()
    sampled = kind.chance_mode == type(kind.chance_mode).SAMPLED_STOCHASTIC
    if sampled or not kind.provides_information_state_string or _estimated_nodes(match.game) > SLACK * MOST_NODES:
        return None
    collecting = gc.isenabled()
    gc.disable()  # repeated garbage collection over all nodes would take half of the time
    try:
        return _Builder(match, SeatRows("openspiel", name, match, kwargs, roles=roles)).build()
    finally:
        if collecting:
            gc.enable()


def _estimated_nodes(game: Any) -> float:
    """Return an estimate of the number of nodes: the mean sum of products of the branchings in random playouts.

    Source: Knuth, "Estimating the efficiency of backtrack programs", Mathematics of Computation 29 (1975).
    """
    random = np.random.default_rng(0)
    return float(np.mean([_weight(game, random) for _ in range(PLAYOUTS)]))


def _weight(game: Any, random: np.random.Generator) -> float:
    """Return 1 + b_1 + b_1 b_2 + ... for the branchings b of a random playout."""
    state, product, total = game.new_initial_state(), 1.0, 1.0
    while not state.is_terminal() and total < 1e30:
        if state.is_simultaneous_node():
            choices = [state.legal_actions(player) or [0] for player in range(game.num_players())]
            state.apply_actions([int(random.choice(actions)) for actions in choices])
        else:
            choices = [state.legal_actions()]
            state.apply_action(int(random.choice(choices[0])))
        for actions in choices:
            product *= len(actions)
            total += product
    return total


class _Open(NamedTuple):
    """A node whose children are not built yet."""

    state: Any
    last: tuple[tuple[int, int], ...]
    """The last information state and action of every player, -1 for none."""


@dataclass
class _Builder:
    """Traversal of a game; the lists grow by a node, or by an information state."""

    match: Any
    encoder: SeatRows
    nodes: list[tuple[int, int, int, float, int]] = field(default_factory=list)
    returns: list[list[float]] = field(default_factory=list)
    infosets: dict[tuple[int, str], int] = field(default_factory=dict)
    about: list[tuple[int, int, tuple[int, int]]] = field(default_factory=list)
    """Player, number of its decisions before, and the last of them with its action, of every information state."""
    legal: list[list[int]] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)

    def build(self) -> GameTree | None:
        """Return the tree, None if it is too large."""
        players = self.match.game.num_players()
        root = _Open(first_state(self.match.game), ((-1, -1),) * players)
        level: list[tuple[_Open, int, int, float]] = [(root, 0, 0, 1.0)]
        levels = []
        while level:
            first = len(self.nodes)
            if first + len(level) > MOST_NODES:
                return None
            levels.append(slice(first, first + len(level)))
            level = [child for node in level for child in self._add(*node)]
        player, parent, action, chance, infoset = zip(*self.nodes, strict=True)
        owner, depth, last = zip(*self.about, strict=True)
        return GameTree(
            player=np.array(player),
            parent=np.array(parent),
            action=np.array(action),
            chance=np.array(chance),
            infoset=np.array(infoset),
            levels=levels,
            returns=np.array(self.returns),
            owner=np.array(owner),
            depth=np.array(depth),
            before=np.array([before for before, _ in last]),
            legal=self._legal(),
            rows=np.stack(self.rows),
            names=[text for _, text in self.infosets],
            states=self.states,
        )

    def _add(self, node: _Open, parent: int, action: int, chance: float) -> Iterator[tuple[_Open, int, int, float]]:
        """Store a node and yield its children."""
        state, number = node.state, len(self.nodes)
        ended = state.is_terminal()
        self.returns.append(state.returns() if ended else [0.0] * len(node.last))
        player = END if ended else CHANCE if state.is_chance_node() else state.current_player()
        infoset = self._infoset(node, player) if player >= 0 else 0
        self.nodes.append((player, parent, action, chance, infoset))
        if player == CHANCE:
            for outcome, probability in state.chance_outcomes():
                yield _Open(state.child(outcome), node.last), number, 0, probability
        elif player >= 0:
            for choice in self.legal[infoset]:
                last = (*node.last[:player], (infoset, choice), *node.last[player + 1 :])
                yield _Open(state.child(choice), last), number, choice, 1.0

    def _infoset(self, node: _Open, player: int) -> int:
        """Return the number of the information state at which `player` decides, stored when it is met first."""
        key = self._key(node.state, player)
        last = node.last[player]
        number = self.infosets.setdefault(key, len(self.about))
        if number == len(self.about):
            depth = self.about[last[0]][1] + 1 if last[0] >= 0 else 0
            self.about.append((player, depth, last))
            self.legal.append(node.state.legal_actions())
            self.rows.append(self._row(node.state, player))
            self.states.append(node.state)
        elif self.about[number][2] != last:
            raise InputError(
                f"{self.encoder.name}: player {player} forgets what it did before {key[1]!r}; exploitability needs "
                "perfect recall, leave it out"
            )
        return number

    def _key(self, state: Any, player: int) -> tuple[int, str]:
        return player, state.information_state_string(player)

    def _row(self, state: Any, player: int) -> np.ndarray:
        """Return the observation of `player` as its policy sees it, float32 [D]."""
        self.match.state = getattr(state, "whole", state)
        row: np.ndarray = self.encoder.blank[player]
        self.encoder.write(player, self.match.observe(player), row)
        self.encoder.write_mask(player, self.match.mask(player), row)
        return row

    def _legal(self) -> np.ndarray:
        legal = np.zeros((len(self.legal), self.match.game.num_distinct_actions()), dtype=bool)
        for infoset, actions in enumerate(self.legal):
            legal[infoset, actions] = True
        return legal
