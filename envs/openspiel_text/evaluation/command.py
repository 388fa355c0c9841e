"""A model in a game of OpenSpiel, exactly or in matches: `python eval/run.py --env kuhn_text --ckpt tiny --exact`.

With --exact it queries the model at every information state and prints exploitability, NashConv, values and best
responses by seat, and the information states with the largest losses. Answers from a menu have exact probabilities,
those in free text are sampled. Without it, the model plays matches against references (`matches.py`), in games of any
size. A server's number of requests and their price are printed first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sparring.agents.language.endpoint.price import spent
from sparring.agents.opponents.players import is_server, results_place
from sparring.configs.core.status import say
from sparring.envs.openspiel_text import NAME
from sparring.envs.openspiel_text.config import MENU, REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.evaluation.models import open_model
from sparring.envs.openspiel_text.evaluation.options import (
    ExactConditions,
    OpenSpielTextOptions,
    conditions,
    cost,
    find_model,
    follow,
    open_stated_game,
    priced,
)
from sparring.envs.openspiel_text.exact import LostDecision, SampledAnswers, TextDecisions, figures, worst_decisions
from sparring.envs.text_moves import LEGAL
from sparring.eval.command import Evaluation, GameEvaluation, make_folders, place_of, use_machine
from sparring.eval.stats.tables import percent, table

SCHEMA_VERSION = 1


def evaluate(options: OpenSpielTextOptions) -> Evaluation:
    """Measure the model, and return the report. Raises `InputError` for bad input."""
    if options.exact:
        return evaluate_exactly(options)
    from sparring.envs.openspiel_text.evaluation.matches import evaluate_matches

    return evaluate_matches(options)


def evaluate_exactly(options: OpenSpielTextOptions) -> Evaluation:
    """Query the model at every information state, and return the report. Raises `InputError` for bad input."""
    player = find_model(options.ckpt)
    stem = place_of(options.out, results_place(player), NAME)
    make_folders([stem[0] if stem else None], files=[options.transcripts])
    stated = conditions(options, player)
    open_stated_game(stated)
    decisions = TextDecisions.of(stated.game, stated.kwargs, stated.answer)
    if options.price:
        return priced(price(options, decisions, stated.answer))
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    if isinstance(player, str) and is_server(player):
        say(price(options, decisions, stated.answer), enabled=not options.quiet)
    model = open_model(player, device=device, temperature=stated.temperature, settings=options.settings)
    try:
        follow(options, model, player, stated)
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
    """Return the approximate requests and tokens of a run on a server, and their price if known.

    A menu of n actions is a tree with at most n - 1 forks, and each fork is a request for one token.
    """
    times = options.samples if answer.form == REASONING else 1
    return f"{len(decisions.prompts)} prompts: {cost(options, decisions.prompts, times, answer)}"


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
        parts += ["Largest losses:", table(("information state", "loss", "% of NashConv", "policy"), cells)]
    return "\n\n".join([*parts, f"Command: `{report['command']}`"]) + "\n"


def _row(name: str, values: Mapping[str, Any]) -> list[str]:
    numbers = [values["exploitability"], values["nash_conv"], *values["values"], *values["best_responses"]]
    return [name, *(f"{number:.4f}" for number in numbers)]


def _policy(policy: Mapping[str, float]) -> str:
    return ", ".join(f"{action} {probability:.3f}" for action, probability in policy.items())


EVALUATION = GameEvaluation(OpenSpielTextOptions, evaluate, {}, {})
