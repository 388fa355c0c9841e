"""Self-play of a network with styles: each against the equilibrium mixture of those below it, bots and old snapshots.

A slot holds one style of one snapshot, as a plain network. The first K - 1 slots have the styles 0 to K - 2 of the
newest snapshot, as the opponents of higher styles. The rest are drawn from the pool, which also has exploiters; there
the style is drawn by the snapshot's own mixture. Style 0 meets bots and the pool only. Every match of the run has a
style of the learner and an opponent, dealt together in exact counts.

In the league a snapshot is its mixture, and the lower styles are players of their own, `style_0` and on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.play.learner_env import MatchTally
from sparring.agents.policies.networks import PolicyNetwork, load_snapshot
from sparring.agents.policies.styles import MIXTURE, style_weights
from sparring.agents.ppo.self_play import SelfPlay
from sparring.curriculum.league.league import League, new_league
from sparring.curriculum.opponents import deal
from sparring.curriculum.schedule import TrainingPlan
from sparring.curriculum.styles import StyleGame


class Population(SelfPlay):
    """See `SelfPlay`; `game` has the styles' results. The environment deals styles with opponents."""

    def __init__(self, env: Any, *rest: Any, **options: Any) -> None:
        self.game = StyleGame(env.style_count)
        self.below = env.style_count - 1
        """Slots of lower styles."""
        self._below_of = ""  # the snapshot whose styles they have
        super().__init__(env, *rest, **options)

    def deal(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Give every match of the run a style and an opponent under `plan`, and `network` its mixture."""
        network.get_buffer(MIXTURE).copy_(torch.from_numpy(self.game.mixture))
        if plan.scripted_share < 1.0:
            self._refill(plan, network)
        self.assign(self._pair_shares(plan))

    def assign(self, pairs: np.ndarray) -> None:
        """Deal the matches by the shares of styles and opponents [K, O]."""
        count = pairs.shape[1]
        dealt = deal(pairs.ravel(), len(self.env.opponents), self.env.styles * count + self.env.opponents)
        self.env.assign(dealt % count, dealt // count)

    def record(self, tally: MatchTally) -> None:
        """Add an update's results to the league and to the styles' game, and solve that."""
        super().record(tally)
        for other in range(self.below):
            for style in range(other + 1, self.env.style_count):
                result = tally.by_style[style, len(self.env.bots) + other]
                if result.sum():
                    self.game.record(style, other, result)
        self.game.solve(self._rng)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the styles."""
        return super().metrics() | self.game.metrics()

    def state_dict(self) -> dict[str, Any]:
        """See `SelfPlay`."""
        return super().state_dict() | {"styles": self.game.state_dict(), "below": self._below_of}

    def load_state_dict(self, state: dict[str, Any], weights: Sequence[Mapping[str, Tensor]] = ()) -> None:
        """See `SelfPlay`."""
        super().load_state_dict(state, weights)
        self.game.load_state_dict(state["styles"])
        self._below_of = state["below"]

    def reset(self) -> None:
        """See `SelfPlay`."""
        super().reset()
        self.game, self._below_of = StyleGame(self.env.style_count), ""

    def _new_league(self) -> League:
        return new_league(self.env.bots, players=[f"style_{style}" for style in range(self.below)])

    def _draw(self, update: int) -> None:
        """Load the newest snapshot's lower styles, and draw the other slots from the pool."""
        newest = self.pool.newest
        if newest and (newest != self._below_of or not all(self.slots[: self.below])):
            weights_of = load_snapshot(self.pool, newest, self.env.device)
            for style in range(self.below):
                self.env.load_slot(style, style_weights(weights_of, style))
                self.slots[style] = f"style_{style}"
            self._below_of = newest
        self._draw_slots(range(self.below, self.env.slots))
        self._drawn_at = update

    def _draw_names(self, count: int) -> list[str]:
        """Draw from snapshots, and half from exploiters where there are any, each by how the learner does."""
        exploiters = self.pool.exploiters
        snapshots = [snapshot.name for snapshot in self.pool.snapshots if not snapshot.exploiter]
        part = min(count // 2, len(exploiters))
        return [*self._draw_among(exploiters, part), *self._draw_among(snapshots, count - part)]

    def _playing(self, snapshot: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of a style that is drawn by the snapshot's mixture."""
        mixture = snapshot[MIXTURE].double().cpu().numpy()
        return style_weights(snapshot, int(self._rng.choice(len(mixture), p=mixture / mixture.sum())))

    def _pair_shares(self, plan: TrainingPlan) -> np.ndarray:
        """Return the share of all matches for every style against every opponent, [K, O]."""
        styles, first, rest = self.env.style_count, len(self.env.bots), 1.0 - plan.scripted_share
        pairs = np.zeros((styles, first + self.env.slots))
        pairs[:, :first] = [plan.scripted_share * plan.bots.get(name, 0.0) for name in self.env.bots]
        for style in range(styles):
            below = rest * self.config.below_share if style else 0.0
            pairs[style, first : first + style] = below * self.game.opponents(style)
            pairs[style, first + self.below :] = (rest - below) / (self.env.slots - self.below)
        return pairs / styles
