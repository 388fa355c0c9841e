"""Text of `python train.py --help`: the runs with their purpose, every option with its default and range.

Both are read from their definitions, the run files and the schema, so the text stays current.
"""

from __future__ import annotations

import re
from dataclasses import MISSING
from textwrap import wrap

from sparring.configs.core.allowed import describe
from sparring.configs.kinds import declared, owners
from sparring.configs.load import ROOTS, runs
from sparring.configs.schema import RUNS

WIDTH = 120
LISTS = re.compile(r"\b(phases|stages|randomization|events)\.")
HEAD = """\
usage: python train.py +run=NAME [key=value ...]

Trains the run NAME and writes a folder under checkpoints/. Every option below can be set, in a run file or here:
  python train.py +run=quickstart seed=3 env.num_envs=64
  python train.py +run=unified_dr_cpu phases.0.updates=20 phases.1.updates=10
  python train.py env=gymnasium env.id=CartPole-v1
  python train.py +run=unified_dr_gpu_v3 scale=0.01

  scale=S shrinks the run file NAME: its updates and moments by S; its intervals and sizes (matches, steps of a
          rollout, minibatch, games of evaluations) by the root of S. Phases, stages, events and evaluations all still
          happen, in the same order. Learning rate, gamma, epochs, network and rewards stay, and options typed beside
          it hold as they are. docs/long_runs.md
  --help  this text
  --cfg   print the configuration as YAML and stop
  --multirun  one run per combination of values, as in seed=1,2,3; docs/scaling.md
"""
OPTIONS = "options: key=default, what it may be; configs/schema.py and configs/language.py say what each one means"


def help_text() -> str:
    """Return usage, runs and options as text."""
    width = max(map(len, runs()))
    chosen = [f"  {name:<{width}}  {purpose}" for name, purpose in runs().items()]
    return "\n".join([HEAD, "runs", *chosen, "", OPTIONS, *_option_lines()])


def _option_lines() -> list[str]:
    keys = {key: declared(owners(key)[0])[key] for kind in RUNS for key in declared(kind)}
    lines = []
    for key, option in sorted(keys.items(), key=lambda item: ROOTS.index(item[0].split(".")[0])):
        allowed, value = option.metadata.get("allowed"), option.default
        typed = LISTS.sub(r"\1.0.", key)
        default = f"{typed}={'null' if value is None else '[]' if value is MISSING else value}"
        text = f"  {default:<40}  {describe(allowed) if allowed else 'True or False'}{_only(key)}".rstrip()
        lines += wrap(text, WIDTH, subsequent_indent=" " * 44, drop_whitespace=True, break_on_hyphens=False)
    return lines


def _only(key: str) -> str:
    """Return the games or trainers of an option, empty if all have it."""
    kinds = owners(key)
    policies = [kind for kind in RUNS if "ppo" in kind.trainers]
    if len(kinds) == len(RUNS) or kinds == policies:
        return "" if len(kinds) == len(RUNS) else "; ppo and sb3 only"
    if any(kind in policies for kind in kinds):
        return f"; {' and '.join(dict.fromkeys(kind.title for kind in kinds))} only"
    return f"; {' and '.join(trainer for kind in kinds for trainer in kind.trainers)} only"
