"""The learner's opponents: the plan's bots, and snapshots of the learner drawn from the pool into slots.

While the plan has a share of self-play, a snapshot joins the pool at the first update and then every `snapshot_every`
updates. Every `deal_every` updates new opponents are drawn by prioritized fictitious self-play; those drawn again keep
their slot and their running matches. Results are added to the run's league (curriculum/league/league.py), where the
learner is the challenger and snapshots are checkpoints. Recent results control the draw and the schedule.

Promotion of the learner into the pool may depend on a sequential test (curriculum/sprt.py) of seat-swapped games with
the newest snapshot. H0: it is not stronger; H1: it is 50 Elo stronger. Both sample their actions, as in
training, under the current physics.

A rate among the metrics is a share of games; a score is a share of points, where a draw is worth half. Bots appear by
name, and all snapshots together as selfplay. An unknown value (no match finished, never met) is left out of the row.

With several processes only process 0 has the league with its pool, and broadcasts its calls to the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import Processes
from sparring.agents.play.learner_env import MatchTally
from sparring.agents.policies.networks import PolicyNetwork, build_network, load_snapshot
from sparring.agents.run.folder import RunFolder
from sparring.configs.schema import SelfPlayConfig
from sparring.curriculum.league import league as rules
from sparring.curriculum.league.file import LeagueFile, read_league, write_league
from sparring.curriculum.league.league import CHALLENGER, known_win_rates, new_league, win_rates
from sparring.curriculum.league.matchmaking import draw, weights
from sparring.curriculum.opponents import deal
from sparring.curriculum.pool import Pool, PoolError, read_rows
from sparring.curriculum.ratings import GameResult, head_to_head
from sparring.curriculum.schedule import TrainingPlan
from sparring.curriculum.score import SCORES, count_pairs
from sparring.curriculum.sprt import Hypotheses, SPRTVerdict, judge
from sparring.envs.game import WIN_RATE


class OpponentsEnv(Protocol):
    """Interface of the matches for self-play: bots by name, then `slots` for snapshots; an opponent is its number."""

    slots: int
    device: torch.device

    @property
    def bots(self) -> Sequence[str]:
        """Opponents that are not snapshots."""

    @property
    def opponents(self) -> np.ndarray:
        """Opponents of all matches of the run, int32 [total]."""

    def assign(self, opponents: np.ndarray) -> None:
        """Set the opponents of all matches of the run; a match whose opponent changes restarts without a result."""

    def load_slot(self, slot: int, weights: dict[str, Tensor]) -> None:
        """Load a snapshot's weights into a slot and restart the slot's matches without results."""


class SelfPlay:
    """Assignment of opponents to `env`, and the `league` in `file`, which only this run changes.

    `alert` is called when a snapshot cannot be written or read. `seed` seeds the draws from the pool. With a
    `promotion`, snapshots after the first must pass its test; `refused` counts those that did not. With more than two
    `seats`, `seats` matches in a row have the same opponent, so the learner plays every seat against it equally often.
    """

    def __init__(
        self,
        env: OpponentsEnv,
        pool: Pool,
        file: LeagueFile,
        config: SelfPlayConfig,
        alert: Callable[[str], None] = print,
        *,
        seed: int,
        promotion: Promotion | None = None,
        seats: int = 2,
    ) -> None:
        self.env, self.pool, self.file, self.config, self.alert = env, pool, file, config, alert
        self._together = seats if seats > 2 else 1
        self.league = self._new_league()
        self.slots = [""] * env.slots
        """Name of the snapshot in each slot; empty until self-play starts."""
        self._rng = np.random.default_rng(seed)
        self._drawn_at = 0
        self._promotion = promotion
        self.refused, self._tried_at = 0, -1

    def deal(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Assign every match of the run its opponent under `plan`."""
        if plan.scripted_share < 1.0:
            self._refill(plan, network)
        now, together = self.env.opponents, self._together
        dealt = deal(self._shares(plan), len(now) // together, now[::together])
        self.env.assign(np.repeat(dealt, together))

    def record(self, tally: MatchTally) -> None:
        """Add an update's results to the league, except against a snapshot in a slot that has left it."""
        games: list[GameResult] = []
        for number, name in enumerate([*self.env.bots, *self.slots]):
            if name in self.league.agents:
                result = int(tally.wins[number]), int(tally.draws[number]), int(tally.losses[number])
                games += head_to_head(CHALLENGER, name, result)
        self.league = rules.record(self.league, games, k=K)

    def win_rates(self) -> dict[str, float]:
        """Return the learner's recent win rate against every opponent with enough games."""
        return known_win_rates(self.league, CHALLENGER)

    def state_dict(self) -> dict[str, Any]:
        """Return pool, league and generator as plain data; the snapshots' weights stay in the pool's files."""
        return {
            "pool": self.pool.rows(),
            "league": write_league(self.league),
            "slots": self.slots,
            "rng": self._rng.bit_generator.state,
            "drawn_at": self._drawn_at,
            "refused": self.refused,
            "tried_at": self._tried_at,
        }

    def load_state_dict(self, state: dict[str, Any], weights: Sequence[Mapping[str, Tensor]] = ()) -> None:
        """Continue from a `state_dict`; the environment is restored separately.

        `weights` are those of the slots, where the training state has all of them: they restore a damaged file.
        Snapshots without a file leave pool and league. Raises `PoolError` for other damage, before any file is changed.
        """
        snapshots = read_rows(state["pool"])
        lost = self.pool.lost(snapshots, dict(zip(state["slots"], weights, strict=False)), self.alert)
        self.league = rules.leave(read_league(state["league"]), lost)
        self._rng.bit_generator.state = state["rng"]
        self.pool.restore([snapshot for snapshot in snapshots if snapshot.name not in lost])
        self.save_league()
        self.slots = ["" if name in lost else name for name in state["slots"]]  # the next deal draws all if one is ""
        self._drawn_at = state["drawn_at"]
        self.refused, self._tried_at = state["refused"], state["tried_at"]

    def files(self) -> list[str]:
        """Return the names of the snapshots in the pool."""
        return [snapshot.name for snapshot in self.pool.snapshots]

    def delete_unused(self, names: Iterable[str]) -> None:
        """After a state is saved, write the league and delete snapshots that neither it nor a kept state needs."""
        self.save_league()
        self.pool.delete_unused(names)

    def reset(self) -> None:
        """Empty the pool and the league."""
        self.pool.restore([])
        self.league = self._new_league()

    def exploiter_metrics(self, tally: MatchTally) -> dict[str, float]:
        """Return the metrics of an update that trained an exploiter; empty for one of the learner."""
        return {}

    def metrics(self) -> dict[str, float]:
        """Return the Elo ratings of the learner and the bots, and the state of the pool."""
        league, names = self.league, [snapshot.name for snapshot in self.pool.snapshots]
        metrics = {"league/elo": float(league[CHALLENGER].elo), "league/pool_size": float(len(names))}
        metrics["league/refused"] = float(self.refused)
        # The schedule uses wins / games (`curriculum/<bot>/win_rate`); the score counts a draw as half.
        rates = self.win_rates()
        scores = win_rates(league, CHALLENGER, [*rates])
        metrics |= {f"curriculum/{bot}/score": float(scores[k]) for k, bot in enumerate(rates) if bot in self.env.bots}
        metrics |= {f"league/{bot}/elo": float(league[bot].elo) for bot in self.env.bots if league[bot].games}
        if names:
            elos = [league[name].elo for name in names]
            metrics["league/pool_elo_mean"] = float(np.mean(elos))
            metrics["league/pool_elo_best"] = float(max(elos))
            metrics["league/pool_score"] = float(win_rates(league, CHALLENGER, names).mean())
        return metrics

    def save_league(self) -> None:
        """Write the league for readers outside the run, with each training state; a failure is only an alert."""
        try:
            self.file.restore(self.league)
        except OSError as error:
            self.alert(f"the league was not saved ({error.strerror}); training continues")

    def _new_league(self) -> rules.League:
        return new_league(self.env.bots)

    def _refill(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Take a snapshot that is due, and draw the slots again if they are stale or not full."""
        gone = self._snapshot(plan, network)
        stale = plan.update - self._drawn_at >= self.config.deal_every
        if stale or gone.intersection(self.slots) or not all(self.slots):
            self._draw(plan.update)

    def _snapshot(self, plan: TrainingPlan, network: PolicyNetwork) -> set[str]:
        """Add the learner to the pool if a snapshot is due and deserved; return the names it replaced."""
        newest, update = self.pool.newest, plan.update
        if newest and update - max(self.pool[newest].update, self._tried_at) < self.config.snapshot_every:
            return set()
        if newest and not self._deserved(newest, plan, network):
            return set()
        try:
            gone = self.pool.add(update, network.state_dict())
        except OSError as error:
            if not newest:
                raise PoolError(f"{self.pool.folder}: cannot be written ({error.strerror}); free some space") from error
            self.alert(f"no snapshot was taken ({error.strerror}); the pool is unchanged")
            return set()
        name = self.pool.newest
        path = self.pool.path(name).relative_to(self.file.folder)
        self.league = rules.enter_checkpoint(
            rules.leave(self.league, gone), step=update, path=path.as_posix(), name=name
        )
        return set(gone)

    def _deserved(self, newest: str, plan: TrainingPlan, network: PolicyNetwork) -> bool:
        """Return True if the learner may join the pool after the `newest` snapshot."""
        if self._promotion is None:
            return True
        self._tried_at = plan.update
        try:
            champion = load_snapshot(self.pool, newest, self.env.device)
        except PoolError as error:
            self.alert(f"{error}; the learner is promoted without a test")
            return True
        verdict = self._promotion.test(network, champion, plan.update, plan.randomization.ranges())
        self.refused += verdict.accepted != "H1"
        return verdict.accepted == "H1"

    def _draw(self, update: int) -> None:
        """Draw a snapshot for every slot and load those that are not loaded yet."""
        self._draw_slots(range(self.env.slots))
        self._drawn_at = update

    def _draw_slots(self, slots: range) -> None:
        drawn = keep_places(self._draw_names(len(slots)), [self.slots[slot] for slot in slots])
        for slot, name in zip(slots, drawn, strict=True):
            if name != self.slots[slot]:
                self._fill(slot, name)

    def _draw_names(self, count: int) -> list[str]:
        """Draw snapshots, preferring those that the learner scores less against."""
        return self._draw_among([snapshot.name for snapshot in self.pool.snapshots], count)

    def _draw_among(self, names: Sequence[str], count: int) -> list[str]:
        return draw(names, weights(win_rates(self.league, CHALLENGER, names)), count, self._rng)

    def _playing(self, snapshot: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of a snapshot that play in a slot."""
        return dict(snapshot)

    def _fill(self, slot: int, name: str) -> None:
        """Load a snapshot into a slot; if it cannot be read, the slot keeps its player."""
        try:
            weights = load_snapshot(self.pool, name, self.env.device)
        except PoolError as error:
            if not self.slots[slot]:
                raise
            self.alert(f"{error}; {self.slots[slot]} plays on in its place")
            return
        self.env.load_slot(slot, self._playing(weights))
        self.slots[slot] = name

    def _shares(self, plan: TrainingPlan) -> np.ndarray:
        """Return the share of matches per opponent index: bots, slots in equal parts, and with both seats itself."""
        bots = [plan.scripted_share * plan.bots.get(name, 0.0) for name in self.env.bots]
        rest, slots = 1.0 - plan.scripted_share, self.env.slots
        if not self.config.both_seats:
            return np.array(bots + [rest / slots] * slots)
        pool = rest * self.config.pool_share
        return np.array([*bots, *[pool / slots] * slots, rest - pool])


def open_self_play(
    env: OpponentsEnv,
    folder: RunFolder,
    config: SelfPlayConfig,
    alert: Callable[[str], None],
    *,
    shape: Mapping[str, Any],
    seed: int,
    duel: Duel | None = None,
    seats: int = 2,
    kind: type[SelfPlay] | None = None,
) -> SelfPlay:
    """Open the pool of networks of `shape`, the league and, if configured, promotion by games of `duel`.

    `kind` is the class, by default `SelfPlay`.
    """
    if damaged := Pool.put_aside_damaged(folder.pool):
        alert(damaged)
    pool = Pool(folder.pool, config.pool_size, shape=shape)
    promotion = Promotion(config, duel, seed=seed) if duel and config.promotion_games else None
    options: dict[str, Any] = {"seed": seed, "promotion": promotion, "seats": seats}
    return (kind or SelfPlay)(env, pool, LeagueFile(folder.path), config, alert, **options)


def keep_places(drawn: list[str], slots: list[str]) -> list[str]:
    """Reorder `drawn`: every name that is already in `slots` keeps its slot."""
    remaining = list(drawn)
    placed = [""] * len(slots)
    for slot, name in enumerate(slots):
        if name in remaining:
            remaining.remove(name)
            placed[slot] = name
    return [name or remaining.pop(0) for name in placed]


SELFPLAY, K = "selfplay", 32.0
"""All snapshots together, in metrics."""


def rollout_metrics(tally: MatchTally, bots: Sequence[str]) -> dict[str, float]:
    """Return the results of one rollout, in total and per opponent; `bots` are the first opponents."""
    metrics = {"rollout/matches": float(tally.games.sum())}
    metrics |= _means("rollout", tally, slice(None))
    groups = {name: slice(index, index + 1) for index, name in enumerate(bots)} | {SELFPLAY: slice(len(bots), None)}
    for name, group in groups.items():
        metrics |= _means(f"rollout/{name}", tally, group)
    return metrics


def _means(prefix: str, tally: MatchTally, group: slice) -> dict[str, float]:
    games = float(tally.games[group].sum())
    sums = {
        "win_rate": tally.wins,
        "draw_rate": tally.draws,
        "loss_rate": tally.losses,
        "score": tally.wins + 0.5 * tally.draws,
        **tally.stats,  # Diplomacy has its own score, the share of squares
        "return": tally.returns,
    }
    return {f"{prefix}/{key}": float(sum_[group].sum()) / games for key, sum_ in sums.items()} if games else {}


def curriculum_metrics(plan: TrainingPlan, rates: dict[str, float]) -> dict[str, float]:
    """Return the schedule's settings and the recent win rates that control it.

    `curriculum/randomization` is 0 for fixed physics and 1 for the level full.
    """
    metrics = {
        "curriculum/phase": float(plan.phase_index),
        "curriculum/phase_update": float(plan.phase_update),
        "curriculum/stage": float(plan.stage),
        "curriculum/scripted_share": plan.scripted_share,
        "curriculum/randomization": plan.randomization.width,
    }
    metrics |= {f"curriculum/{bot}/share": plan.scripted_share * share for bot, share in plan.bots.items()}
    return metrics | {f"curriculum/{bot}/win_rate": rates[bot] for bot in plan.bots if bot in rates}


def standing(plan: TrainingPlan, rates: dict[str, float], cost: str = "", *, win: str = WIN_RATE) -> str:
    """Return the bots that `plan` plays with rates of `win`, if enough games were played, its self-play and `cost`.

    Every figure is named, since rates and shares are percentages alike.
    """
    played = plan.bots if plan.scripted_share > 0.0 else {}
    bots = ", ".join(f"{bot} {rates[bot]:.0%}" if bot in rates else f"{bot} not yet" for bot in played)
    selfplay = f"self-play {1.0 - plan.scripted_share:.0%} of matches" if plan.scripted_share < 1.0 else ""
    return "; ".join(filter(None, [f"{win}: {bots}" if bots else "", selfplay, cost]))


GAMES_AT_ONCE = 64
PROMOTION_ELO = 50.0
"""Advantage that the test of a candidate looks for."""


Duel = Callable[[PolicyNetwork, PolicyNetwork, int, int, np.ndarray], np.ndarray]
"""Plays games of two networks that sample their actions: (left, right, number of games, seed, ranges of the physics).

It returns the left one's outcomes (-1, 0, 1) [games]; the second half are the first with swapped seats.
"""


class Promotion:
    """Test of candidates in games that `duel` plays; `seed` seeds them."""

    def __init__(self, config: SelfPlayConfig, duel: Duel, *, seed: int) -> None:
        self.config, self.duel, self.seed = config, duel, seed

    def test(
        self, candidate: PolicyNetwork, champion: Mapping[str, Tensor], update: int, ranges: np.ndarray
    ) -> SPRTVerdict:
        """Test `candidate` against a snapshot's weights, in physics drawn from `ranges` [13, 2]."""
        holder = build_network(candidate.shape).to(candidate.log_std.device)
        holder.load_state_dict(dict(champion))
        hypotheses = Hypotheses(0.0, PROMOTION_ELO)
        pairs = np.zeros(len(SCORES), dtype=np.int64)
        for batch in range(max(self.config.promotion_games // GAMES_AT_ONCE, 1)):
            games = min(max(self.config.promotion_games // 2 * 2, 2), GAMES_AT_ONCE)
            seed = (self.seed + update * 1000 + batch) % 2**31
            pairs += count_pairs(self.duel(candidate, holder, games, seed, ranges))
            verdict = judge(pairs.tolist(), hypotheses)
            if verdict.accepted:
                break
        return verdict


class BroadcastEnv:
    """Wrapper of the environment of process 0 that repeats the league's calls in all `processes`."""

    def __init__(self, env: OpponentsEnv, processes: Processes) -> None:
        self._env, self._processes = env, processes
        self.bots, self.slots, self.device = env.bots, env.slots, env.device

    @property
    def opponents(self) -> np.ndarray:
        """Opponents of all matches of the run."""
        return self._env.opponents

    def assign(self, opponents: np.ndarray) -> None:
        """Call `LearnerEnv.assign` in all processes, which ends `follow` in the others."""
        self._processes.broadcast((None, opponents))
        self._env.assign(opponents)

    def load_slot(self, slot: int, weights: dict[str, Tensor]) -> None:
        """Call `LearnerEnv.load_slot` in all processes."""
        self._processes.broadcast((slot, {name: tensor.cpu() for name, tensor in weights.items()}))
        self._env.load_slot(slot, weights)


def follow(env: OpponentsEnv, processes: Processes) -> None:
    """In every other process: repeat the calls of process 0 on `env`, until all opponents are assigned."""
    while True:
        call: tuple[int | None, Any] = processes.broadcast((None, None))
        slot, content = call
        if slot is None:
            env.assign(content)
            return
        env.load_slot(slot, content)
