"""Whom the learner meets: the plan's bots, and snapshots of itself drawn from the pool into the duel's slots.

While the plan leaves a share to self-play, a snapshot joins the pool at the first update and every `snapshot_every`
from then on; every `deal_every` updates new opponents are drawn by prioritized fictitious self-play, and those that are
drawn again keep their slot and their running matches. Results come back as scores (recent, steering the draw and the
schedule), as Elo ratings of everyone, and as totals in the pool's index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agents.duel import Duel, Tally
from agents.ppo.dogfight_parallel import LedDuel
from agents.ppo.network import ActorCritic
from agents.ppo.promotion import Promotion
from configs.schema import SelfPlayConfig
from curriculum.mix import deal
from curriculum.pfsp import draw, weights
from curriculum.pool import Pool, PoolError
from curriculum.ratings import LearnerRatings
from curriculum.schedule import Plan
from curriculum.scores import Scores
from envs.dogfight.rules import BOTS

Results = dict[str, tuple[int, int, int]]


class League:
    """Deals opponents to `duel` and keeps their records.

    `alert` is told when a snapshot cannot be written or read. `seed` begins the draws from the pool. With a
    `promotion`, snapshots after the first have to earn their place; `refused` counts those that did not.
    """

    def __init__(
        self,
        duel: Duel | LedDuel,
        pool: Pool,
        config: SelfPlayConfig,
        alert: Callable[[str], None] = print,
        *,
        seed: int,
        promotion: Promotion | None = None,
    ) -> None:
        self.duel, self.pool, self.config, self.alert = duel, pool, config, alert
        self.scores = Scores()
        self.ratings = LearnerRatings(config.elo_k)
        self.slots = [""] * duel.slots
        """Name of the snapshot in each slot; empty until self-play begins."""
        self._rng = np.random.default_rng(seed)
        self._drawn_at = 0
        self._promotion = promotion
        self.refused, self._tried_at = 0, -1
        self._unsaved = False

    def deal(self, plan: Plan, network: ActorCritic) -> None:
        """Give every match of the duel the opponent it has under `plan`."""
        if plan.scripted_share < 1.0:
            gone = self._snapshot(plan, network)
            stale = plan.update - self._drawn_at >= self.config.deal_every
            if stale or gone.intersection(self.slots) or not all(self.slots):
                self._draw(plan.update)
        opponents = self.duel.opponents
        self.duel.assign(deal(self._shares(plan), len(opponents), opponents))

    def record(self, tally: Tally) -> None:
        """Take an update's results into the scores, the ratings and the pool."""
        results = self._by_name(tally)
        self.scores.add(results)
        self.ratings.update(results)
        met = {snapshot.name for snapshot in self.pool.snapshots} & results.keys()
        if met:
            ratings = {name: self.ratings.opponents[name] for name in sorted(met)}
            self._save({name: results[name] for name in ratings}, ratings)

    def state_dict(self) -> dict[str, Any]:
        """Pool, records and draws to come, as plain data; the snapshots' weights stay in the pool's files."""
        return {
            "pool": self.pool.rows(),
            "scores": self.scores.state_dict(),
            "learner": self.ratings.learner,
            "opponents": self.ratings.opponents,
            "slots": self.slots,
            "rng": self._rng.bit_generator.state,
            "drawn_at": self._drawn_at,
            "refused": self.refused,
            "tried_at": self._tried_at,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; the duel is restored apart."""
        self.pool.restore(state["pool"])
        self.scores.load_state_dict(state["scores"])
        self.ratings.learner, self.ratings.opponents = state["learner"], dict(state["opponents"])
        self.slots, self._drawn_at = list(state["slots"]), state["drawn_at"]
        self._rng.bit_generator.state = state["rng"]
        self.refused, self._tried_at = state.get("refused", 0), state.get("tried_at", -1)  # absent in older states

    def _save(self, results: Results, ratings: Mapping[str, float]) -> None:
        """Put results into the pool; an index that cannot be written is said once, for the states hold it as well."""
        try:
            self.pool.record(results, ratings)
            self._unsaved = False
        except OSError as error:
            if not self._unsaved:
                self.alert(f"the pool's index is not saved ({error.strerror}); training goes on")
            self._unsaved = True

    def _snapshot(self, plan: Plan, network: ActorCritic) -> set[str]:
        """Freeze the learner if a snapshot is due and deserved; returns the names that left the pool for it."""
        newest, update = self.pool.snapshots[-1:], plan.update
        if newest and update - max(newest[0].update, self._tried_at) < self.config.snapshot_every:
            return set()
        if newest and not self._deserved(newest[0].name, plan, network):
            return set()
        try:
            gone = self.pool.add(update, network.state_dict(), rating=self.ratings.learner)
        except OSError as error:
            if not newest:
                raise PoolError(f"{self.pool.folder}: cannot be written ({error.strerror}); free some space") from error
            self.alert(f"no snapshot is taken ({error.strerror}); the pool stays as it is")
            return set()
        self.ratings.enter(self.pool.snapshots[-1].name, self.ratings.learner)
        for name in gone:
            self.ratings.leave(name)
            self.scores.forget(name)
        return set(gone)

    def _deserved(self, newest: str, plan: Plan, network: ActorCritic) -> bool:
        """Whether the learner may follow the `newest` snapshot into the pool."""
        if self._promotion is None:
            return True
        self._tried_at = plan.update
        try:
            champion = self.pool.load(newest, self.duel.device)
        except PoolError as error:
            self.alert(f"{error}; the learner is promoted without a test")
            return True
        verdict = self._promotion.test(network, champion, plan.update, plan.randomization.ranges())
        self.refused += verdict.accepted != "H1"
        return verdict.accepted == "H1"

    def _draw(self, update: int) -> None:
        """Draw a snapshot for every slot and load the ones that are not there already."""
        names = [snapshot.name for snapshot in self.pool.snapshots]
        weight = weights(self.scores.guesses(names), self.config.sampling)
        drawn = keep_places(draw(names, weight, self.duel.slots, self._rng), self.slots)
        for slot, name in enumerate(drawn):
            if name != self.slots[slot]:
                self._fill(slot, name)
        self._drawn_at = update

    def _fill(self, slot: int, name: str) -> None:
        """Seat a snapshot; one that cannot be read leaves the slot to whoever has it."""
        try:
            weights = self.pool.load(name, self.duel.device)
        except PoolError as error:
            if not self.slots[slot]:
                raise
            self.alert(f"{error}; {self.slots[slot]} plays on in its place")
            return
        self.duel.load_slot(slot, weights)
        self.slots[slot] = name

    def _shares(self, plan: Plan) -> np.ndarray:
        """Share of all matches per opponent index: the bots, then the slots in equal parts."""
        bots = [plan.scripted_share * plan.bots.get(name, 0.0) for name in BOTS]
        return np.array(bots + [(1.0 - plan.scripted_share) / self.duel.slots] * self.duel.slots)

    def _by_name(self, tally: Tally) -> Results:
        """The learner's (wins, draws, losses) against everyone it finished a match with."""
        results: Results = {}
        for opponent, name in enumerate([*BOTS, *self.slots]):
            wins, draws, losses = tally.result(opponent)
            if wins + draws + losses > 0:
                before = results.get(name, (0, 0, 0))
                results[name] = (before[0] + wins, before[1] + draws, before[2] + losses)
        return results


def keep_places(drawn: list[str], slots: list[str]) -> list[str]:
    """Order `drawn` so that every name that is in `slots` already stays where it is."""
    left = list(drawn)
    placed = [""] * len(slots)
    for slot, name in enumerate(slots):
        if name in left:
            left.remove(name)
            placed[slot] = name
    return [name or left.pop(0) for name in placed]
