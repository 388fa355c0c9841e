"""Games of one plan on a batch: their players, open prompts and running games."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import numpy as np
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.rewards.final_score import final_scores
from sparring.envs.diplomacy.rewards.reward_rules import RewardRules
from sparring.envs.diplomacy.rewards.scoring import count_centres
from sparring.envs.diplomacy.text.order_requests import pending_requests, seat_bots
from sparring.envs.diplomacy.text.prompts import PromptRules
from sparring.envs.diplomacy.text_games.fork import Masters, forked
from sparring.envs.text import GameEnding, GroupFacts, GroupPlan, Prompt, RolloutPlan, mix

PHASES = len(codes.PHASES)
FEW_CENTRES, SOME_CENTRES = 3, 5
EARLY_YEAR, MIDDLE_YEAR = 1902, 1905


def stratum(centres: int, year: int) -> tuple[int, int]:
    """Return the key for comparing powers of different games: ranges of centres and of years."""
    size = (centres > FEW_CENTRES) + (centres > SOME_CENTRES)  # up to 3, 4 to 5, from 6
    return size, (year > EARLY_YEAR) + (year > MIDDLE_YEAR)  # up to 1902, 1903 to 1905, from 1906


class ForkedGames:
    """Games of one plan, with their players and the running ones."""

    def __init__(
        self, batch: DiplomacyBatch, masters: Masters, plan: RolloutPlan, *, count_fork_year: bool = False
    ) -> None:
        self.batch, self.plan, self.games = batch, plan, batch.num_games
        self.failed: dict[int, str] = {}
        start = forked(masters, plan.samples)
        batch.load(start.positions)
        self.influence = start.influence
        self._players = [self.group(game).players for game in range(self.games)]
        seat_bots(batch, self._players)
        batch.game_id.copy_(torch.tensor([mix(self.group(game).seed, game) for game in range(self.games)]))
        self._begun = batch.year.cpu().numpy().astype(int)
        self._season = batch.phase.cpu().numpy().astype(int)
        # A year in progress at the fork is completed and does not count, unless it is the first of the horizon.
        begun_late = (self._season > codes.SPRING) & (not count_fork_year)
        self._until = self._begun + begun_late + np.array([self.group(game).years for game in range(self.games)])
        self._stop_those_over()
        for game, why in start.failed.items():
            self.fail({game}, why)

    @property
    def playing(self) -> np.ndarray:
        """Running games, bool [games]."""
        return self.batch.done.cpu().numpy() == 0

    def group(self, game: int) -> GroupPlan:
        """Return the plan of a game's group."""
        return self.plan.groups[game // self.plan.samples]

    def prompts(self, rules: PromptRules, phase: int) -> list[Prompt]:
        """Return all prompts of this phase; those of heroes have the facts for grouping."""

        def draws(game: int, power: int) -> int:
            return mix(self.group(game).seed, game, phase, power)

        found = pending_requests(self.batch, self._players, rules, draws)
        return [self._known(one) if one.seat in self.group(one.game).heroes else one for one in found]

    def process(self, orders: torch.Tensor, phase: int) -> None:
        """Process the models' `orders` [games, 75] and those of the bots, and stop finished games."""
        self.batch.orders.copy_(orders)
        self.batch.draw_orders(phase)
        self.batch.process()
        self.batch.check()
        self._stop_those_over()

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""
        for game in games:
            self.failed.setdefault(game, why)
            self.batch.done[game] = 1

    def endings(self, rules: RewardRules) -> list[GameEnding]:
        """Return the endings of the games that did not fail, with final scores by `rules`."""
        centres, finals = count_centres(self.batch.owner).tolist(), final_scores(self.batch.state, rules).tolist()
        return [
            GameEnding(self.group(game).players, tuple(centres[game]), game // self.plan.samples, tuple(finals[game]))
            for game in range(self.games)
            if game not in self.failed
        ]

    def years(self) -> float:
        """Return the years played, summed over all games."""
        return float((self.batch.year.cpu().numpy() - self._begun).sum())

    def _known(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the facts known before the move, for grouping."""
        game, row = prompt.game, prompt.position
        year = int(row["year"])
        facts = GroupFacts(
            fork=game // self.plan.samples,
            seat=prompt.seat,
            step=(year - int(self._begun[game])) * PHASES + int(row["phase"]) - int(self._season[game]),
            stratum=stratum(int((row["owner"] == prompt.seat).sum()), year),
            position=crc32(b"".join(row[name].tobytes() for name in ("units", "dislodged", "origin", "owner"))),
        )
        return replace(prompt, facts=facts)

    def _stop_those_over(self) -> None:
        over = self.batch.year.cpu().numpy() >= self._until
        self.batch.done.copy_(torch.from_numpy(over | ~self.playing))
