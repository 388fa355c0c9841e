"""Self-play of a network with styles: each against the equilibrium mixture of lower styles, bots and old snapshots.

A slot holds one style of a network, as a plain network. The first K - 1 slots have the learner's current styles, except
the highest, as opponents of higher styles. Older versions of them would make higher styles seem better. The rest are
drawn from the pool, which also has exploiters; there the style is drawn by the snapshot's own mixture. Style 0 meets
bots and the pool only. Every match of the run has a style of the learner and an opponent, dealt in exact counts.

In the league a snapshot is its mixture, and the lower styles are players of their own, `style_0` and on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.play.learner_env import LearnerEnv, MatchTally
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.styles import MIXTURE, style_weights
from sparring.agents.ppo.self_play import SelfPlay
from sparring.curriculum.league.league import League, enter_checkpoint, new_league
from sparring.curriculum.opponents import deal
from sparring.curriculum.pool import EXPLOITER
from sparring.curriculum.population.style_game import StyleGame
from sparring.curriculum.schedule import TrainingPlan

BELOW_SHARE = 0.6
"""Part of a style's self-play against the equilibrium mixture of the styles below it; the rest is against the pool."""


class Population(SelfPlay):
    """See `SelfPlay`; `game` has the styles' results. The environment deals styles with opponents."""

    env: LearnerEnv

    def __init__(self, env: LearnerEnv, *rest: Any, **options: Any) -> None:
        self.game = StyleGame(env.style_count)
        self.below = env.style_count - 1
        """Slots of lower styles."""
        self._target: list[float] = []  # probabilities of the styles that an exploiter meets
        self.exploiting_style = 0
        """Style in which an exploiter plays."""
        super().__init__(env, *rest, **options)

    def deal(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Give every match of the run a style and an opponent under `plan`, and `network` its mixture."""
        if self._target:
            pairs = np.zeros((self.env.style_count, len(self.env.bots) + self.env.slots))
            first = len(self.env.bots)
            pairs[self.exploiting_style, first : first + self.env.style_count] = self._target
            self.assign(pairs)
            return
        network.get_buffer(MIXTURE).copy_(torch.from_numpy(self.game.mixture))
        if plan.scripted_share < 1.0:
            self._load_below(network)
            self._refill(plan, network)
        self.assign(self._pair_shares(plan))

    def assign(self, pairs: np.ndarray) -> None:
        """Deal the matches by the shares of styles and opponents [K, O]."""
        count = pairs.shape[1]
        dealt = deal(pairs.ravel(), len(self.env.opponents), self.env.styles * count + self.env.opponents)
        self.env.assign(dealt % count, dealt // count)

    def record(self, tally: MatchTally) -> None:
        """Add an update's results to the league and to the styles' game."""
        super().record(tally)
        for other in range(self.below):
            for style in range(other + 1, self.env.style_count):
                result = tally.by_style[style, len(self.env.bots) + other]
                if result.sum():
                    self.game.record(style, other, result)

    def begin_exploiter(self, weights: Mapping[str, Tensor], style: int) -> None:
        """Deal all matches to `style` of the learner and the mixture of these `weights`, until `end_exploiter`."""
        self._target, self.exploiting_style = mixture_of(weights).tolist(), style
        for number in range(self.env.style_count):
            self.env.load_slot(number, style_weights(weights, number))
        self.slots = [""] * self.env.slots  # the next deal fills and restarts all

    def end_exploiter(self, update: int, weights: Mapping[str, Tensor]) -> None:
        """Add the exploiter to pool and league, where it stays, as a policy of its style alone."""
        alone = torch.zeros(self.env.style_count, device=weights[MIXTURE].device)
        alone[self.exploiting_style] = 1.0
        self._target = []
        try:
            self.pool.add(update, {**weights, MIXTURE: alone}, EXPLOITER)
        except OSError as error:
            self.alert(f"the exploiter was not saved ({error.strerror}); training continues without it")
            return
        name = self.pool.exploiters[-1]
        path = self.pool.path(name).relative_to(self.file.folder)
        self.league = enter_checkpoint(self.league, step=update, path=path.as_posix(), name=name)

    def exploiter_metrics(self, tally: MatchTally) -> dict[str, float]:
        """Return the metrics of an exploiter's update; empty for one of the learner."""
        if not self._target:
            return {}
        wins, draws, games = (float(counts.sum()) for counts in (tally.wins, tally.draws, tally.games))
        score = {"score": (wins + 0.5 * draws) / games, "decided": 1.0 - draws / games} if games else {}
        return {f"exploiter/{name}": value for name, value in ({"matches": games} | score).items()}

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the styles."""
        return super().metrics() | self.game.metrics()

    def state_dict(self) -> dict[str, Any]:
        """See `SelfPlay`."""
        exploiter = {"exploited": self._target, "exploiting_style": self.exploiting_style}
        return super().state_dict() | {"styles": self.game.state_dict()} | exploiter

    def load_state_dict(self, state: dict[str, Any], weights: Sequence[Mapping[str, Tensor]] = ()) -> None:
        """See `SelfPlay`."""
        super().load_state_dict(state, weights)
        self.game.load_state_dict(state["styles"])
        self._target, self.exploiting_style = state["exploited"], state["exploiting_style"]

    def reset(self) -> None:
        """See `SelfPlay`."""
        super().reset()
        self.game, self._target = StyleGame(self.env.style_count), []

    def _new_league(self) -> League:
        return new_league(self.env.bots, players=[f"style_{style}" for style in range(self.below)])

    def _load_below(self, network: PolicyNetwork) -> None:
        """Load the learner's lower styles; their matches go on, unless others were in the slots."""
        weights = network.state_dict()
        for style in range(self.below):
            self.env.load_slot(style, style_weights(weights, style), restart=not self.slots[style])
            self.slots[style] = f"style_{style}"

    def _draw(self, update: int) -> None:
        """Solve the styles' game, and draw the other slots from the pool."""
        self.game.solve(self._rng)
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
        mixture = mixture_of(snapshot)
        return style_weights(snapshot, int(self._rng.choice(len(mixture), p=mixture)))

    def _pair_shares(self, plan: TrainingPlan) -> np.ndarray:
        """Return the share of all matches for every style against every opponent, [K, O]."""
        styles, first, rest = self.env.style_count, len(self.env.bots), 1.0 - plan.scripted_share
        pairs = np.zeros((styles, first + self.env.slots))
        pairs[:, :first] = [plan.scripted_share * plan.bots.get(name, 0.0) for name in self.env.bots]
        for style in range(styles):
            below = rest * BELOW_SHARE if style else 0.0
            pairs[style, first : first + style] = below * self.game.opponents(style)
            pairs[style, first + self.below :] = (rest - below) / (self.env.slots - self.below)
        return pairs / styles


def mixture_of(weights: Mapping[str, Tensor]) -> np.ndarray:
    """Return the probabilities of the styles in a network's `weights`, float64 [K]; they sum to 1."""
    mixture = weights[MIXTURE].double().cpu().numpy()
    normalized: np.ndarray = mixture / mixture.sum()
    return normalized
