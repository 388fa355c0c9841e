"""Texts of `python train.py --help`: an overview, all runs with their purpose, every option with default and range.

Runs and options are read from their definitions, the run files and the schema, so the text stays current.
`--help SECTION` prints the options of one section, each with its meaning, which is its docstring in the schema.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, is_dataclass
from functools import cache
from importlib import import_module
from textwrap import wrap
from typing import Any, get_args, get_type_hints

from sparring.configs.core.allowed import describe, field_texts
from sparring.configs.core.errors import choose
from sparring.configs.core.parts import parts
from sparring.configs.kinds import declared, joined, owners, run_kinds
from sparring.configs.load import ROOTS, runs

WIDTH = 120
LISTS = re.compile(r"\b(phases|stages|randomization|events)\.")
FIRST_STEPS = """\
train.py: no run given. Six commands to try:

  python train.py +run=quickstart                   a dogfight policy; ten minutes on two cores
  python train.py +run=quickstart max_updates=20    the same in a minute, with a weaker policy
  python train.py +run=diplomacy_ppo                one power of Diplomacy against six bots; twenty minutes
  python train.py env=gymnasium env.id=CartPole-v1  any Gymnasium environment; this one takes a minute
  python train.py env=pettingzoo env.id=my_package:game
                                                    your own game, docs/tutorials/your_game.md
  python eval/run.py --ckpt released/dogfight_quickstart --replay match.html
                                                    evaluate a released policy and write a match to watch

See python train.py --help; --help runs lists all runs, --help ppo one section; docs/training.md is the guide."""
"""Printed without arguments."""
OVERVIEW = """\
usage: python train.py +run=NAME [KEY=VALUE ...]

Trains an agent from the run file NAME, with overrides. Writes its policy, metrics and evaluations to a folder under
checkpoints/. Resume a stopped run with resume=FOLDER.

some runs (--help runs lists all)
  +run=quickstart                   dogfight: beats the five bots after ten minutes on two cores
  +run=unified_dr_cpu               dogfight: curriculum, self-play, and a finish under randomized physics
  +run=diplomacy_ppo                Diplomacy: one power against six bots
  +run=diplomacy_quickstart         Diplomacy: a language model learns by GRPO; needs the extra llm
  env=kuhn_text                     Kuhn poker: a language model learns by GRPO in all seats; also leduc_text
  env=gymnasium env.id=CartPole-v1  any environment of Gymnasium
  env=pettingzoo env.id=my_package:game
                                    any PettingZoo game, or your own; env=openspiel for OpenSpiel
  +run=./mine.yaml                  your own run file, by its path

some options (--help options lists all, --help ppo one section, --help ppo.clip one option)
  name=mine                  name of the folder; an existing name continues that run
  seed=3                     the random seed
  max_updates=20             stop early
  scale=0.01                 shrink the whole run, phases and evaluations included
  device=cuda                the device; auto uses a GPU if there is one
  threads=2                  CPU threads
  env.num_envs=64            matches played at once
  ppo.learning_rate=1e-4     step size of the optimizer
  init_from=mine             start from the policy of another run
  logger.wandb=offline       log to Weights & Biases as well

  --cfg          print the configuration as YAML and stop
{sweeps}  --help all     all runs and all options with their meaning

docs/training.md is the guide.""".format(sweeps="".join(f"{sweep.usage}\n" for sweep in parts("sweeps").values()))
"""Printed by --help: one screen."""
HEAD = """\
scale=S shrinks a run, as in scale=0.01: updates and moments by S, intervals and sizes (matches, rollout steps,
minibatch, games of evaluations) by the root of S. All phases, stages, events and evaluations still happen, in the same
order. Learning rate, gamma, epochs, network, rewards and options on the command line do not change. docs/training.md
"""
OPTIONS = "options: key=default, allowed values, and the meaning below; --help SECTION prints one section"
SECTIONS = {
    "general": "the run: name, trainer, machine, length, files",
    "env": "the game and the number of parallel matches",
    "network": "policy and value network of ppo and sb3",
    "ppo": "rollout, loss and optimizer of ppo and sb3",
    "phases": "the schedule: opponents, self-play, randomization, events",
    "self_play": "the pool of snapshots and sampling from it",
    "evaluation": "evaluations during training",
    "guard": "the response to an update that breaks the policy",
    "logger": "progress bar, W&B and trackio; metrics.jsonl and TensorBoard are always written",
    "model": "the language model of grpo and clone",
    "grpo": "rollouts, rewards, advantages and loss of grpo",
    "league": "opponents of grpo and their ratings",
    "clone": "imitation of a bot or of reference answers",
    "distill": "imitation of a teacher, such as the search",
    "overfit": "a check that training can overfit one batch",
    "tasks": "tasks of chess in text",
}
"""Sections of --help, one line each."""
GENERAL = "general"
"""Section of the options outside sections."""
_type_hints = cache(get_type_hints)  # the same sections for hundreds of options


def help_on(name: str) -> str:
    """Return what `--help NAME` prints: `runs`, `options`, `all`, or a section. Raises `UnknownNameError`."""
    topics = {"runs": runs_help, "options": options_help, "all": help_text}
    return topics[name]() if name in topics else section_help(name)


def help_text() -> str:
    """Return the full help: the overview, runs, sweeps and options."""
    abouts = [f"{sweep.about}\n" for sweep in parts("sweeps").values()]
    return "\n".join([OVERVIEW, "", HEAD, *abouts, runs_help(), "", options_help()])


def runs_help() -> str:
    """Return the runs with their purpose, and other ways to train several at once."""
    lines = ["runs", *_names(runs())]
    for key, sweep in parts("sweeps").items():
        module, _, name = sweep.names.partition(":")
        lines += ["", f"{key}s", *_names(getattr(import_module(module), name)())]
    return "\n".join(lines)


def options_help() -> str:
    """Return all options with their meaning, by section."""
    return "\n".join([OPTIONS, *_option_lines()])


def _names(purposes: Mapping[str, str]) -> list[str]:
    width = max(map(len, purposes))
    return [f"  {name:<{width}}  {purpose}" for name, purpose in purposes.items()]


def section_help(name: str) -> str:
    """Return the options of a section, or one option, as text: default, allowed values, meaning.

    Raises `UnknownNameError` for an unknown section.
    """
    keys = _options()
    parts = [key.split(".") for key in keys]
    groups = dict.fromkeys([GENERAL, *(".".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1))])
    sections = [group for group in groups if group not in keys]
    section = LISTS.sub(r"\1.", re.sub(r"\.\d+", "", name))
    if section not in groups:
        choose("section", name, ["runs", "options", "all", *sections])
    chosen = [key for key in keys if _belongs(key, section)]
    return "\n".join(line for key in chosen for line in (*_option_line(key, keys[key]), *_meaning_lines(key)))


def option_keys() -> list[str]:
    """Return the bare keys of all options, by section."""
    return [*_options()]


def meaning(key: str) -> str:
    """Return the docstring of an option by its bare key, such as `phases.floor`, on one line; empty without one."""
    for kind in owners(key):
        section: Any = kind
        *sections, name = key.split(".")
        for part in sections:
            hint = _type_hints(section)[part]
            section = next(part_type for part_type in (hint, *get_args(hint)) if is_dataclass(part_type))
        if text := next(filter(None, (field_texts(owner).get(name) for owner in inspect.getmro(section))), ""):
            return text
    return ""


def _options() -> dict[str, Field[Any]]:
    """Return the options of all kinds of run by bare key, in the order of their sections."""
    keys = {key: declared(owners(key)[0])[key] for kind in run_kinds() for key in declared(kind)}
    return dict(sorted(keys.items(), key=lambda item: ROOTS.index(item[0].split(".")[0])))


def _belongs(key: str, section: str) -> bool:
    return "." not in key if section == GENERAL else f"{key}.".startswith(f"{section}.")


def _option_lines() -> Iterator[str]:
    """Yield all options with their meaning, by section."""
    keys = _options()
    for section, about in SECTIONS.items():
        inside = [key for key in keys if _belongs(key, section)]
        if inside:  # the section of a deleted part is empty
            yield from ("", f"{section}: {about}")
        for key in inside:
            yield from (*_option_line(key, keys[key]), *_meaning_lines(key))


def _option_line(key: str, option: Field[Any]) -> list[str]:
    allowed, value = option.metadata.get("allowed"), option.default
    typed = LISTS.sub(r"\1.0.", key)
    default = f"{typed}={'null' if value is None else '[]' if value is MISSING else value}"
    text = f"  {default:<40}  {describe(allowed) if allowed else 'True or False'}{_only(key)}".rstrip()
    return wrap(text, WIDTH, subsequent_indent=" " * 44, drop_whitespace=True, break_on_hyphens=False)


def _meaning_lines(key: str) -> Iterator[str]:
    """Yield the lines below an option: its meaning, and what it needs to have an effect."""
    needs = declared(owners(key)[0])[key].metadata.get("needs", ())
    text = " ".join(filter(None, (meaning(key), f"Needs {', '.join(needs)}." if needs else "")))
    yield from wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False)


def _only(key: str) -> str:
    """Return the games or trainers of an option, empty if all have it."""
    everywhere = len(kinds := owners(key)) == len(run_kinds())
    policies = [kind for kind in run_kinds() if "ppo" in kind.trainers]
    if everywhere or kinds == policies:
        return "" if everywhere else "; ppo and sb3 only"
    if any(kind in policies for kind in kinds):
        return f"; {joined(kind.title for kind in kinds)} only"
    return f"; {joined(trainer for kind in kinds for trainer in kind.trainers)} only"
