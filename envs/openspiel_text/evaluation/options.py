"""Options of a language model's evaluation in OpenSpiel games, shared by --exact and matches.

The game and how it is answered, the model, and the requests, tokens and price of a server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sparring.agents.language.endpoint.price import CHARACTERS, Forecast
from sparring.agents.language.opponents import served, settings_of
from sparring.agents.opponents.players import Player, check_game, find_player, results_place
from sparring.configs.core.device import LOCAL
from sparring.configs.core.errors import ConfigError, InputError
from sparring.envs.game import aliases
from sparring.envs.openspiel_text import GAME, NAME
from sparring.envs.openspiel_text.answers import MOVES
from sparring.envs.openspiel_text.config import MENU, REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.evaluation.models import ENV, TEMPERATURE, run_of_model
from sparring.eval.command import Evaluation, place_of
from sparring.eval.options import CONDITIONS, RESULTS, WHO, CommandText, argument, check_number
from sparring.eval.paired.options import PairedEvaluationOptions
from sparring.eval.served import AskedModelOptions

DEFAULT_GAME = "kuhn_poker"
SAMPLES = 32
GAMES, ALLOWED_GAMES = 100, "[1, 1000000]"
UNIFORM = "openspiel:uniform"
OF_MATCHES = ("opponents", "games", "anchor", "require", "ladder", "sprt", "max_games")
"""Options without an effect beside --exact."""
_PRICE = "a server's prices are --set endpoint.prompt_price=USD endpoint.answer_price=USD"

_EXAMPLES = """\
examples:
  python eval/run.py --env kuhn_text --ckpt tiny --exact                           Kuhn poker
  python eval/run.py --ckpt RUN --exact                                            the game of the run
  python eval/run.py --env leduc_text --ckpt smollm2 --exact
  python eval/run.py --env openspiel_text --ckpt smollm2 --id liars_dice --exact
  python eval/run.py --env openspiel_text --ckpt FOLDER --exact --answers reasoning --samples 64
  python eval/run.py --env openspiel_text --ckpt http://127.0.0.1:8000/v1 --set model.name=MODEL --exact
  python eval/run.py --env openspiel_text --ckpt http://127.0.0.1:8000/v1 --set endpoint.api=chat \\
      endpoint.structured=none endpoint.prompt_price=0.5 endpoint.answer_price=2 --answers reasoning --exact
  python eval/run.py --env leduc_text --ckpt http://127.0.0.1:8000/v1 --set endpoint.prompt_price=0.5 --exact --price
  python eval/run.py --env openspiel_text --ckpt tiny --id connect_four --opponents openspiel:uniform openspiel:mcts:100

exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a failing server,
130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class OpenSpielTextOptions(PairedEvaluationOptions, AskedModelOptions):
    """Options of the command; the model is not located yet."""

    TEXT = CommandText(
        "eval/run.py",
        "Query a language model at every information state of an OpenSpiel game and print the exploitability of its "
        "policy and its largest losses (--exact), or play it from every seat against references.",
        _EXAMPLES,
        env=NAME,
    )
    ABSENT: ClassVar[Mapping[str, str]] = {"--prompt-price": _PRICE, "--answer-price": _PRICE}
    ckpt: str = argument("", metavar="C", group=WHO)
    """A run that trained a language model in these games, a model's folder, tiny, smollm2, or a server's address."""
    OUTPUTS: ClassVar[Sequence[str]] = ()
    MISSING: ClassVar[str] = "name a run, a model's folder, tiny, smollm2, or a server's address"
    opponents: tuple[str, ...] = argument(
        (UNIFORM,),
        metavar="O",
        group=WHO,
        split=True,
        text="openspiel:uniform, openspiel:mcts:100, openspiel:ismcts:100, openspiel:cfr:10, module:Name of a Python "
        "object, tiny, smollm2, a model's folder, and policies of the game",
    )
    games: int | None = argument(None, metavar="N", group=CONDITIONS)  # type: ignore[assignment]
    """Games per opponent, a multiple of the seats (default: about 100)."""
    stochastic: bool = True
    executor: str = LOCAL
    address: str = "auto"
    workers: int = 1
    id: str = argument("", metavar="GAME", group=CONDITIONS)
    """The game, such as leduc_poker or goofspiel(num_cards=3) (default: the run's, else kuhn_poker)."""
    exact: bool = argument(False, group=CONDITIONS)
    """Query the model at every information state."""
    answers: str = argument("", (MENU, REASONING), metavar="F", group=CONDITIONS)
    """menu (a legal action by an exact constraint) or reasoning (free text) (default: as in training, else menu)."""
    samples: int = argument(SAMPLES, "[2, 100000]", metavar="K", group=CONDITIONS)
    """Number of free-text answers per information state."""
    tokens: int = argument(0, "[0, 100000]", metavar="N", group=CONDITIONS)
    """Maximum tokens of free text; 0: as in training, else 256."""
    temperature: float | None = argument(None, "[0, 10]", metavar="T", group=CONDITIONS)
    """Sampling temperature (default: as in training, else 1)."""
    price: bool = argument(False, group=RESULTS)
    """Print a server's number of requests and their price, and exit."""
    out: Path | None = argument(None, metavar="DIR", group=RESULTS)
    """Folder for openspiel_text.md and .json (default: eval.md and .json next to --ckpt)."""

    def implied(self) -> dict[str, Any]:
        """Return the settings, and the game that an alias in --env stands for."""
        _, env_id = aliases().get(self.env, (None, self.id))
        if self.id and self.id != env_id:
            raise InputError(f"--env {self.env}: is the game {env_id}; leave out --id {self.id}")
        return {**super().implied(), "settings": settings_of(self.set, ENV), "id": env_id}

    def check(self) -> None:
        """Raise `InputError` for a missing model, and for options without an effect."""
        self.check_served()
        if self.exact:
            self.require_given("ckpt", self.MISSING)
            self._refuse(OF_MATCHES, "--exact, which does not play matches: leave it out")
            return
        super().check()
        if self.gives("samples"):
            raise InputError("--samples needs --exact; use --games for matches")

    def check_games(self) -> None:
        """Raise `InputError` for a number of games out of range; the number of seats is not known yet."""
        if self.games is not None:
            check_number("--games", self.games, ALLOWED_GAMES)


@dataclass(frozen=True)
class ExactConditions:
    """The game and the form of the answers, from the options and the model's run."""

    game: str
    kwargs: Mapping[str, Any]
    answer: OpenSpielAnswerConfig
    temperature: float


def conditions(options: OpenSpielTextOptions, player: Player) -> ExactConditions:
    """Return what is measured; raises `InputError` for a run in another game."""
    run = run_of_model(player)
    answer = run.env.answer if run else OpenSpielAnswerConfig()
    form, tokens = options.answers or answer.form, options.tokens or answer.max_tokens
    temperature = run.model.temperature if run else TEMPERATURE
    temperature = temperature if options.temperature is None else options.temperature
    own = run is not None and options.id in ("", run.env.id)
    game, kwargs = (run.env.id, run.env.kwargs) if own and run else (options.id or DEFAULT_GAME, {})
    return ExactConditions(game, kwargs, OpenSpielAnswerConfig(form, tokens), temperature)


def find_model(text: str) -> Player:
    """Locate the model of --ckpt. Raises `InputError` for a bot, and a file of another game."""
    player = find_player(text, GAME)
    if isinstance(player, Path) and not player.is_dir():
        check_game(GAME, player)
    if isinstance(player, str) and player in GAME.bots:
        raise InputError(f"--ckpt {text}: is a bot; every table already has a row for uniform play")
    return player


def open_stated_game(stated: ExactConditions) -> Any:
    """Return the `pyspiel.Game`. Raises `InputError` for one that cannot be played in text."""
    from sparring.envs.openspiel_text.decisions import open_text_game

    try:
        return open_text_game(stated.game, stated.kwargs)
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "--id ")) from error


def follow(options: OpenSpielTextOptions, model: Any, player: Player, stated: ExactConditions) -> None:
    """Store the answers of a server and print their cost; a model in this process needs neither."""
    if model.endpoint:
        asked: dict[str, Any] = {"--id": stated.game, "kwargs": stated.kwargs, "--answers": stated.answer.form}
        asked |= {"--tokens": stated.answer.max_tokens, "--seed": options.seed}
        stem = place_of(options.out, results_place(player), NAME)
        options.follow(model.backend, stem and stem[0] / stem[1], asked)


def priced(text: str) -> Evaluation:
    """Return only the price."""
    return Evaluation(text + "\n", json.dumps({"kind": "price", "price": text}) + "\n")


def cost(options: OpenSpielTextOptions, prompts: Sequence[Any], times: float, answer: OpenSpielAnswerConfig) -> str:
    """Return the requests, tokens and price of asking each prompt so many times, and of the server's trial."""
    endpoint, free = served(options.settings), answer.form == REASONING
    forks = [times if free else times * (len(prompt_options(prompt)) - 1) for prompt in prompts]
    requests, longest = round(sum(forks)), (endpoint.most_tokens or answer.max_tokens) if free else 1
    tokens = int(sum(n * len(prompt.text) for n, prompt in zip(forks, prompts, strict=True)) // CHARACTERS)
    asked = Forecast(requests, tokens, requests * longest) + Forecast.of_trial(endpoint, MOVES)
    return asked.text(endpoint, "" if free else "at most ")


def prompt_options(prompt: Any) -> Any:
    """Return the legal actions of a prompt."""
    from sparring.envs.openspiel_text.decisions import action_menu

    return action_menu(prompt.position).options
