"""A game of PettingZoo or OpenSpiel as a task: self-play of all seats, bots and a pool by the plan, and a league.

Opponents are assigned as in the dogfight. With `self_play.both_seats`, most self-play is of the policy against itself,
where all seats learn; the rest, and all matches against bots, have one learner's seat. Exploitability is exact, where
the game can be traversed. With several processes each plays its share of the matches, and the first keeps the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes, Shard
from sparring.agents.opponents.training import open_opponents
from sparring.agents.play.exploitability import policy_table
from sparring.agents.play.learner_env import LearnerEnv, MatchTally
from sparring.agents.play.seat_matches import SeatPlayer, SeatResults, play
from sparring.agents.play.turn_seats import TurnSeats
from sparring.agents.policies.encoders import FLAT, picture_text
from sparring.agents.policies.memory import NONE
from sparring.agents.policies.networks import PolicyNetwork, shape_for
from sparring.agents.ppo import self_play
from sparring.agents.ppo.tasks.duel import cut_rows
from sparring.agents.ppo.tasks.task import Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.games import ImportedEnvConfig
from sparring.configs.schema import RANDOM, ImportedRunConfig
from sparring.curriculum.league.file import read_league
from sparring.curriculum.league.league import CHALLENGER, known_win_rates
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.game import load
from sparring.envs.imported.batch import MatchBatch, make_batch
from sparring.envs.imported.match import make_match
from sparring.envs.imported.openspiel import is_constant_sum
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.states import check_copies
from sparring.envs.imported.training.opponents import NetworkSeats, RandomSeats, open_seat_player
from sparring.envs.imported.tree import GameTree, game_tree

GAMES_AT_ONCE = 32
STATES = "sparring.envs.imported.evaluation.network_states:network_states"
GAIN = "sparring.eval.exploitability.sampling:gain_metrics"
"""The game with copies of states, and the attack by sampling in it."""
MOST = 1e30
"""Above every score of an evaluation."""


class ImportedTask:
    """See `agents.ppo.tasks.task.PPOTask`."""

    def __init__(
        self,
        config: ImportedRunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        if config.network.memory != NONE and not processes.alone:
            label = f"network.memory={config.network.memory}"
            raise ConfigError(f"{label}: learns in one process; start it without torchrun, or give network.memory=none")
        self.config, self.processes, self._seeds, self._device = config, processes, seeds, device
        share = processes.share(config.env.num_envs)
        batch = _make_batch(replace(config.env, num_envs=share.count), seed=seeds["env"], first=share.first)
        contract = batch.contract
        shape = shape_for(contract, config.network)

        def opened(text: str) -> SeatPlayer:
            return open_seat_player(text, contract, device, seed=seeds["opponents"])

        try:
            self.opponents = open_opponents(config, opened)
            self._players = {RANDOM: RandomSeats(contract, seed=seeds["opponents"]), **self.opponents.policies}
            self._shape = shape
            self.env = LearnerEnv(
                batch,
                players=self._players,
                seed=seeds["opponents"],
                slots=config.self_play.slots,
                network_shape=shape,
                device=device,
                share=share,
                processes=processes,
                seating=TurnSeats,
            )
            self.env.notes += [_about(contract, shape.get("encoder", FLAT)), *batch.remarks]
        except BaseException:
            batch.close()
            raise
        self._best = -MOST
        self._win_rates: dict[str, float] = {}  # broadcast by process 0, in the others
        self._tree = self._traversed() if processes.first else None
        self._attack = self._opened_attack() if config.evaluation.exploit_every and processes.first else None
        if config.env.package == "openspiel" and not is_constant_sum(config.env.id, config.env.kwargs):
            self.env.notes.append(f"general-sum: {config.env.id} pays its players other sums from match to match")

    def _traversed(self) -> GameTree | None:
        """Return the tree of a game whose exploitability is measured exactly; None for others."""
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
        """Return the attack that measures a network. Raises `InputError` where states cannot be copied."""
        env, label = self.config.env, f"evaluation.exploit_every={self.config.evaluation.exploit_every}"
        match: Any = make_match(env.package, env.id, env.kwargs, observation=env.observation)
        encoder = SeatRows(env.package, env.id, match, env.kwargs, roles=env.roles)
        check_copies(match.game, label)
        states, metrics = load(STATES), load(GAIN)
        moves = self.config.evaluation.exploit_moves
        return lambda network: metrics(states(match, encoder, network), moves)

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> self_play.SelfPlay | None:
        """Open the pool and the league in the run's folder."""
        if not self.processes.first:
            return None
        options, seats = self.config.self_play, self.env.seats
        self.self_play = self_play.open_self_play(
            self.env if self.processes.alone else self_play.BroadcastEnv(self.env, self.processes),
            folder,
            options,
            alert,
            shape=self._shape,
            seed=self._seeds["league"],
            duel=self._duel,
            seats=seats,
        )
        return self.self_play

    def prepare(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Assign the opponents."""
        if self.processes.first:
            self.self_play.deal(plan, network)
        else:
            self_play.follow(self.env, self.processes)

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Return wins, draws and losses per opponent, the recent rates that control the schedule, and ratings."""
        tally = self.env.harvest(self.processes)
        rows = _rows(tally, slice(None, self.env.itself))
        if self.processes.first:
            self.self_play.record(rows)
        rates = self._win_rates = self.processes.broadcast(self._rates())
        if not self.processes.first:
            return {}
        metrics = self_play.rollout_metrics(rows, self.env.bots) | self_play.curriculum_metrics(plan, rates)
        metrics.pop("curriculum/randomization")
        itself = _rows(tally, slice(self.env.itself, None))
        if games := itself.games.sum():
            metrics["rollout/itself/matches"] = float(games)
            metrics["rollout/itself/length"] = float(itself.stats["length"].sum() / games)
            metrics["rollout/itself/draw_rate"] = float(itself.draws.sum() / games)
        return metrics | self_play.league_metrics(self.self_play)

    def evaluate(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        """Play matches of the deterministic policy against every bot met so far, and measure exploitability.

        The best policy is the one that is least exploitable, where that is known, else the one that wins most. The
        attack by sampling has its own random numbers, and does not choose the best policy.
        """
        evaluation, done = self.config.evaluation, plan.update + 1
        if not self.processes.first:
            return {}, False
        due = evaluation.every and done % evaluation.every == 0
        metrics, improved = self._checked(plan, network) if due else ({}, False)
        if self._attack is not None and done % evaluation.exploit_every == 0:
            metrics |= self._attack(network)
            if self._tree is not None:
                metrics["exploit/exact"] = self._tree.exploitability(policy_table(network, self._tree))
        return metrics, improved

    def _checked(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        seed = (self._seeds["checks"] + plan.update) % 2**31
        learner = NetworkSeats(network, self.env.contract, name="the learner", seed=seed)
        metrics: dict[str, float] = {}
        for bot in plan.bots:
            metrics |= result_metrics(
                f"eval/{bot}", self._play(learner, self._players[bot], seed, self.config.evaluation.games)
            )
        score = float(np.mean([metrics[f"eval/{bot}/win_rate"] for bot in plan.bots]))
        if self._tree is not None:
            exact = self._tree.exploitability(policy_table(network, self._tree))
            metrics["eval/exploitability"], score = exact, -exact
        improved, self._best = score >= self._best, max(score, self._best)
        return metrics, improved

    def _duel(self, new: PolicyNetwork, old: PolicyNetwork, games: int, seed: int, ranges: np.ndarray) -> np.ndarray:
        """Play the games of a promotion; see `agents.ppo.self_play.Duel`."""
        new_seats, old_seats = (NetworkSeats(network, self.env.contract, deterministic=False) for network in (new, old))
        results = self._play(new_seats, old_seats, seed, games)
        return np.concatenate([results.outcome[results.seat == seat] for seat in (0, 1)])

    def _play(self, learner: SeatPlayer, opponent: SeatPlayer, seed: int, games: int) -> SeatResults:
        """Play separate matches; the opponent's random numbers in training are not touched."""
        seats = self.env.seats
        games = -(-games // seats) * seats
        env = replace(self.config.env, num_envs=min(games, GAMES_AT_ONCE))
        batch = _make_batch(env, seed=seed)
        generator = getattr(opponent, "generator", None)
        before = generator.get_state() if generator is not None else None
        try:
            return play(batch, (learner, opponent), games, seed)
        finally:
            batch.close()
            if generator is not None:
                generator.set_state(before)

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the opponents with win rates, the share of self-play, and the rating."""
        rating = {"elo": self.self_play.league[CHALLENGER].elo} if self.processes.first else {}
        return TaskStatus(*self_play.league_status(plan, self._rates(), rating))

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return matches, league and the best evaluation."""
        matches = join(self.env.state_dict(), self.processes) if episodes else {}
        if not self.processes.first:
            return {}
        records = {"league": self.self_play.state_dict(), "best": self._best, **self.opponents.state_dict()}
        return {"imported": {"matches": matches, **records}}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `ContentError` for another run's."""
        stored = state["imported"]
        self.opponents.check_unchanged(stored)
        self._win_rates = known_win_rates(read_league(stored["league"]["league"]), CHALLENGER)
        if episodes:
            self.env.load_state_dict(cut(stored["matches"], self.env.share))
        if not self.processes.first:
            return
        self.self_play.load_state_dict(stored["league"], stored["matches"].get("slots", ()))
        self._best = stored["best"]
        if not episodes:
            self.self_play.slots = [""] * self.env.slots  # the next deal draws all of them

    def _rates(self) -> dict[str, float]:
        return self.self_play.win_rates() if self.processes.first else self._win_rates


def _make_batch(env: ImportedEnvConfig, seed: int, first: int = 0) -> MatchBatch:
    return make_batch(
        env.package,
        env.id,
        env.kwargs,
        env.num_envs,
        seed,
        env.workers,
        first=first,
        observation=env.observation,
        outcome=env.outcome,
        roles=env.roles,
    )


def _about(contract: Mapping[str, Any], encoder: str) -> str:
    """Return a line with seats and roles, and what is observed and done."""
    roles = len(set(contract["roles"]))
    observed = picture_text(contract["picture"], encoder) if contract["picture"] else f"rows of {contract['obs_dim']}"
    kinds = {"numbers": contract["continuous"], "switches": contract["binary"], "alternatives": contract["categorical"]}
    acts = " and ".join(f"{size} {kind}" for kind, size in kinds.items() if size)
    masked = ", of which a mask allows some" if contract["masked"] else ""
    shared = "one policy" if roles == 1 else f"a policy for each of {roles} roles"
    seats = len(contract["roles"])
    return f"{contract['id']}: {seats} seats, {shared}; observes {observed}, acts by {acts}{masked}"


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
