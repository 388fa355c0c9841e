"""Diplomacy as a `TextTask`: forked games phase by phase, bots in the kernels, rewards for every decision.

Each group has a master game. In it a bot or the base model plays all seats for the number of phases in its plan, or the
game's players play their own. Every game of the group is a copy of the position that is reached.

`DIPLOMACY` is the text interface that the descriptor in `envs/diplomacy/__init__.py` names. Names of metrics are listed
in docs/metrics_grpo.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from zlib import crc32

import numpy as np
import torch

from sparring.configs.core.errors import ConfigError
from sparring.configs.language import GRPOConfig
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.config import DiplomacyCloneRunConfig, DiplomacyGRPORunConfig
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.prompts import requests
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.rewards.sample_rewards import final_scores, sample_rewards
from sparring.envs.diplomacy.rewards.scoring import Scorer, count_centres, first_influence, influence_after
from sparring.envs.diplomacy.rollouts.demonstrations import BotGames, corpus
from sparring.envs.diplomacy.rollouts.games import references, reseed
from sparring.envs.game import load, plain_bot
from sparring.envs.text import (
    Answered,
    DecidePrompts,
    GameEnding,
    GroupFacts,
    GroupPlan,
    Prompt,
    RolloutPlan,
    TextGame,
    fixed_players,
    mix,
)

PHASES = len(codes.PHASES)
FEW_CENTRES, SOME_CENTRES = 3, 5
EARLY_YEAR, MIDDLE_YEAR = 1902, 1905
DUMBBOT = "dumbbot"
OWN_PLAYERS = "players"
"""Name of a warm-up by the players of the game."""
BEFORE_THE_FORK = 1
"""Separates a model's random draws before the fork from those after it."""
Writers = Mapping[str, OrderWriter]
"""League players that are not language models, by name."""


def stratum(centres: int, year: int) -> tuple[int, int]:
    """Return the key for comparing powers of different games: ranges of centres and of years."""
    size = (centres > FEW_CENTRES) + (centres > SOME_CENTRES)  # up to 3, 4 to 5, from 6
    return size, (year > EARLY_YEAR) + (year > MIDDLE_YEAR)  # up to 1902, 1903 to 1905, from 1906


class ForkedGames:
    """Games of one plan, with their players and the running ones."""

    def __init__(
        self,
        batch: DiplomacyBatch,
        masters: Masters,
        plan: RolloutPlan,
        *,
        writers: Writers | None = None,
        count_fork_year: bool = False,
    ) -> None:
        self.batch, self.plan, self.games = batch, plan, batch.num_games
        self.failed: dict[int, str] = {}
        start = forked(masters, plan.samples)
        batch.load(start.positions)
        self.influence = start.influence
        self._lineup = Lineup(batch, [self.group(game).players for game in range(self.games)], writers or {})
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

        prompts = requests.pending_requests(self.batch, self._lineup.asked, rules, draws)
        return [self._known(prompt) if prompt.seat in self.group(prompt.game).heroes else prompt for prompt in prompts]

    def process(self, orders: torch.Tensor, phase: int) -> None:
        """Process the models' `orders` [games, 75] and those of bots and writers, and stop finished games."""
        self.batch.orders.copy_(orders)
        self._lineup.order(phase)
        self.batch.process()
        self.batch.check()
        self._stop_those_over()

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""
        for game in games:
            self.failed.setdefault(game, why)
            self.batch.done[game] = 1

    def endings(self, rules: GRPOConfig) -> list[GameEnding]:
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


class Lineup:
    """Players by name in the seats of a batch's games: `writers` order, bots are drawn, and the others are asked.

    `asked` [G][7] has, in a writer's seat, the bot for orders that it does not write, such as retreats; a writer that
    writes everything replaces all orders of the bot.
    """

    def __init__(self, batch: DiplomacyBatch, players: Sequence[Sequence[str]], writers: Writers) -> None:
        self._batch = batch
        self.asked = [[writers[name].bot or DUMBBOT if name in writers else name for name in game] for game in players]
        requests.seat_bots(batch, self.asked)
        seated = {name for game in players for name in game} & writers.keys()
        self._seats = [
            (writers[name], torch.tensor([[name == seat for seat in game] for game in players], device=batch.device))
            for name in sorted(seated)
        ]

    @torch.no_grad()
    def order(self, phase: int) -> None:
        """Write the orders of bots, with draws that depend on `phase`, and of writers."""
        self._batch.draw_orders(phase)
        running = (self._batch.done == 0).unsqueeze(1)
        for writer, seats in self._seats:
            writer.write(self._batch, seats & running)


@dataclass
class Masters:
    """Snapshot of positions [G, ...] of the groups, with the reasons of those that failed.

    `influence` [G, 75] is the influence on provinces from the games up to the fork (`scoring.py`).
    """

    positions: dict[str, torch.Tensor]
    influence: torch.Tensor
    failed: dict[int, str] = field(default_factory=dict)


def warmed_up(
    masters: DiplomacyBatch,
    groups: Sequence[GroupPlan],
    *,
    player: str,
    rules: PromptRules,
    decide: DecidePrompts,
    writers: Writers | None = None,
) -> Masters:
    """Play the groups' games to their forks; `masters` has a game for each and is overwritten.

    `player` is a bot, a model or `OWN_PLAYERS`; `decide` collects the models' answers to prompts of these `rules`. No
    game is played beyond the start of its last year. A game that ends earlier stays in the position before its end.
    """
    masters.load(opening())
    players: list[Sequence[str]] = [
        group.players if player == OWN_PLAYERS else [player] * codes.NUM_POWERS for group in groups
    ]
    lineup = Lineup(masters, players, writers or {})
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
        prompts = requests.pending_requests(masters, lineup.asked, rules, draws)
        answered = decide([prompt for prompt in prompts if prompt.game not in failed], fail)
        masters.orders.copy_(requests.written_orders(masters, answered))
        lineup.order(phase)
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


TOP, BOTTOM = 3, 5
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
        self._writers = league_writers(config)
        last_year = config.env.last_year
        self._masters = DiplomacyBatch(grpo.groups, last_year=last_year, threads=threads)
        self._batch = DiplomacyBatch(grpo.groups * grpo.samples_per_group, last_year=last_year, threads=threads)

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Play the groups' games to their forks and fork them."""
        masters = warmed_up(
            self._masters,
            plan.groups,
            player=self._warmup_player,
            rules=self._prompt_rules,
            decide=decide,
            writers=self._writers,
        )
        self._table = ForkedGames(
            self._batch, masters, plan, writers=self._writers, count_fork_year=self._count_fork_year
        )
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
        self._table.process(requests.written_orders(self._batch, answered), len(self._steps))
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


def _reward_rules(grpo: GRPOConfig) -> GRPOConfig:
    # Among seven copies of one player every expected place is 4, so conditioning has no effect.
    return grpo if grpo.play == "league" else replace(grpo, use_elo_conditioned_rewards=False)


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
    values = {
        "win_rate": _share(places, 1, 1) if seats else UNKNOWN,
        "top3_rate": _share(places, 1, TOP) if seats else UNKNOWN,
        "avg_sc_count": _mean_centres(seats) if seats else UNKNOWN,
        "avg_placement": float(np.mean(places)) if seats else UNKNOWN,
    }
    return {"dumbbot/games_count": float(len(seats))} | {f"dumbbot/{name}": value for name, value in values.items()}


def _mean_centres(seats: Sequence[tuple[GameEnding, int]]) -> float:
    return float(np.mean([ending.scores[power] for ending, power in seats]))


def _against_dumbbots(ending: GameEnding, power: int) -> bool:
    return all(plain_bot(name) == DUMBBOT for other, name in enumerate(ending.players) if other != power)


def _place(ending: GameEnding, power: int) -> int:
    return 1 + sum(other > ending.scores[power] for other in ending.scores)


def _wins(ending: GameEnding, power: int, win_at: int) -> bool:
    """Return whether the power has more centres than any other, and at least `win_at`."""
    centres = ending.scores[power]
    return centres >= win_at and sum(other >= centres for other in ending.scores) == 1


def _share(ranks: Sequence[int], first: int, last: int) -> float:
    return float(np.mean([first <= rank <= last for rank in ranks]))


def league_writers(config: DiplomacyGRPORunConfig) -> Writers:
    """Open the players of `league.players`; raises `ConfigError` for a bot or a player that does not write moves."""
    writers = fixed_players(config.league.players, load(GAME.open_player))
    reseed(writers.values(), config.seed)
    return writers


def demonstrations(config: DiplomacyCloneRunConfig, *, games: int, seed: int, threads: int = 1) -> BotGames:
    """Return games of `config.clone.bot`, and of the teacher if there is one, with prompts by `config.model`.

    Raises `ConfigError` for a teacher that is a bot.
    """
    clone, rules, last_year = config.clone, PromptRules.of(config.model), config.env.last_year
    teacher = load(GAME.open_player)(clone.teacher) if clone.teacher else None
    if isinstance(teacher, str):
        raise ConfigError(f"clone.teacher={teacher}: is a bot; set clone.bot={teacher}, or name a run or policy here")
    return BotGames(
        games, bot=clone.bot, last_year=last_year, seed=seed, rules=rules, threads=threads,
        teacher=teacher, taught_by=clone.teacher,
    )  # fmt: skip


DIPLOMACY = TextGame(
    format=requests.DIPLOMACY_TEXT,
    corpus=corpus,
    task=DiplomacyTextTask,
    demonstrations=demonstrations,
    references=references,
    bot_answers=requests.bot_answers,
    headline={"centres": "game/avg_sc_count"},
    league_players=league_writers,
)
