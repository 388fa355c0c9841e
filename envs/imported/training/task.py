"""A PettingZoo or OpenSpiel game as a task: self-play in all seats, scheduled bots and a pool, and a league.

Opponents are assigned as in the dogfight. With `self_play.both_seats`, most self-play matches the policy against itself
and all seats learn; other matches, including those against bots, have one learning seat. Exploitability is exact if the
game can be traversed. With several processes each plays its share of the matches, and the first keeps the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes, Shard
from sparring.agents.opponents.training import named_texts, open_opponents
from sparring.agents.play.exploitability import policy_table
from sparring.agents.play.learner_env import LearnerEnv, MatchTally
from sparring.agents.play.seat_matches import SeatPlayer, SeatResults, play
from sparring.agents.play.turn_seats import TurnSeats
from sparring.agents.policies.encoders import FLAT, picture_text
from sparring.agents.policies.networks import PolicyNetwork, shape_for
from sparring.agents.ppo.tasks.duel import cut_rows
from sparring.agents.ppo.tasks.league_task import LeagueTask
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.schema import RANDOM
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.game import load
from sparring.envs.imported.batch import MatchBatch, make_batch
from sparring.envs.imported.config import ImportedRunConfig
from sparring.envs.imported.equality import chosen
from sparring.envs.imported.match import make_match
from sparring.envs.imported.openspiel import is_constant_sum
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.states import check_copies
from sparring.envs.imported.training.opponents import NetworkSeats, RandomSeats, open_seat_player
from sparring.envs.imported.tree import GameTree, game_tree

GAMES_AT_ONCE = 32
STATES = "sparring.envs.imported.evaluation.players.network_states:network_states"
GAIN = "sparring.eval.exploitability.sampling:gain_metrics"
"""The game with copies of states, and the attack by sampling in it."""


class ImportedTask(LeagueTask):
    """See `LeagueTask`."""

    section, matches_key, lowest = "imported", "matches", -1e30
    config: ImportedRunConfig

    def __init__(
        self,
        config: ImportedRunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        super().__init__(config, seeds, processes)
        share = processes.share(config.env.num_envs)
        self._twin, told = chosen(config.env, named_texts(config))
        batch = self._make_batch(share.count, seeds["env"], first=share.first)
        contract = batch.contract
        self._seat = _learning_seat(config, len(contract["roles"]))
        shape = shape_for(contract, config.network)

        def opened(text: str) -> SeatPlayer:
            return open_seat_player(text, contract, device, seed=seeds["opponents"])

        try:
            self.opponents = open_opponents(config, opened)
            self._players = {RANDOM: RandomSeats(contract, seed=seeds["opponents"]), **self.opponents.policies}
            self._shape = shape
            self.env = self.league_env = LearnerEnv(
                batch,
                players=self._players,
                seed=seeds["opponents"],
                slots=config.self_play.slots,
                network_shape=shape,
                device=device,
                share=share,
                processes=processes,
                seating=TurnSeats,
                seat=self._seat,
            )
            self.env.notes += [_about(contract, shape.get("encoder", FLAT)), *([told] if told else []), *batch.remarks]
        except BaseException:
            batch.close()
            raise
        self._tree = self._traversed() if processes.first else None
        self._attack = self._opened_attack() if config.evaluation.exploit_every and processes.first else None
        if config.env.package == "openspiel" and not is_constant_sum(config.env.id, config.env.kwargs):
            self.env.notes.append(f"general-sum: {config.env.id} has a reward sum that varies from match to match")

    def _make_batch(self, num_envs: int, seed: int, first: int = 0) -> MatchBatch:
        env = self.config.env
        return make_batch(
            env.package,
            env.id,
            env.kwargs,
            num_envs,
            seed,
            env.workers,
            first=first,
            observation=env.observation,
            outcome=env.outcome,
            roles=env.roles,
            twin=self._twin,
        )

    def _traversed(self) -> GameTree | None:
        """Return the tree of a game if its exploitability is measured exactly, else None."""
        env = self.config.env
        evaluation = self.config.evaluation
        if env.package != "openspiel" or not (evaluation.every or evaluation.exploit_every):
            return None
        try:
            return game_tree(env.id, env.kwargs, env.observation, env.roles)
        except InputError as error:
            self.env.notes.append(f"without exact exploitability: {error}")
            return None

    def _opened_attack(self) -> Callable[[PolicyNetwork], dict[str, float]]:
        """Return the attack that measures a network. Raises `InputError` if states cannot be copied."""
        env, label = self.config.env, f"evaluation.exploit_every={self.config.evaluation.exploit_every}"
        match: Any = make_match(env.package, env.id, env.kwargs, observation=env.observation)
        encoder = SeatRows(env.package, env.id, match, env.kwargs, roles=env.roles)
        check_copies(match.game, label)
        states, metrics = load(STATES), load(GAIN)
        moves = self.config.evaluation.exploit_moves
        return lambda network: metrics(states(match, encoder, network), moves)

    def league_options(self) -> dict[str, Any]:
        """See `LeagueTask`."""
        return {"duel": self._duel, "seats": self.env.seats}

    def divided(self, tally: MatchTally) -> tuple[MatchTally, dict[str, float]]:
        """Return the results against opponents, and metrics of the matches of the policy against itself."""
        itself = _rows(tally, slice(self.env.itself, None))
        metrics: dict[str, float] = {}
        if games := itself.games.sum():
            metrics["rollout/itself/matches"] = float(games)
            metrics["rollout/itself/length"] = float(itself.stats["length"].sum() / games)
            metrics["rollout/itself/draw_rate"] = float(itself.draws.sum() / games)
        return _rows(tally, slice(None, self.env.itself)), metrics

    def evaluate(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        """Play matches of the deterministic policy against every bot met so far, and measure exploitability.

        The attack by sampling has its own random numbers, and does not choose the best policy.
        """
        metrics, improved = super().evaluate(plan, network)
        if self._attack is not None and (plan.update + 1) % self.config.evaluation.exploit_every == 0:
            metrics |= self._attack(network)
            if self._tree is not None:
                metrics["exploit/exact"] = self._tree.exploitability(policy_table(network, self._tree))
        return metrics, improved

    def measured(self, plan: TrainingPlan, network: PolicyNetwork, seed: int) -> tuple[dict[str, float], float]:
        """Play the bots; the best policy is the least exploitable, where that is known, else the one that wins most."""
        learner = NetworkSeats(network, self.env.contract, name="the learner", seed=seed)
        metrics: dict[str, float] = {}
        for bot in plan.bots:
            results = self._play(learner, self._players[bot], seed, self.config.evaluation.games)
            results = results if self._seat is None else results.of_seat(self._seat)
            metrics |= result_metrics(f"eval/{bot}", results)
        if self._tree is None:
            return metrics, float(np.mean([metrics[f"eval/{bot}/win_rate"] for bot in plan.bots]))
        exact = self._tree.exploitability(policy_table(network, self._tree))
        return metrics | {"eval/exploitability": exact}, -exact

    def _duel(self, new: PolicyNetwork, old: PolicyNetwork, games: int, seed: int, ranges: np.ndarray) -> np.ndarray:
        """Play the games of a promotion; see `agents.ppo.self_play.Duel`."""
        new_seats, old_seats = (NetworkSeats(network, self.env.contract, deterministic=False) for network in (new, old))
        results = self._play(new_seats, old_seats, seed, games)
        return np.concatenate([results.outcome[results.seat == seat] for seat in (0, 1)])

    def _play(self, learner: SeatPlayer, opponent: SeatPlayer, seed: int, games: int) -> SeatResults:
        """Play separate matches; the opponent's random numbers in training are not touched."""
        seats = self.env.seats
        games = -(-games // seats) * seats
        batch = self._make_batch(min(games, GAMES_AT_ONCE), seed)
        generator = getattr(opponent, "generator", None)
        before = generator.get_state() if generator is not None else None
        try:
            return play(batch, (learner, opponent), games, seed)
        finally:
            batch.close()
            if generator is not None:
                generator.set_state(before)

    def matches_state(self) -> dict[str, Any]:
        """See `LeagueTask`."""
        return join(self.env.state_dict(), self.processes)

    def load_matches(self, state: Mapping[str, Any]) -> None:
        """See `LeagueTask`."""
        self.env.load_state_dict(cut(state, self.env.share))


def _learning_seat(config: ImportedRunConfig, seats: int) -> int | None:
    """Return the only seat that learns, None if all do. Raises `ConfigError` for a seat that does not exist."""
    seat = config.env.seat
    if seat >= seats:
        raise ConfigError(f"env.seat={seat}: must be in [-1, {seats - 1}], the seats of {config.env.id}")
    return None if seat < 0 else seat


def _about(contract: Mapping[str, Any], encoder: str) -> str:
    """Return a line on seats, roles, observations and actions."""
    roles = len(set(contract["roles"]))
    observed = picture_text(contract["picture"], encoder) if contract["picture"] else f"rows of {contract['obs_dim']}"
    kinds = {"numbers": contract["continuous"], "switches": contract["binary"], "alternatives": contract["categorical"]}
    acts = " and ".join(f"{size} {kind}" for kind, size in kinds.items() if size)
    masked = ", some of them masked" if contract["masked"] else ""
    shared = "one policy" if roles == 1 else f"a policy for each of {roles} roles"
    seats = len(contract["roles"])
    return f"{contract['id']}: {seats} seats, {shared}; observes {observed}; actions: {acts}{masked}"


BY_MATCH = ("episodes", "moves", "actions")
"""Entries of a batch's state that follow each other in the order of the matches."""


def join(state: Mapping[str, Any], processes: Processes) -> dict[str, Any]:
    """Join the `LearnerEnv.state_dict` of each process into one of all matches."""
    if processes.alone:
        return dict(state)
    parts = processes.gather_items([(state["batch"], state["lanes"])])
    (first, lanes), *_ = parts
    batch = first | {name: torch.cat([part[name] for part, _ in parts]) for name in BY_MATCH}
    batch["digests"] = [digest for part, _ in parts for digest in part["digests"]]
    return {**state, "batch": batch, "lanes": {name: torch.cat([part[name] for _, part in parts]) for name in lanes}}


def cut(state: Mapping[str, Any], share: Shard) -> dict[str, Any]:
    """Return the part of a `LearnerEnv.state_dict` of all matches that belongs to `share`."""
    if share.whole:
        return dict(state)
    batch, lanes = state["batch"], state["lanes"]
    ends = [0, *batch["moves"].cumsum(0).tolist()]
    games = {name: batch[name][share.rows] for name in ("episodes", "moves", "digests")}
    games["actions"] = batch["actions"][ends[share.first] : ends[share.first + share.count]]
    local = {name: cut_rows(rows, share) for name, rows in lanes.items()}
    return {**state, "batch": {**batch, **games, "first": batch["first"] + share.first}, "lanes": local}


def result_metrics(prefix: str, results: SeatResults) -> dict[str, float]:
    """Return win, draw and loss rates, the score, mean reward and moves, under `prefix`."""
    values = {"win_rate": results.outcome == 1, "draw_rate": results.outcome == 0, "loss_rate": results.outcome == -1}
    values |= {"score": (results.outcome + 1) / 2, "reward": results.reward, "length": results.length}
    return {f"{prefix}/{name}": float(value.mean()) for name, value in values.items()}


def _rows(tally: MatchTally, rows: slice) -> MatchTally:
    """Return the results against some opponents."""
    stats = {name: sums[rows] for name, sums in tally.stats.items()}
    return MatchTally(tally.wins[rows], tally.draws[rows], tally.losses[rows], stats, tally.returns[rows])
