"""Exact policy of a model in a game of OpenSpiel: `python eval/run.py --env openspiel_text --ckpt tiny --exact`.

Asks the model at every information state and prints exploitability, NashConv, values and best responses by seat, and
the information states at which it loses most. Answers from a menu have exact probabilities, those in free text are
sampled. The requests that a server will get, and their price, are printed before the first of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sparring.agents.language.endpoint.price import CHARACTERS, Forecast, spent
from sparring.agents.language.opponents import served, settings_of
from sparring.agents.opponents.players import Player, check_game, find_player, is_server, results_place
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.status import say
from sparring.envs.openspiel_text import GAME, NAME
from sparring.envs.openspiel_text.answers import LEGAL
from sparring.envs.openspiel_text.config import MENU, REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.evaluation.models import ENV, TEMPERATURE, open_model, run_of_model
from sparring.envs.openspiel_text.exact import LostDecision, SampledAnswers, TextDecisions, figures, worst_decisions
from sparring.eval.command import Evaluation, GameEvaluation, make_folders, place_of, use_machine
from sparring.eval.options import CONDITIONS, RESULTS, WHO, CommandText, argument
from sparring.eval.served import AskedModelOptions
from sparring.eval.stats.tables import percent, table

DEFAULT_GAME = "kuhn_poker"
SAMPLES = 32
SCHEMA_VERSION = 1
_PRICE = "a server's prices are --set endpoint.prompt_price=USD endpoint.answer_price=USD"

_EXAMPLES = """\
examples:
  python eval/run.py --env openspiel_text --ckpt tiny --exact                      Kuhn poker
  python eval/run.py --ckpt RUN --exact                                            the game of the run
  python eval/run.py --env openspiel_text --ckpt smollm2 --id leduc_poker --exact
  python eval/run.py --env openspiel_text --ckpt FOLDER --exact --answers reasoning --samples 64
  python eval/run.py --env openspiel_text --ckpt http://127.0.0.1:8000/v1 --set model.name=MODEL --exact
  python eval/run.py --env openspiel_text --ckpt http://127.0.0.1:8000/v1 --set endpoint.api=chat \\
      endpoint.structured=none endpoint.prompt_price=0.5 endpoint.answer_price=2 --answers reasoning --exact

exit codes: 0 done, 2 bad input or a failing server, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class OpenSpielTextOptions(AskedModelOptions):
    """Options of the command; the model has not been located."""

    TEXT = CommandText(
        "eval/run.py",
        "Ask a language model at every information state of a game of OpenSpiel, and print how much its policy can be "
        "exploited, and where it loses.",
        _EXAMPLES,
        env=NAME,
    )
    ABSENT: ClassVar[Mapping[str, str]] = {"--prompt-price": _PRICE, "--answer-price": _PRICE}
    ckpt: str = argument("", metavar="C", group=WHO)
    """A run that trained a language model in these games, a model's folder, tiny, smollm2, or a server's address."""
    id: str = argument("", metavar="GAME", group=CONDITIONS)
    """The game, such as leduc_poker or goofspiel(num_cards=3) (default: that of the run, else kuhn_poker)."""
    exact: bool = argument(False, group=CONDITIONS)
    """Ask at every information state."""
    answers: str = argument("", (MENU, REASONING), metavar="F", group=CONDITIONS)
    """Menu, a legal action by an exact constraint, or reasoning, free text (default: as in training, else menu)."""
    samples: int = argument(SAMPLES, "[2, 100000]", metavar="K", group=CONDITIONS)
    """Answers in free text at each information state."""
    tokens: int = argument(0, "[0, 100000]", metavar="N", group=CONDITIONS)
    """Most tokens of free text; 0 is as in training, else 256."""
    temperature: float | None = argument(None, "[0, 10]", metavar="T", group=CONDITIONS)
    """Sampling temperature (default: that of the training, else 1)."""
    out: Path | None = argument(None, metavar="DIR", group=RESULTS)
    """Write openspiel_text.md and .json there (default: eval.md and .json beside --ckpt)."""

    def implied(self) -> dict[str, Any]:
        """Return the settings."""
        return {"settings": settings_of(self.set, ENV)}

    def check(self) -> None:
        """Raise `InputError` for a missing model, and where there is nothing to do."""
        self.require_given("ckpt", "name a run, a model's folder, tiny, smollm2, or a server's address")
        if not self.exact:
            raise InputError("--exact is missing: games in text are measured by the model's exact policy; add --exact")
        self.check_served()


@dataclass(frozen=True)
class ExactConditions:
    """The game and how it is answered, of the options and of the model's run."""

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


def evaluate(options: OpenSpielTextOptions) -> Evaluation:
    """Ask the model, and return the report. Raises `InputError` for bad input."""
    player = find_player(options.ckpt, GAME)
    if isinstance(player, Path) and not player.is_dir():
        check_game(GAME, player)
    if isinstance(player, str) and player in GAME.bots:
        raise InputError(f"--ckpt {options.ckpt}: is a bot; {options.ckpt} draws uniformly, a row that each table has")
    stem = place_of(options.out, results_place(player), NAME)
    make_folders([stem[0] if stem else None], files=[options.transcripts])
    stated = conditions(options, player)
    try:
        from sparring.envs.openspiel_text.decisions import open_text_game

        open_text_game(stated.game, stated.kwargs)
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "--id ")) from error
    decisions = TextDecisions.of(stated.game, stated.kwargs, stated.answer)
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    if isinstance(player, str) and is_server(player):
        say(price(options, decisions, stated.answer), enabled=not options.quiet)
    model = open_model(player, device=device, temperature=stated.temperature, settings=options.settings)
    try:
        if model.endpoint:
            asked = {"--id": stated.game, "kwargs": stated.kwargs, "--answers": stated.answer.form}
            asked |= {"--tokens": stated.answer.max_tokens, "--seed": options.seed}
            options.follow(model.backend, stem and stem[0] / stem[1], asked)
        sampled = None
        if stated.answer.form == MENU:
            values = decisions.exact(model.backend.policies)
        else:
            sampled = decisions.sampled(model.backend.decide, options.samples, options.seed)
            values = sampled.table()
        if model.endpoint:
            model.backend.discard_kept()
    finally:
        model.backend.close()
    report = report_of(options, stated, model.name, decisions, values, sampled)
    if model.endpoint:
        report["endpoint"] = model.backend.metrics()
    return Evaluation(to_markdown(report), json.dumps(report, indent=1) + "\n", stem, quiet=options.quiet)


def price(options: OpenSpielTextOptions, decisions: TextDecisions, answer: OpenSpielAnswerConfig) -> str:
    """Return the requests and tokens of a run on a server, about, and their price if it is given.

    A menu of n actions is a tree with at most n - 1 forks, each of which is a request for one token.
    """
    endpoint = served(options.settings)
    if answer.form == REASONING:
        counts, longest = [options.samples] * len(decisions.prompts), endpoint.most_tokens or answer.max_tokens
    else:
        counts, longest = [len(prompt_options(prompt)) - 1 for prompt in decisions.prompts], 1
    requests = sum(counts)
    prompts = sum(n * len(prompt.text) for n, prompt in zip(counts, decisions.prompts, strict=True)) // CHARACTERS
    forecast = Forecast(requests, prompts, requests * longest)
    most = "" if answer.form == REASONING else "at most "
    return f"{len(decisions.prompts)} prompts: {forecast.text(endpoint, most)}"


def prompt_options(prompt: Any) -> Any:
    """Return the legal actions of a prompt."""
    from sparring.envs.openspiel_text.decisions import action_menu

    return action_menu(prompt.position).options


def report_of(
    options: OpenSpielTextOptions,
    stated: ExactConditions,
    name: str,
    decisions: TextDecisions,
    values: Any,
    sampled: SampledAnswers | None,
) -> dict[str, Any]:
    """Return the content of the JSON file."""
    tree = decisions.tree
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": NAME,
        "player": name,
        "game": stated.game,
        "kwargs": dict(stated.kwargs),
        "answer": stated.answer.form,
        "temperature": stated.temperature,
        "information_states": len(decisions.asked),
        "prompts": len(decisions.prompts),
        "seed": options.seed,
        "command": options.command,
        "exact": sampled is None,
        **figures(tree, values),
        "uniform": figures(tree, tree.uniform()),
        "worst": [vars(row) for row in worst_decisions(decisions, values)],
    }
    if sampled is not None:
        report["samples"], report["answers"] = options.samples, sampled.kinds()
        report["answers"][LEGAL] = int(sampled.counts.sum()) - sum(sampled.kinds().values())
        report["exploitability_interval"] = sampled.interval(tree.exploitability, options.seed)
    return report


def to_markdown(report: Mapping[str, Any]) -> str:
    """Return the report as text."""
    if report["exact"]:
        how = "The probability of every action is exact."
    else:
        how = f"Every probability is the share of {report['samples']} answers in free text."
    text = (
        f"{report['information_states']} information states, {report['prompts']} prompts, temperature "
        f"{report['temperature']:g}. {how} Exploitability is the mean over the seats of what a best response gains."
    )
    seats = range(len(report["values"]))
    heads = ["policy", "exploitability", "NashConv", *(f"value, seat {n}" for n in seats)]
    heads += [f"best response, seat {n}" for n in seats]
    rows = [_row(report["player"], report), _row("uniform", report["uniform"])]
    parts = [f"# {report['game']} in text: {report['player']}", text, table(heads, rows)]
    if not report["exact"]:
        low, high = report["exploitability_interval"]
        counts = ", ".join(f"{count} {kind}" for kind, count in report["answers"].items())
        parts.append(
            f"The 95 % interval of the exploitability is {low:.4f} to {high:.4f}, by a bootstrap of the answers. "
            f"Answers: {counts}. A random legal action replaces each that is not legal."
        )
    if "endpoint" in report:
        parts.append(spent(report["endpoint"]))
    if report["worst"]:
        worst = [LostDecision(**row) for row in report["worst"]]
        cells = [
            [row.state, f"{row.loss:.4f}", percent(row.loss / report["nash_conv"]), _policy(row.policy)]
            for row in worst
        ]
        parts += ["Where it loses most:", table(("information state", "loss", "% of NashConv", "policy"), cells)]
    return "\n\n".join([*parts, f"Command: `{report['command']}`"]) + "\n"


def _row(name: str, values: Mapping[str, Any]) -> list[str]:
    numbers = [values["exploitability"], values["nash_conv"], *values["values"], *values["best_responses"]]
    return [name, *(f"{number:.4f}" for number in numbers)]


def _policy(policy: Mapping[str, float]) -> str:
    return ", ".join(f"{action} {probability:.3f}" for action, probability in policy.items())


EVALUATION = GameEvaluation(OpenSpielTextOptions, evaluate, {}, {})
