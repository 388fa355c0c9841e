"""OpenSpiel games as a `TextTask`: each seat is a language model, random or a fixed player; the reward is its return.

The games of a group start after the same chance outcomes, so all players hold the same cards. As long as they make the
same moves, later chance outcomes are also equal. Every decision of a seat has the game's return as its reward.

`OPENSPIEL` is the text interface that the descriptor in `envs/openspiel_text/__init__.py` names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np

from sparring.configs.core.errors import choose
from sparring.envs.game import load
from sparring.envs.imported.states import first_state
from sparring.envs.openspiel_text import GAME
from sparring.envs.openspiel_text.answers import MOVES, probes, read_decision
from sparring.envs.openspiel_text.config import OpenSpielCloneRunConfig, OpenSpielGRPORunConfig
from sparring.envs.openspiel_text.decisions import (
    action_menu,
    drawn_option,
    open_text_game,
    past_chance,
    random_option,
)
from sparring.envs.openspiel_text.demonstrations import Choose, MoveDemonstrations
from sparring.envs.openspiel_text.prompts import VIEWS, prompt_of, prompt_text
from sparring.envs.openspiel_text.references import references
from sparring.envs.text import (
    Answered,
    DecidePrompts,
    GameEnding,
    GroupFacts,
    Option,
    Prompt,
    RolloutPlan,
    TextGame,
    fixed_players,
    mix,
)
from sparring.envs.text_moves import KINDS

STATE_PLAYER = "sparring.envs.imported.evaluation.players.state_players:open_player"
"""Opens a player of states in a game of OpenSpiel, such as a policy of PPO; it needs torch."""
OPENSPIEL_PLAYER = "openspiel:"
"""Beginning of the names of OpenSpiel's own players, such as openspiel:uniform."""
CHANCE, ANSWERS, FALLBACKS = 1, 2, 3
"""Streams of random numbers."""


class OpenSpielTask:
    """Games of a plan, in which all seats of heroes learn; see `envs.text.TextTask`."""

    def __init__(self, config: OpenSpielGRPORunConfig, *, threads: int = 1) -> None:
        self._game, self._answer = open_text_game(config.env.id, config.env.kwargs), config.env.answer
        self._others = dict.fromkeys(GAME.bots, choose_randomly) | league_players(config)

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Begin the games of each group after the same draws of chance."""
        self.failed: dict[int, str] = {}
        self._plan, self._steps, self._kinds = plan, 0, Counter[str]()
        starts = [past_chance(first_state(self._game), mix(group.seed, CHANCE)) for group in plan.groups]
        self._states = [start for start in starts for _ in range(plan.samples)]
        self._moves = [0] * len(self._states)
        self._play_others(range(len(self._states)))

    @property
    def over(self) -> bool:
        """True once every game has ended or failed."""
        return not self._playing()

    def prompts(self) -> list[Prompt]:
        """Return the decision of every game; those of heroes have the facts for grouping."""
        return [self._prompt(game) for game in self._playing()]

    def apply(self, answered: Answered) -> None:
        """Make the moves; a random legal move replaces an illegal answer."""
        for prompt, answer in answered:
            read = read_decision(prompt, answer)
            self._kinds[read.kind] += 1
            self._move(prompt.game, read.option or random_option(prompt.position, mix(prompt.seed, FALLBACKS)))
        self._play_others([prompt.game for prompt, _ in answered])
        self._steps += 1

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""
        for game in games:
            self.failed.setdefault(game, why)

    def rewards(self) -> np.ndarray:
        """Return the returns of the seats at the end, for every decision, float64 [steps, games, seats]."""
        returns = [state.returns() if state.is_terminal() else [0.0] * self._seats for state in self._states]
        return np.broadcast_to(np.array(returns, dtype=np.float64), (self._steps, len(returns), self._seats))

    def endings(self) -> list[GameEnding]:
        """Return the endings of the games that did not fail; points are returns, rounded."""
        endings = []
        for game, state in enumerate(self._states):
            if game not in self.failed:
                returns = tuple(map(float, state.returns()))
                scores = tuple(map(round, returns))
                endings.append(GameEnding(self._group(game).players, scores, game // self._plan.samples, returns))
        return endings

    def years(self) -> float:
        """Return 0: these games have no calendar."""
        return 0.0

    def metrics(self) -> dict[str, float]:
        """Return the share of each kind of answer that was not legal, the mean return by seat, and moves of a game."""
        answers = max(self._kinds.total(), 1)
        metrics = {f"answers/{kind}": self._kinds[kind] / answers for kind in KINDS}
        good = [game for game in range(len(self._states)) if game not in self.failed]
        if good:
            returns = np.array([self._states[game].returns() for game in good])
            metrics |= {f"game/return_{seat}": float(returns[:, seat].mean()) for seat in range(self._seats)}
            metrics["game/moves"] = float(np.mean([self._moves[game] for game in good]))
        return metrics

    def close(self) -> None:
        """Do nothing: games hold memory only."""

    @property
    def _seats(self) -> int:
        return int(self._game.num_players())

    def _playing(self) -> list[int]:
        return [game for game, s in enumerate(self._states) if game not in self.failed and not s.is_terminal()]

    def _group(self, game: int) -> Any:
        return self._plan.groups[game // self._plan.samples]

    def _prompt(self, game: int) -> Prompt:
        state, group, move = self._states[game], self._group(game), self._moves[game]
        seat = state.current_player()
        seed, player = mix(group.seed, ANSWERS, game, move), group.players[seat]
        prompt = prompt_of(state, self._answer, seed=seed, game=game, player=player)
        if seat not in group.heroes:
            return prompt
        facts = GroupFacts(game // self._plan.samples, seat, move, prompt.text, crc32(prompt.text.encode()))
        return replace(prompt, facts=facts)

    def _move(self, game: int, option: Option) -> None:
        self._moves[game] += 1
        seed = mix(self._group(game).seed, CHANCE, self._moves[game])
        self._states[game] = past_chance(self._states[game].child(option.value), seed)

    def _play_others(self, games: Iterable[int]) -> None:
        """Make the moves of bots and fixed players until a language model decides, batched by player."""
        while waiting := self._waiting(games):
            for name, numbers in waiting.items():
                states = [self._states[game] for game in numbers]
                seeds = [mix(self._group(game).seed, FALLBACKS, game, self._moves[game]) for game in numbers]
                for game, option in zip(numbers, self._others[name](states, seeds), strict=True):
                    self._move(game, option)

    def _waiting(self, games: Iterable[int]) -> dict[str, list[int]]:
        """Return the games in which a bot or a fixed player decides, by its name."""
        waiting: dict[str, list[int]] = {}
        for game in games:
            if not (state := self._states[game]).is_terminal():
                name = self._group(game).players[state.current_player()]
                if name in self._others:
                    waiting.setdefault(name, []).append(game)
        return waiting


def league_players(config: OpenSpielGRPORunConfig) -> dict[str, Choose]:
    """Open the players of `league.players`.

    Raises `ConfigError` for a bot or code, and `InputError` for a player of another game.
    """
    if not config.league.players:
        return {}
    return _players(open_text_game(config.env.id, config.env.kwargs), config.league.players, "league.players=[{}]")


def _players(game: Any, names: Sequence[str], option: str) -> dict[str, Choose]:
    """Open the state players named by an option, such as PPO policies; they sample their actions by seed."""
    bots = {*GAME.bots, *(f"bot:{name}" for name in GAME.bots)}

    def open_player(name: str) -> Choose | str:
        if name in bots:
            return name
        policy = load(STATE_PLAYER)(name, game)
        return lambda states, seeds: [*map(drawn_option, states, policy(states), seeds)]

    return fixed_players(names, open_player, option=option, reserved=OPENSPIEL_PLAYER)


def choose_randomly(states: Sequence[Any], seeds: Sequence[int]) -> list[Option]:
    """Return a legal action in each state, each equally likely."""
    return [*map(random_option, states, seeds)]


def corpus() -> Iterator[str]:
    """Yield names of actions and prompts of the first decisions of some games, for a tokenizer of their own."""
    yield from probes()
    for name in VIEWS:
        game = open_text_game(name)
        for number in range(20):
            state = past_chance(first_state(game), number)
            while not state.is_terminal():
                menu = action_menu(state)
                yield prompt_text(state, menu)
                yield MOVES.write(menu.options)
                state = past_chance(state.child(random_option(state, number).value), number)


def demonstrations(config: OpenSpielCloneRunConfig, *, games: int, seed: int, threads: int = 1) -> MoveDemonstrations:
    """Return games of `clone.teacher`, or of random players without one.

    Raises `ConfigError` for a teacher that is code, and `InputError` for one of another game.
    """
    game, clone = open_text_game(config.env.id, config.env.kwargs), config.clone
    names = [clone.teacher] if clone.teacher else []
    choose = _players(game, names, "clone.teacher={}").get(clone.teacher, choose_randomly)
    return MoveDemonstrations(game, choose, clone.teacher or clone.bot, games=games, seed=seed)


def bot_answers(name: str, prompts: Sequence[Prompt], *, threads: int = 1) -> list[tuple[Option, ...]]:
    """Return the choices of a scripted player; raises `InputError` for another name."""
    choose("bot", name, GAME.bots)
    return [(random_option(prompt.position, mix(prompt.seed, FALLBACKS)),) for prompt in prompts]


OPENSPIEL = TextGame(
    format=MOVES,
    corpus=corpus,
    task=OpenSpielTask,
    demonstrations=demonstrations,
    references=references,
    bot_answers=bot_answers,
    headline={"moves": "game/moves"},
    league_players=league_players,
)
