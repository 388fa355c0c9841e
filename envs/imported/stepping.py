"""N matches of an imported game, stepped one after the other in this process with NumPy.

A match that ends restarts within the step. The e-th episode of match i has a seed that depends on (seed, i, e) only.
Several processes that share the matches therefore play the same episodes.

Imported games cannot be saved. A match is restored by replaying its decisions from its seed. Its state holds a digest
of the deciding seats' observations, which detects a game that replays differently.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sparring.configs.core.errors import ConfigError, InputError
from sparring.envs.imported.match import ImportedMatch, make_match, raised, raised_where
from sparring.envs.imported.openspiel import SpielMatch, seat_rows
from sparring.envs.imported.rows import SeatRows

SEEDS = 64
"""Number of seeds drawn at a time for a match."""
EQUAL = 1e-9
"""Relative tolerance for equal reward totals, since the order of addition may differ."""
Outcome = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class BatchPlan:
    """Plan of the matches: `num_envs` of a game; `first` is the index of the first one across all processes.

    `outcome`, "module:function", maps the seats' total rewards [S] to the scores [S] that rank them; `roles` are as in
    `rows.SeatRows`. With `twin`, OpenSpiel plays a PettingZoo game (`twins.py`).
    """

    package: str
    game_id: str
    kwargs: dict[str, Any]
    num_envs: int
    seed: int
    first: int = 0
    observation: str = "auto"
    outcome: str = ""
    roles: tuple[str, ...] = ()
    twin: bool = False

    def make_match(self, render_mode: str | None = None) -> ImportedMatch:
        """Return one match."""
        how: dict[str, Any] = {"observation": self.observation, "twin": self.twin}
        return make_match(self.package, self.game_id, self.kwargs, render_mode, **how)

    def rows(self, match: ImportedMatch) -> SeatRows:
        """Return the layout of the rows of a match."""
        return SeatRows(self.package, self.game_id, match, self.kwargs, roles=self.roles)


class BatchArrays(NamedTuple):
    """Results of a step in N matches of S seats; see `batch.MatchBatch`."""

    obs: np.ndarray
    final_obs: np.ndarray
    deciding: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    outcome: np.ndarray
    length: np.ndarray

    @classmethod
    def of(
        cls, rows: SeatRows, num_envs: int, make: Callable[[tuple[int, ...], Any], np.ndarray] = np.zeros
    ) -> BatchArrays:
        """Return arrays of zeros; `make` creates one from a shape and a dtype."""
        n, s = num_envs, len(rows.seats)
        obs, final_obs = (make((n, s, rows.size), np.float32) for _ in range(2))
        deciding, reward = make((n, s), np.bool_), make((n, s), np.float32)
        ends = [make((n, s), np.bool_) for _ in range(2)]
        return cls(obs, final_obs, deciding, reward, *ends, *[make((n,), np.int64) for _ in range(2)])

    def share(self, first: int, count: int) -> BatchArrays:
        """Return views of the rows of `count` matches."""
        return BatchArrays(*[array[first : first + count] for array in self])


class StoredMatches(NamedTuple):
    """The running matches: episode and move numbers [N], decisions, and digests of observations.

    `actions` float32 [sum of moves, S, A] holds the moves of the first match, then those of the second, and so on.
    """

    episodes: np.ndarray
    moves: np.ndarray
    actions: np.ndarray
    digests: list[str]


class MatchStepper:
    """The matches of a plan; writes to `arrays` if given, else to its own."""

    def __init__(self, plan: BatchPlan, arrays: BatchArrays | None = None) -> None:
        n, self.plan = plan.num_envs, plan
        self._scores = _function(plan.outcome) if plan.outcome else None
        self.matches = [plan.make_match() for _ in range(n)]
        self.rows = plan.rows(self.matches[0])
        s = self._seats = len(self.rows.seats)
        self.arrays = arrays or BatchArrays.of(self.rows, n)
        self.arrays.obs[:] = self.arrays.final_obs[:] = self.rows.blank
        self.arrays.outcome[:] = -1
        self._flat_obs = self.arrays.obs.reshape(n * s, -1)
        self._spiel = [match for match in self.matches if isinstance(match, SpielMatch)]  # all or none
        self._rewards, self._totals = np.zeros((n, s)), np.zeros((n, s))
        self._ended, self._cut = np.zeros((n, s), dtype=bool), np.zeros((n, s), dtype=bool)
        for i, match in enumerate(self.matches):  # read for all matches at once
            match.rewards, match.terminated, match.truncated = self._rewards[i], self._ended[i], self._cut[i]
        self._moves, self._episodes = np.zeros(n, dtype=np.int64), [-1] * n
        self._seed, self._first = plan.seed, plan.first
        self._seeds: list[list[int]] = [[] for _ in range(n)]
        self._turns: list[list[int]] = [[] for _ in range(n)]
        self._decisions: deque[np.ndarray] = deque()
        """Actions [N, S, A] of the last moves, back to the first of the oldest match."""
        for i in range(n):
            self._begin(i)
        self._read(range(n))

    def step(self, actions: np.ndarray) -> None:
        """Make a move in every match with actions float32 [N, S, A]; see `batch.MatchBatch.step`."""
        arrays = self.arrays
        rows = actions.reshape(len(self._flat_obs), -1)
        self.rows.check_actions(self._flat_obs[self._who], rows[self._who], self._who % self._seats)
        self._decisions.append(np.where(arrays.deciding[:, :, None], actions, np.float32(0)))
        by_seat = self.rows.to_actions(actions)
        ended, cut = self._ended.copy(), self._cut.copy()
        self._moves += 1
        over = []
        for i, (match, turn) in enumerate(zip(self.matches, self._turns, strict=True)):
            try:
                if len(turn) == 1:  # the usual case, and faster
                    match.step({turn[0]: by_seat[turn[0]][i]})
                else:
                    match.step({seat: by_seat[seat][i] for seat in turn})
            except Exception as error:
                self._fail(i, error)
            if match.over:
                over.append(i)
        self._totals += self._rewards
        with np.errstate(over="ignore"):
            arrays.reward[:] = self._rewards
        if not np.isfinite(arrays.reward).all():
            self._refuse_reward()
        np.greater(self._ended, ended, out=arrays.terminated)
        np.greater(self._cut, cut, out=arrays.truncated)
        if self._cut.any():
            self._read_final()
        arrays.outcome[:] = -1
        arrays.length[:] = 0
        if over:
            arrays.outcome[over] = self._leaders(over)
            arrays.length[over] = self._moves[over]
            for i in over:
                self._begin(i)
        self._read(range(len(self.matches)))
        self._forget()

    def restart(self, mask: np.ndarray) -> None:
        """Start new matches where `mask` [N] is set, discarding the results of the previous ones."""
        chosen = np.flatnonzero(mask).tolist()
        for i in chosen:
            self._begin(i)
        self._read(chosen)
        self._forget()

    def store(self) -> StoredMatches:
        """Return the input of `load`."""
        n = len(self.matches)
        empty = np.zeros((0, *self.arrays.deciding.shape, self.rows.action_size), dtype=np.float32)
        decisions = np.stack(self._decisions) if self._decisions else empty
        actions = np.concatenate([decisions[len(decisions) - self._moves[i] :, i] for i in range(n)])
        episodes = np.array(self._episodes, dtype=np.int64)
        return StoredMatches(episodes, self._moves.copy(), actions, [self._digest(i) for i in range(n)])

    def load(self, seed: int, first: int, stored: StoredMatches) -> list[bool]:
        """Replay the stored matches of a plan with `seed` and `first`; return which ones diverged [N].

        Diverged matches restart without a result.
        """
        n = len(self.matches)
        self._seed, self._first = seed, first
        self._seeds = [[] for _ in range(n)]
        parts = np.split(stored.actions, np.cumsum(stored.moves)[:-1])
        lost = [
            not self._replay(i, int(stored.episodes[i]), parts[i], digest) for i, digest in enumerate(stored.digests)
        ]
        for i in np.flatnonzero(lost).tolist():
            self._begin(i)
        decisions = np.zeros((int(self._moves.max()), *self.arrays.deciding.shape, self.rows.action_size), np.float32)
        for i, part in enumerate(parts):
            if not lost[i]:
                decisions[len(decisions) - len(part) :, i] = part
        self._decisions = deque(decisions)
        for array in (self.arrays.reward, self.arrays.terminated, self.arrays.truncated, self.arrays.length):
            array[:] = 0
        self.arrays.outcome[:] = -1
        self._read(range(n))
        return lost

    def close(self) -> None:
        """Close the games."""
        for match in self.matches:
            match.close()

    def _replay(self, i: int, episode: int, actions: np.ndarray, digest: str) -> bool:
        """Play an episode of match i again with actions [moves, S, A]; return whether it led to the same rows."""
        by_seat, match = self.rows.to_actions(actions), self.matches[i]
        self._episodes[i] = episode - 1
        try:
            self._begin(i)
            for move, chosen in enumerate(actions):
                self._write([i])
                turn = self._turns[i]
                self.rows.check_actions(self.arrays.obs[i, turn], chosen[turn], np.array(turn))
                match.step({seat: by_seat[seat][move] for seat in turn})
                if match.over:
                    return False
                self._totals[i] += self._rewards[i]
                self._moves[i] += 1
            self._write([i])
        except Exception:  # the game diverged, so these decisions may be illegal
            return False
        return self._digest(i) == digest

    def _digest(self, i: int) -> str:
        turn = self._turns[i]
        return hashlib.sha256(bytes(turn) + self.arrays.obs[i, turn].tobytes()).hexdigest()[:16]

    def _begin(self, i: int) -> None:
        """Begin the next episode of match i."""
        self._episodes[i] += 1
        self._moves[i] = 0
        self._totals[i] = 0.0
        match = self.matches[i]
        try:
            match.reset(self._seed_of(i))
        except Exception as error:
            self._fail(i, error)
        if match.over:
            raise InputError(f"{self._where(i)}: the match is over before a player decides; let one decide first")

    def _seed_of(self, i: int) -> int:
        """Return the seed of the current episode of match i; most games accept 31 bits."""
        block, index = divmod(self._episodes[i], SEEDS)
        if index == 0 or not self._seeds[i]:
            sequence = np.random.SeedSequence((self._seed, self._first + i, block))
            self._seeds[i] = (sequence.generate_state(SEEDS) >> 1).tolist()
        return self._seeds[i][index]

    def _write(self, chosen: Sequence[int]) -> None:
        """Write the rows of the seats that decide in the `chosen` matches."""
        for i in chosen:
            self._turns[i] = self.matches[i].deciding()
        asked = [(i, seat) for i in chosen for seat in self._turns[i]]
        if self._spiel and asked:
            where = [i * self._seats + seat for i, seat in asked]
            features, mask = seat_rows([(self._spiel[i], seat) for i, seat in asked])
            self._flat_obs[where, : self.rows.features] = features
            self._flat_obs[where, self.rows.mask] = mask
            return
        for i, seat in asked:
            match, row = self.matches[i], self.arrays.obs[i, seat]
            self.rows.write(seat, match.observe(seat), row)
            self.rows.write_mask(seat, match.mask(seat), row)

    def _read(self, chosen: Sequence[int]) -> None:
        """Write the rows of the seats that decide now in the `chosen` matches, and check all rows."""
        for part in [chosen] if self._spiel else [[i] for i in chosen]:
            try:
                self._write(part)
            except Exception as error:
                self._fail(part[0], error)
        s = self._seats
        self._who = np.array([i * s + seat for i, turn in enumerate(self._turns) for seat in turn])
        deciding = self.arrays.deciding.reshape(-1)
        deciding[:] = False
        deciding[self._who] = True
        row, what = (0, "") if self._spiel else self.rows.check(self._flat_obs[self._who], self._who % s)
        if what:
            raise InputError(f"{self._where(int(self._who[row]) // s)}: {what}")
        if not np.isfinite(self.arrays.obs).all():
            self._refuse_obs(self.arrays.obs, "observes")

    def _read_final(self) -> None:
        for i, seat in np.argwhere(self.arrays.truncated).tolist():
            try:
                self.rows.write(seat, self.matches[i].observe(seat), self.arrays.final_obs[i, seat])
            except Exception as error:
                self._fail(i, error)
        if not np.isfinite(self.arrays.final_obs).all():
            self._refuse_obs(self.arrays.final_obs, "last observes")

    def _leaders(self, over: Sequence[int]) -> np.ndarray:
        """Return the leading seats of the matches `over` as bits, 0 if all seats tie."""
        scores = self._totals[over]
        if self._scores:
            scores = np.stack([self._scored(self._scores, totals) for totals in scores])
        best = scores.max(axis=1, keepdims=True)
        leads = scores >= best - EQUAL * np.maximum(np.abs(best), 1.0)
        bits = leads @ (1 << np.arange(self._seats))
        return np.where(leads.all(axis=1), 0, bits)

    def _scored(self, function: Outcome, totals: np.ndarray) -> np.ndarray:
        try:
            scores = np.asarray(function(totals.copy()), dtype=np.float64)
        except Exception as error:
            raise InputError(f"env.outcome={self.plan.outcome}: raised {raised(error)} for rewards {totals}") from error
        if scores.shape != totals.shape or not np.isfinite(scores).all():
            raise InputError(
                f"env.outcome={self.plan.outcome}: returned {scores} for rewards {totals}; return a finite score for "
                f"each of {len(totals)} seats"
            )
        return scores

    def _forget(self) -> None:
        """Drop decisions of matches that are over."""
        longest = int(self._moves.max())
        while len(self._decisions) > longest:
            self._decisions.popleft()

    def _where(self, i: int) -> str:
        about = f"seed {self._seed_of(i)}, episode {self._episodes[i]}, move {self._moves[i]}"
        return f"{self.rows.name}: match {self._first + i} ({about})"

    def _fail(self, i: int, error: Exception) -> NoReturn:
        """Raise a game's error with its location; messages of the adapters are kept."""
        if isinstance(error, InputError):
            text = str(error).removeprefix(f"{self.rows.name}: ")
            raise type(error)(f"{self._where(i)}: {text}") from error
        raise InputError(f"{self._where(i)}: the game raised {raised_where(error)}") from error

    def _refuse_reward(self) -> NoReturn:
        i, seat = np.argwhere(~np.isfinite(self.arrays.reward))[0].tolist()
        value = self._rewards[i, seat]
        raise InputError(
            f"{self._where(i)}: the reward of {self.rows.seats[seat]} is {value}; return finite rewards below 3.4e38"
        )

    def _refuse_obs(self, obs: np.ndarray, verb: str) -> NoReturn:
        i, seat, column = np.argwhere(~np.isfinite(obs))[0].tolist()
        value = obs[i, seat, column]
        raise InputError(
            f"{self._where(i)}: {self.rows.seats[seat]} {verb} {value} in column {column}; return finite numbers below "
            "3.4e38"
        )


def _function(reference: str) -> Outcome:
    """Return the user's scoring function "module:function"."""
    module, _, name = reference.partition(":")
    try:
        function: Outcome = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        fix = "give module:function of one that can be imported"
        raise ConfigError(f"env.outcome={reference}: cannot be imported: {raised(error)}; {fix}") from error
    if not callable(function):
        raise ConfigError(f"env.outcome={reference}: is a {type(function).__name__}; name a function of rewards [S]")
    return function
