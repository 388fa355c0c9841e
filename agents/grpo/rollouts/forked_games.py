"""The games of one plan on a batch: who plays what in which, who is to be asked, and which of them go on."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import torch

from sparring.agents.grpo.objective.groups import BeforeMove
from sparring.agents.grpo.rollouts.fork import Masters, forked
from sparring.agents.grpo.rollouts.plan import GroupPlan, RolloutPlan
from sparring.agents.llm.order_requests import OrderRequest, mix, pending_requests, seat_bots
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.rewards.scoring import count_centres
from sparring.envs.diplomacy.text.prompts import PromptRules

PHASES = len(codes.PHASES)


@dataclass(frozen=True)
class Ending:
    """How a game ended or was cut off: players and centres by power, and whether it counts."""

    players: tuple[str, ...]
    centres: tuple[int, ...]
    group: int


class ForkedGames:
    """The games of one plan: who plays what in which, and which of them go on."""

    def __init__(self, batch: DiplomacyBatch, masters: Masters, plan: RolloutPlan) -> None:
        self.batch, self.plan, self.games = batch, plan, batch.num_games
        self.failed: dict[int, str] = {}
        begun = forked(masters, plan.samples)
        batch.load(begun.positions)
        self.influence = begun.influence
        self._players = [self.group(game).players for game in range(self.games)]
        seat_bots(batch, self._players)
        batch.game_id.copy_(torch.tensor([mix(self.group(game).seed, game) for game in range(self.games)]))
        self._begun = batch.year.cpu().numpy().astype(int)
        self._season = batch.phase.cpu().numpy().astype(int)
        # A year that was begun before the fork is played to its end and does not count.
        begun_late = self._season > codes.SPRING
        self._until = self._begun + begun_late + np.array([self.group(game).years for game in range(self.games)])
        self._stop_those_over()
        for game, why in begun.failed.items():
            self.fail({game}, why)

    @property
    def playing(self) -> np.ndarray:
        """Which games go on, bool [games]."""
        return self.batch.done.cpu().numpy() == 0

    def group(self, game: int) -> GroupPlan:
        """The plan of a game's group."""
        return self.plan.groups[game // self.plan.samples]

    def pending_requests(self, rules: PromptRules) -> list[OrderRequest]:
        """Everybody to be asked in this phase."""
        return pending_requests(self.batch, self._players, rules)

    def orders(self) -> np.ndarray:
        """Empty orders int32 [games, 75]."""
        return np.zeros((self.games, codes.NUM_PROVINCES), dtype=np.int32)

    def seed(self, phase: int, seat: OrderRequest) -> int:
        """What a seat's draws begin from."""
        return mix(self.group(seat.game).seed, seat.game, phase, seat.power)

    def known(self, seat: OrderRequest) -> BeforeMove:
        """What was known before the move, for its group."""
        row = {name: tensor[seat.game].cpu().numpy() for name, tensor in self.batch.state.items()}
        year = int(row["year"])
        return BeforeMove(
            fork=seat.game // self.plan.samples,
            power=seat.power,
            step=(year - int(self._begun[seat.game])) * PHASES + int(row["phase"]) - int(self._season[seat.game]),
            centres=int((row["owner"] == seat.power).sum()),
            year=year,
            position=crc32(b"".join(row[name].tobytes() for name in ("units", "dislodged", "origin", "owner"))),
        )

    def write(self, orders: np.ndarray) -> None:
        """Hand the models' orders in; the bots' are drawn over nobody else's."""
        self.batch.orders.copy_(torch.from_numpy(orders))

    def process(self, phase: int) -> None:
        """Let the bots write, carry everything out, and stop the games that are over."""
        self.batch.draw_orders(phase)
        self.batch.process()
        self.batch.check()
        self._stop_those_over()

    def fail(self, games: set[int], why: str) -> None:
        """Give games up."""
        for game in games:
            self.failed.setdefault(game, why)
            self.batch.done[game] = 1

    def endings(self) -> list[Ending]:
        """How the games that did not fail ended."""
        centres = count_centres(self.batch.owner).tolist()
        return [
            Ending(self.group(game).players, tuple(centres[game]), game // self.plan.samples)
            for game in range(self.games)
            if game not in self.failed
        ]

    def years(self) -> float:
        """Years played in all games together."""
        return float((self.batch.year.cpu().numpy() - self._begun).sum())

    def _stop_those_over(self) -> None:
        over = self.batch.year.cpu().numpy() >= self._until
        self.batch.done.copy_(torch.from_numpy(over | ~self.playing))
