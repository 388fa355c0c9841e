"""The best players that come with the packages of games, as opponents for measuring policies.

    PYTHONPATH=. python eval/run.py --ckpt RUN --opponents random benchmarks.imported_training.package_bots:LeducCfr

`LeducCfr` is rlcard's policy of counterfactual regret minimization, `LeducRules` and `TexasRules` its scripts;
`Mcts100` and `Mcts1000` are OpenSpiel's tree search with that many simulations a move, for games without hidden
information. All are asked with the match, since they need the game's own state.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


class RulesOfThePackage:
    """A script of rlcard, by the name of its model there: it reads what its seat sees, and names an action."""

    model: str

    def choose(self, match: Any, seat: int) -> int:
        """Return the number of the action that the script names."""
        env = rlcard_env(match)
        return int(env.actions.index(loaded(self.model).agents[seat].step(env.get_state(seat))))


class LeducRules(RulesOfThePackage):
    """Raises with a pair or a king, checks with a queen, else folds."""

    model = "leduc-holdem-rule-v2"


class TexasRules(RulesOfThePackage):
    """Plays by the classes of its cards."""

    model = "limit-holdem-rule-v1"


class LeducCfr:
    """Draws from the average policy of rlcard's pretrained model."""

    def __init__(self) -> None:
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Restart the draws."""
        self._random = np.random.default_rng(seed)

    def choose(self, match: Any, seat: int) -> int:
        """Return an action; positions that the model has never met are played uniformly, as rlcard does."""
        agent, state = loaded("leduc-holdem-cfr").agents[seat], rlcard_env(match).get_state(seat)
        legal = list(state["legal_actions"])
        probabilities = agent.action_probs(state["obs"].tobytes(), legal, agent.average_policy)
        return int(self._random.choice(len(probabilities), p=probabilities))


class Mcts100:
    """OpenSpiel's tree search with random playouts."""

    simulations = 100

    def __init__(self) -> None:
        self._bot: Any = None
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Restart the playouts."""
        self._seed, self._bot = seed, None

    def choose(self, match: Any, seat: int) -> int:
        """Return the move that was tried most often."""
        if self._bot is None:
            import pyspiel

            playouts = pyspiel.RandomRolloutEvaluator(1, self._seed)
            options = {"max_memory_mb": 100, "solve": True, "seed": self._seed, "verbose": False}
            self._bot = pyspiel.MCTSBot(match.game, playouts, 2.0, self.simulations, **options)
        return int(self._bot.step(match.state))


class Mcts1000(Mcts100):
    """The same with ten times the simulations."""

    simulations = 1000


def rlcard_env(match: Any) -> Any:
    """Return rlcard's own environment inside a match of PettingZoo."""
    return match.env.unwrapped.env


@cache
def loaded(model: str) -> Any:
    """Load a model of rlcard by name."""
    from rlcard import models

    return models.load(model)
