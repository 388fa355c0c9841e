"""Games of one plan on a batch: their start positions, players, open prompts and running games.

In each group's master game one player, a bot or the base model, has all seats for the number of phases in its plan, or
the players of the game have their own; every game of the group is a copy of the position that is reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from zlib import crc32

import numpy as np
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.prompts.requests import pending_requests, seat_bots, written_orders
from sparring.envs.diplomacy.rewards.sample_rewards import RewardRules, final_scores
from sparring.envs.diplomacy.rewards.scoring import count_centres, first_influence, influence_after
from sparring.envs.text import DecidePrompts, GameEnding, GroupFacts, GroupPlan, Prompt, RolloutPlan, mix

PHASES = len(codes.PHASES)
FEW_CENTRES, SOME_CENTRES = 3, 5
EARLY_YEAR, MIDDLE_YEAR = 1902, 1905
OWN_PLAYERS = "players"
"""Name of a warm-up by the players of the game."""
BEFORE_THE_FORK = 1
"""Separates a model's random draws before the fork from those after it."""


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

        prompts = pending_requests(self.batch, self._players, rules, draws)
        return [self._known(one) if one.seat in self.group(one.game).heroes else one for one in prompts]

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


@dataclass
class Masters:
    """Snapshot of positions [G, ...] of the groups, with the reasons of those that failed.

    `influence` [G, 75] is the influence on provinces from the games up to the fork (`scoring.py`).
    """

    positions: dict[str, torch.Tensor]
    influence: torch.Tensor
    failed: dict[int, str] = field(default_factory=dict)


def warmed_up(
    masters: DiplomacyBatch, groups: Sequence[GroupPlan], *, player: str, rules: PromptRules, decide: DecidePrompts
) -> Masters:
    """Play the groups' games to their forks; `masters` has a game for each and is overwritten.

    `player` is a bot, a model or `OWN_PLAYERS`; `decide` collects the models' answers to prompts of these `rules`. No
    game is played beyond the start of its last year. A game that ends earlier stays in the position before its end.
    """
    masters.load(opening())
    players: list[Sequence[str]] = [
        group.players if player == OWN_PLAYERS else [player] * codes.NUM_POWERS for group in groups
    ]
    seat_bots(masters, players)
    masters.game_id.copy_(torch.tensor([group.seed for group in groups]))
    phases = torch.tensor([group.warmup_phases for group in groups], device=masters.device)
    ended = torch.zeros(len(groups), dtype=torch.bool, device=masters.device)
    influence = first_influence(masters.units)
    failed: dict[int, str] = {}

    def fail(games: set[int], why: str) -> None:
        failed.update(dict.fromkeys(games, why))

    for phase in range(int(phases.max())):
        waiting = ended | (phases <= phase) | (masters.year >= masters.last_year)
        masters.done.copy_(waiting)
        before = masters.snapshot()
        draws = partial(_draws, groups, phase)
        prompts = [one for one in pending_requests(masters, players, rules, draws) if one.game not in failed]
        masters.orders.copy_(written_orders(masters, decide(prompts, fail)))
        masters.draw_orders(phase)
        masters.process()
        over = ~waiting & (masters.done > 0)
        for name, values in before.items():
            masters.state[name][over] = values[over]
        influence, ended = influence_after(influence, before, masters.units), ended | over
    masters.check()
    masters.done.zero_()
    return Masters(masters.snapshot(), influence, failed)


def _draws(groups: Sequence[GroupPlan], phase: int, game: int, power: int) -> int:
    """Return the seed of a power's draws before the fork."""
    return mix(groups[game].seed, game, phase, power, BEFORE_THE_FORK)


def forked(masters: Masters, samples: int) -> Masters:
    """Return all rows `samples` times [G x samples, ...], with the forks of a group in sequence."""

    def many(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(samples, dim=0)

    failed = {group * samples + fork: why for group, why in masters.failed.items() for fork in range(samples)}
    return Masters({name: many(values) for name, values in masters.positions.items()}, many(masters.influence), failed)
