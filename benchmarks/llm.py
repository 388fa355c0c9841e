"""GRPO on a language model of the tiny kind: ours and TRL's GRPOTrainer, samples per second of sampling and learning.

Same random weights, adapter, prompts, batch and mean length of answers; contestants take turns, each time in a process
of its own, and medians count. A second table is a whole step of ours with its games: time outside the model, memory.
The hit rate of the prefix cache is compared with the hit rate of a cache without a limit.

    python benchmarks/llm.py --rounds 5 --turns 3
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table

OURS, TRL, STEP = "ours", "TRL", "step"
COLUMNS = ("trainer", "answer tokens", "drawn", "sampled / s", "to TRL", "learned / s", "to TRL", "both / s", "to TRL")
STEP_COLUMNS = ("part", "seconds", "decisions / s", "outside the model")
NUMBERS = ("groups", "samples", "hidden", "layers", "seed", "rounds", "turns", "threads")
QUICK = {"groups": 2, "samples": 2, "hidden": 32, "layers": 1, "rounds": 1, "turns": 1}
Found = dict[str, float]


def main() -> int:
    args = parse()
    if args.alone:
        print(json.dumps(measure_alone(args)))
        return 0
    title = heading("GRPO on a small language model", ("torch", "transformers", "trl"))
    runs: dict[str, list[Found]] = {OURS: [], TRL: [], STEP: []}
    for number in range(args.turns):
        for name in runs:
            print(f"turn {number + 1} of {args.turns}: {name}", file=sys.stderr)
            length = round(runs[OURS][0]["answer"]) if runs[OURS] else 0
            runs[name].append(in_its_own_process(name, args, length))
    publish(title + report(args, {name: middle(found) for name, found in runs.items()}), args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=16, help="prompts in a step (default: 16)")
    parser.add_argument("--samples", type=int, default=8, help="answers to each (default: 8)")
    parser.add_argument("--hidden", type=int, default=128, help="width of the model (default: 128)")
    parser.add_argument("--layers", type=int, default=4, help="layers of the model (default: 4)")
    parser.add_argument("--seed", type=int, default=1, help="of weights, positions and draws (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="steps measured in each turn, after one to warm up")
    parser.add_argument("--turns", type=int, default=3, help="how often each contestant has its turn")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of every contestant")
    parser.add_argument("--quick", action="store_true", help="a few samples of a small model, to test the script")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    parser.add_argument("--alone", choices=[OURS, TRL, STEP], help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    vars(args).update(QUICK if args.quick else {})
    for name in NUMBERS:
        least = {"samples": 2, "seed": 0}.get(name, 1)
        if getattr(args, name) < least:
            parser.error(f"--{name}={getattr(args, name)}: must be at least {least}")
    return args


def in_its_own_process(name: str, args: argparse.Namespace, length: int) -> Found:
    """Run a contestant in another process of this script and return its measurements; its errors are shown."""
    options = [f"--{key}={getattr(args, key)}" for key in NUMBERS]
    command = [sys.executable, "-W", "ignore::FutureWarning", __file__, "--alone", name, f"--length={length}", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_alone(args: argparse.Namespace) -> Found:
    """Return the medians of one contestant, and the peak memory of this process in MiB."""
    from benchmarks.llm_parts import ours, trl_peer
    from benchmarks.llm_parts.work import Size

    size = Size(args.groups, args.samples, args.hidden, args.layers, args.seed)
    if args.alone == OURS:
        found = ours.measure(size, rounds=args.rounds, threads=args.threads)
    elif args.alone == TRL:
        found = trl_peer.measure(size, rounds=args.rounds, threads=args.threads, length=args.length)
    else:
        found = ours.measure_step(size, threads=args.threads)
    return found | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0}


def middle(runs: list[Found]) -> Found:
    """Return the median of every figure."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def report(args: argparse.Namespace, found: dict[str, Found]) -> str:
    """Return all tables, to follow a heading."""
    ours, step, samples = found[OURS], found[STEP], args.groups * args.samples
    size = f"{args.groups} groups x {args.samples} samples"
    return "\n".join(
        [
            f"\n{args.layers} layers x {args.hidden}, {args.threads} threads, float32, LoRA on all layers, "
            f"prompts of {ours['prompt']:.0f} tokens.\n",
            table(COLUMNS, [row(name, found, samples) for name in (OURS, TRL)]),
            f"Peak memory of a process that takes such steps: ours {ours['peak']:.0f} MiB, TRL "
            f"{found[TRL]['peak']:.0f} MiB.\n",
            f"Prompt tokens found already read: {ours['hit_rate']:.1%}; a cache that forgets nothing would find "
            f"{ours['perfect_hit_rate']:.1%}.\n",
            f"## A step of ours at {size}, one year of games\n",
            table(STEP_COLUMNS, step_rows(step)),
            f"The mask, all that keeps answers legal, takes {step['mask']:.1%} of such a step.\n",
            f"Peak memory: {step['peak']:.0f} MiB.",
        ]
    )


def row(name: str, found: dict[str, Found], samples: int) -> list[str]:
    """Return the row of one contestant: lengths, then three speeds, each with its ratio to TRL's."""
    own, peer = found[name], found[TRL]
    lengths = [f"{own['answer']:.1f}", f"{own.get('decided', own['answer']):.1f}"]
    cells = []
    for parts in (("sample",), ("learn",), ("sample", "learn")):
        seconds, theirs = (sum(one[part] for part in parts) for one in (own, peer))
        cells += [f"{samples / seconds:,.1f}", f"{theirs / seconds:.2f}"]
    return [name, *lengths, *cells]


def step_rows(step: Found) -> list[list[str]]:
    """Return the row of a whole step: games, learning, and both."""
    whole = step["rollout"] + step["learning"]
    parts = (
        ("games", step["rollout"], step["outside_rollout"]),
        ("learning", step["learning"], step["outside_learning"]),
        ("both", whole, step["outside"]),
    )
    return [
        [name, f"{seconds:.2f}", f"{step['decisions'] / seconds:,.0f}", f"{outside:.0%}"]
        for name, seconds, outside in parts
    ]


if __name__ == "__main__":
    sys.exit(run_script(main))
