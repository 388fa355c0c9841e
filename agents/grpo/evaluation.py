"""How the learner does against players that do not change, every `evaluation.every` steps of its training.

It plays one power against six DumbBots, and against six of the base model it began as, each power in turn. Every check
plays the same games with the likeliest token each time, so that two checks differ by what was learned and nothing else;
`eval/run.py --env diplomacy` plays more of them, the other way round, too, and gives intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from sparring.agents.llm.decoding.constraint import Constraint
from sparring.agents.llm.games import Lineup, one_against_six, play_games
from sparring.agents.llm.models.adapters import BASE, LEARNER, Adapters
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.configs.schema import RunConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.rewards.scoring import count_centres, solos
from sparring.envs.diplomacy.text.prompts import PromptRules

OPPONENTS = ("dumbbot", BASE_MODEL)
SEED = 0
"""Of the bots' draws, the same in every check of every run."""
COLUMNS = {"win_rate": "solos", "survival_rate": "survived", "avg_centers": "centres"}


@dataclass(frozen=True)
class ReferenceResult:
    """What came of a check: `metrics` and the same as a markdown table."""

    metrics: dict[str, float]
    table: str


class ReferenceEvaluation:
    """Checks of the learner of `adapters`, whose model has this `tokenizer`."""

    def __init__(self, config: RunConfig, adapters: Adapters, tokenizer: Any, *, threads: int) -> None:
        self._config, self._threads = config, threads
        self._rules = PromptRules.of(config.model)
        if config.evaluation.every:
            constraint = Constraint(tokenizer)
            names = {CHALLENGER: LEARNER, BASE_MODEL: BASE}
            self._models = {
                name: TransformersBackend.of(
                    replace(config.model, temperature=0.0),
                    adapters.model,
                    tokenizer,
                    constraint=constraint,
                    playing=partial(adapters.playing, own),
                    name=name,
                )
                for name, own in names.items()
            }

    def is_due(self, done: int) -> bool:
        """Whether a check follows the step that makes it `done` steps."""
        every = self._config.evaluation.every
        return every > 0 and done % every == 0

    def check(self) -> ReferenceResult:
        """Play all games, and say how they went. Raises `InputError` where the model cannot be asked."""
        games = self._config.evaluation.games
        players = [game for name in OPPONENTS for game in one_against_six(CHALLENGER, name, games)]
        cast = Lineup(players, self._models, self._rules)
        batch = DiplomacyBatch(len(cast.players), last_year=self._config.env.last_year, threads=self._threads)
        try:
            batch.game_id.copy_(torch.arange(games).repeat(len(OPPONENTS)))
            play_games(batch, cast, seed=SEED)
            owners = batch.owner.cpu().split(games)
        finally:
            batch.close()
        found = {name: measured(owner) for name, owner in zip(OPPONENTS, owners, strict=True)}
        metrics = {f"eval/vs_{name}/{key}": value for name, part in found.items() for key, value in part.items()}
        return ReferenceResult(metrics, _table(found, games))


def measured(owner: torch.Tensor) -> dict[str, float]:
    """Means over games that ended with `owner` [G, 34], of who had power i % 7 of game i."""
    game = torch.arange(len(owner))
    centres, won = (score(owner)[game, game % NUM_POWERS].double() for score in (count_centres, solos))
    values = {"win_rate": won, "survival_rate": (centres > 0).double(), "avg_centers": centres}
    return {name: float(value.mean()) for name, value in values.items()}


def _table(found: dict[str, dict[str, float]], games: int) -> str:
    head = ["against six of", "games", *COLUMNS.values()]
    rows = [[name, str(games), *(f"{part[key]:.3g}" for key in COLUMNS)] for name, part in found.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
