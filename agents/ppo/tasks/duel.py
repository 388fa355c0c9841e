"""A game of two seats as a task: bots and snapshots assigned by the plan, a league, and evaluation against the bots.

A game's task derives from `DuelTask` and says what is its own: the batch, who plays, and the conditions of evaluation.
With several processes, training states are split and joined by matches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes, Shard
from sparring.agents.opponents.training import open_opponents
from sparring.agents.play.duel_matches import DuelSettings, play
from sparring.agents.play.learner_env import LearnerEnv, MatchTally
from sparring.agents.policies.networks import PolicyNetwork, shape_for
from sparring.agents.policies.policy import Policy
from sparring.agents.policies.styles import plain_shape
from sparring.agents.ppo import self_play
from sparring.agents.ppo.evaluation import BotEvaluation, MatchFilms
from sparring.agents.ppo.tasks.league_task import LeagueTask
from sparring.agents.ppo.tasks.task import Film
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.schema import NamedOpponentsRunConfig
from sparring.envs.batched import SeatView
from sparring.envs.game import load


class DuelTask(LeagueTask):
    """See `LeagueTask`; `batch` is a part of it."""

    matches_key, randomizes = "duel", True
    batch_kind: ClassVar[Callable[..., Any]]
    """Class of the game's batches."""
    bots: Sequence[str]
    """The game's bots by id."""
    per_match: tuple[str, ...]
    """Tensors in a batch's `state_dict` with a row per match; its `arrays`, flat and in bytes, have one too."""
    limit_ends = False
    """As in `LearnerEnv`."""

    def __init__(
        self,
        config: NamedOpponentsRunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        super().__init__(config, seeds, processes)
        share = processes.share(config.env.num_envs)
        bar = config.logger.progress and processes.first
        with said_if_long(COMPILING, enabled=bar), processes.one_before_the_others():  # all use the compiled kernels
            self.batch = self.make_batch(device, threads, share)
            view = self.make_view()
        contract = self.batch.contract
        self._shape = shape_for(contract, config.network)
        self.opponents = open_opponents(config, lambda text: self.open_policy(text, device))
        self.env = self.league_env = LearnerEnv(
            self.batch,
            bots=tuple(self.bots),
            players=self.opponents.policies,
            slots=config.self_play.slots,
            network_shape=plain_shape(self._shape),
            styles=config.network.styles,
            seed=seeds["opponents"],
            view=view,
            share=share,
            contract=self.contract,
            limit_ends=self.limit_ends,
        )
        self._setting = self.conditions(device, threads)

    @property
    def contract(self) -> dict[str, Any]:
        """What policies of the run state, by default what the batch does."""
        contract: dict[str, Any] = self.batch.contract
        return contract

    def make_batch(self, device: torch.device, threads: int, share: Shard) -> Any:
        """Create this process's share of the matches of the run."""
        env: Any = self.config.env
        alike = {"device": str(device), "threads": threads, "seed": self._seeds["env"], "gamma": self.config.ppo.gamma}
        options = self.batch_options() | {"action_repeat": env.action_repeat, "reward": env.reward}
        batch = self.batch_kind(share.count, **alike, **options)
        if not share.whole:
            batch.match_id += share.first
            batch.reset(self._seeds["env"])
        return batch

    def batch_options(self) -> dict[str, Any]:
        """Return the options of a batch that only this game has."""
        return {}

    def make_view(self) -> SeatView | None:
        """Return the symmetry in which policies play, if any."""
        return None

    @abstractmethod
    def open_policy(self, text: str, device: torch.device) -> Any:
        """Return the opponent that a run names, if it is not a bot."""

    @abstractmethod
    def conditions(self, device: torch.device, threads: int) -> DuelSettings:
        """Return the conditions of evaluation matches: as in training, in the default physics."""

    @property
    def seats(self) -> int:
        """Matches in a row that have the same opponent, where more than two; see `SelfPlay`."""
        return 2

    def league_options(self) -> dict[str, Any]:
        """See `LeagueTask`; a network with styles has a population."""
        kind = load("sparring.agents.population.population:Population") if self.config.network.styles else None
        return {"duel": network_duel(self._setting, self.env.contract), "seats": self.seats, "kind": kind}

    def regimes(self) -> Mapping[str, np.ndarray]:
        """Return the physics of the named regimes."""
        return {}

    def films(self, film: Film) -> MatchFilms[Any] | None:
        """Return what makes videos of evaluation matches."""
        return None

    def open_evaluation(self, alert: Callable[[str], None]) -> BotEvaluation:
        """See `LeagueTask`."""
        return BotEvaluation(
            self.config.evaluation,
            self._setting,
            self.regimes(),
            alert,
            seed=self._seeds["checks"],
            players=self.opponents.policies,
            films=self.films(self.film),
        )

    def divided(self, tally: MatchTally) -> tuple[MatchTally, dict[str, float]]:
        """Return all results, and the number of invalid actions."""
        return tally, {"guard/invalid_actions": float(self.processes.add_up(self.batch.invalid_actions.sum()))}

    def opponent_share(self) -> float | None:
        """Return the share of playing time that named opponents take, outside the kernels; None without any."""
        if not self.opponents.policies:
            return None
        seats = self.env.opponent_seats
        seconds, seats.player_seconds = seats.player_seconds, 0.0
        return seconds / max(seconds + self.env.simulator_seconds, 1e-9)

    def matches_state(self) -> dict[str, Any]:
        """See `LeagueTask`."""
        return join(self.env.state_dict(), self.processes, self.per_match)

    def load_matches(self, state: Mapping[str, Any]) -> None:
        """See `LeagueTask`."""
        self.env.load_state_dict(cut(state, self.env.share, self.per_match))


def network_duel(setting: DuelSettings, contract: Mapping[str, Any]) -> self_play.Duel:
    """Return the games of a promotion between networks of `contract`, under the conditions of `setting`."""

    def duel(learner: PolicyNetwork, snapshot: PolicyNetwork, games: int, seed: int, ranges: np.ndarray) -> np.ndarray:
        named = {"the learner": learner, "the newest snapshot": snapshot}
        players = [Policy(network, contract, name=name, deterministic=False) for name, network in named.items()]
        return play(*players, games=games, seed=seed, setting=setting.under(ranges)).outcome

    return duel


def join(state: Mapping[str, Any], processes: Processes, per_match: Sequence[str]) -> dict[str, Any]:
    """Join the `LearnerEnv.state_dict` of each process into one of all matches."""
    batch = dict(state["batch"])
    batch["arrays"] = {name: processes.gather(rows) for name, rows in batch["arrays"].items()}
    batch |= {name: processes.gather(batch[name]) for name in per_match}
    quarantined = processes.add_up(state["quarantined"].clone())
    return {**state, "batch": batch, "return": processes.gather(state["return"]), "quarantined": quarantined}


def cut(state: Mapping[str, Any], share: Shard, per_match: Sequence[str]) -> dict[str, Any]:
    """Return the part of a `LearnerEnv.state_dict` of all matches that belongs to `share`."""
    if share.whole:
        return dict(state)
    batch = dict(state["batch"])
    batch["arrays"] = {name: cut_rows(rows, share) for name, rows in batch["arrays"].items()}
    batch |= {name: cut_rows(batch[name], share) for name in per_match}
    once = state["quarantined"] if share.first == 0 else torch.zeros_like(state["quarantined"])
    return {**state, "batch": batch, "return": cut_rows(state["return"], share), "quarantined": once}


def cut_rows(joint: Tensor, share: Shard) -> Tensor:
    """Return the rows of the matches of `share` among all rows, any number for each."""
    width = len(joint) // share.total
    return joint[share.first * width : (share.first + share.count) * width]
