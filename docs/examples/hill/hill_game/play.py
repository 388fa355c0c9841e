"""Who plays: the task that PPO trains on, players by name, and the evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hill_game import BOTS, GAME
from hill_game.batch import HillBatch
from hill_game.config import HillRunConfig
from sparring.agents.opponents.players import find_player
from sparring.agents.play.duel_matches import play
from sparring.agents.policies.policy import Policy
from sparring.agents.ppo.tasks.duel import DuelTask
from sparring.configs.core.errors import InputError
from sparring.eval.command import Evaluation, GameEvaluation
from sparring.eval.options import CommandText, EvaluateOptions, argument


@dataclass(frozen=True)
class HillConditions:
    """Conditions of evaluation matches."""

    max_ticks: int = 64
    device: str = "cpu"
    threads: int = 0
    action_repeat: int = 1

    def batch(self, games: int) -> HillBatch:
        """Create the matches."""
        return HillBatch(games, ticks=self.max_ticks, device=self.device, threads=self.threads)

    def under(self, ranges: np.ndarray) -> HillConditions:
        """Return these conditions: the physics is not randomized."""
        return self

    filmed = under


class HillTask(DuelTask):
    """See `DuelTask`."""

    batch_kind, bots, per_match = HillBatch, BOTS, ("bots", "match_id")
    config: HillRunConfig

    def make_batch(self, device: torch.device, threads: int, share: Any) -> HillBatch:
        """Create this process's share of the matches."""
        batch = HillBatch(
            share.count, ticks=self.config.env.ticks, device=str(device), threads=threads, seed=self._seeds["env"]
        )
        if not share.whole:
            batch.match_id += share.first
            batch.reset(self._seeds["env"])
        return batch

    def open_policy(self, text: str, device: torch.device) -> Any:
        """Return an opponent that is not a bot."""
        return open_player(text, device)

    def conditions(self, device: torch.device, threads: int) -> HillConditions:
        """Return the conditions of evaluation matches: as in training."""
        return HillConditions(self.config.env.ticks, str(device), threads)


def open_player(x: Any, device: str | torch.device = "cpu", **options: Any) -> str | Policy:
    """Return a bot's name, or the policy of a run or a file."""
    found = find_player(x, GAME, bare=BOTS) if isinstance(x, str) else x
    return Policy.load(found, device, **options) if isinstance(found, Path) else found


@dataclass(frozen=True, kw_only=True)
class HillOptions(EvaluateOptions):
    """Options of `sparring eval`."""

    TEXT = CommandText("eval/run.py", "Evaluate a policy of king of the hill.", env="hill")
    opponents: tuple[str, ...] = argument(BOTS, metavar="O")
    """Bots, runs or policy files."""
    games: int = argument(200, "[2, 1000000]", metavar="N")
    """Games against each; an even number, since each start is played from both seats."""

    def check(self) -> None:
        """Raise `InputError` for an odd number of games, and without a player."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since each start is played from both seats")
        if not self.ckpt:
            raise InputError("--ckpt: name a bot as bot:climber, a run, or a policy file")


def evaluate(options: HillOptions) -> Evaluation:
    """Play every opponent and return the table."""
    player, setting = open_player(str(options.ckpt)), HillConditions(threads=options.threads)
    rows, records = ["| opponent | wins | draws | losses |", "| --- | --- | --- | --- |"], []
    for name in options.opponents:
        result = play(player, open_player(name), games=options.games, seed=options.seed, setting=setting)
        wins, draws, losses = result.counts
        rows.append(f"| {name} | {wins} | {draws} | {losses} |")
        records.append({"opponent": name, "wins": wins, "draws": draws, "losses": losses})
    content = {"env": GAME.id, "games": options.games, "opponents": records}
    return Evaluation("\n".join(rows) + "\n", json.dumps(content, indent=2) + "\n", quiet=options.quiet)


EVALUATION = GameEvaluation(HillOptions, evaluate, {}, {"games": 2})
