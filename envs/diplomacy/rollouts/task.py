"""Diplomacy as a `TextTask`: forked games phase by phase, bots in the kernels, rewards for every decision.

`DIPLOMACY` is the text interface that the descriptor in `envs/diplomacy/__init__.py` names. Names of metrics are listed
in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sparring.configs.language import GRPOConfig, plain_bot
from sparring.configs.schema import DiplomacyCloneRunConfig, DiplomacyGRPORunConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT, bot_answers, written_orders
from sparring.envs.diplomacy.rewards.sample_rewards import RewardRules, sample_rewards
from sparring.envs.diplomacy.rewards.scoring import Scorer
from sparring.envs.diplomacy.rollouts.demonstrations import BotGames, corpus
from sparring.envs.diplomacy.rollouts.forked_games import ForkedGames, warmed_up
from sparring.envs.diplomacy.rollouts.games import references
from sparring.envs.text import Answered, DecidePrompts, GameEnding, Prompt, RolloutPlan, TextGame

TOP, BOTTOM = 3, 5
DUMBBOT = "dumbbot"
ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th")
UNKNOWN = float("nan")


class DiplomacyTextTask:
    """Forked games of `config.grpo`, plan after plan; see `envs.text.TextTask`."""

    def __init__(self, config: DiplomacyGRPORunConfig, *, threads: int = 1) -> None:
        grpo = config.grpo
        self._prompt_rules, self._warmup_player = PromptRules.of(config.model), grpo.rollout_warmup_player
        self.reward_rules, self._win_at = _reward_rules(grpo), grpo.winner_threshold_sc
        self._count_fork_year = grpo.count_fork_year
        self._dumbbot_games = grpo.play == "league" and config.league.dumbbot_game_probability > 0
        last_year = config.env.last_year
        self._masters = DiplomacyBatch(grpo.groups, last_year=last_year, threads=threads)
        self._batch = DiplomacyBatch(grpo.groups * grpo.samples_per_group, last_year=last_year, threads=threads)

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Play the groups' games to their forks and fork them."""
        masters = warmed_up(
            self._masters, plan.groups, player=self._warmup_player, rules=self._prompt_rules, decide=decide
        )
        self._table = ForkedGames(self._batch, masters, plan, count_fork_year=self._count_fork_year)
        self._scorer = Scorer({"strategic" if self.reward_rules.use_strategic_step_scoring else "dense": 1.0})
        self._scorer.begin(self._batch.state, self._table.influence)
        self._steps: list[torch.Tensor] = []
        self._decided: list[torch.Tensor] = []

    @property
    def over(self) -> bool:
        """True if all games have ended."""
        return not self._table.playing.any()

    @property
    def failed(self) -> dict[int, str]:
        """Abandoned games with the reasons."""
        return self._table.failed

    def prompts(self) -> list[Prompt]:
        """Return all prompts of this phase."""
        self._before, self._playing = self._batch.snapshot(), torch.from_numpy(self._table.playing)
        prompts = self._table.prompts(self._prompt_rules, len(self._steps))
        decided = torch.zeros(self._table.games, NUM_POWERS, dtype=torch.bool)
        for prompt in prompts:
            decided[prompt.game, prompt.seat] = True
        self._decided.append(decided)
        return prompts

    def apply(self, answered: Answered) -> None:
        """Adjudicate a phase and store every power's reward in it."""
        self._table.process(written_orders(self._batch, answered), len(self._steps))
        earned = self._scorer.score(self._before, self._batch.state, self._batch.results)
        self._steps.append(earned * self._playing.to(earned.device).unsqueeze(1))

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""
        self._table.fail(games, why)

    def rewards(self) -> np.ndarray:
        """Return the rewards of the decisions, float64 [phases, games, 7]."""
        games = range(self._table.games)
        ratings = torch.tensor([self._table.group(game).ratings for game in games], dtype=torch.float64)
        steps = torch.stack(self._steps).cpu()
        decided = torch.stack(self._decided)
        end = self._batch.snapshot()
        paid: np.ndarray = sample_rewards(steps, end, self.reward_rules, ratings=ratings, decided=decided).numpy()
        return paid

    def endings(self) -> list[GameEnding]:
        """Return the endings of the games that did not fail; scores are centres."""
        return self._table.endings(self.reward_rules)

    def years(self) -> float:
        """Return the years played, summed over all games."""
        return self._table.years()

    def metrics(self) -> dict[str, float]:
        """Return `game/...`, `placement/...` and `dumbbot/...` metrics of the games that did not fail."""
        heroes = [group.heroes for group in self._table.plan.groups]
        return ending_metrics(self.endings(), heroes, self._win_at, dumbbot_games=self._dumbbot_games)

    def close(self) -> None:
        """Stop the simulators' threads."""
        self._masters.close()
        self._batch.close()


def _reward_rules(grpo: GRPOConfig) -> RewardRules:
    options = {name: getattr(grpo, name) for name in RewardRules.__dataclass_fields__}
    conditioned = grpo.use_elo_conditioned_rewards and grpo.play == "league"
    # Among seven copies of one player every expected place is 4, and there is nothing to condition on.
    return RewardRules(**options | {"use_elo_conditioned_rewards": conditioned})


def ending_metrics(
    endings: Sequence[GameEnding], heroes: Sequence[tuple[int, ...]], win_at: int, *, dumbbot_games: bool
) -> dict[str, float]:
    """Return metrics of `endings`; `heroes` are each group's learning powers, `win_at` the centres for the bonus.

    With `dumbbot_games` those of games against six DumbBots are always there, NaN in a step without such a game.
    """
    seats = [(ending, power) for ending in endings for power in heroes[ending.group]]
    dumbbot = [(ending, power) for ending, power in seats if _against_dumbbots(ending, power)]
    metrics = {}
    if seats:
        places = [_place(ending, power) for ending, power in seats]
        metrics["game/avg_sc_count"] = _mean_centres(seats)
        metrics["game/win_bonus_rate"] = float(np.mean([_wins(e, p, win_at) for e, p in seats]))
        metrics |= {"placement/mean_rank": float(np.mean(places)), "placement/top3_rate": _share(places, 1, TOP)}
        metrics["placement/bottom3_rate"] = _share(places, BOTTOM, NUM_POWERS)
        metrics |= {f"placement/{name}_rate": _share(places, n, n) for n, name in enumerate(ORDINALS, start=1)}
    return metrics | (_dumbbot_metrics(dumbbot) if dumbbot or dumbbot_games else {})


def _dumbbot_metrics(seats: Sequence[tuple[GameEnding, int]]) -> dict[str, float]:
    """Return metrics of games against six DumbBots; a first place counts as a win, ties included."""
    places = [_place(ending, power) for ending, power in seats]
    known = {
        "win_rate": _share(places, 1, 1) if seats else UNKNOWN,
        "top3_rate": _share(places, 1, TOP) if seats else UNKNOWN,
        "avg_sc_count": _mean_centres(seats) if seats else UNKNOWN,
        "avg_placement": float(np.mean(places)) if seats else UNKNOWN,
    }
    return {"dumbbot/games_count": float(len(seats))} | {f"dumbbot/{name}": value for name, value in known.items()}


def _mean_centres(seats: Sequence[tuple[GameEnding, int]]) -> float:
    return float(np.mean([ending.scores[power] for ending, power in seats]))


def _against_dumbbots(ending: GameEnding, power: int) -> bool:
    return all(plain_bot(name) == DUMBBOT for other, name in enumerate(ending.players) if other != power)


def _place(ending: GameEnding, power: int) -> int:
    return 1 + sum(other > ending.scores[power] for other in ending.scores)


def _wins(ending: GameEnding, power: int, win_at: int) -> bool:
    """Return whether the power has more centres than any other, and at least `win_at`."""
    own = ending.scores[power]
    return own >= win_at and sum(other >= own for other in ending.scores) == 1


def _share(places: Sequence[int], first: int, last: int) -> float:
    return float(np.mean([first <= place <= last for place in places]))


def demonstrations(config: DiplomacyCloneRunConfig, *, games: int, seed: int, threads: int = 1) -> BotGames:
    """Return games of `config.clone.bot` against itself, with prompts by `config.model`."""
    rules, last_year = PromptRules.of(config.model), config.env.last_year
    return BotGames(games, bot=config.clone.bot, last_year=last_year, seed=seed, rules=rules, threads=threads)


DIPLOMACY = TextGame(
    format=DIPLOMACY_TEXT,
    corpus=corpus,
    task=DiplomacyTextTask,
    demonstrations=demonstrations,
    references=references,
    bot_answers=bot_answers,
    headline={"centres": "game/avg_sc_count"},
)
