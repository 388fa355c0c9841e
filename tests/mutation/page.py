"""The page of a mutation run, docs/results/mutation.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.mutation.trial import TrialResult

HEAD = """\
# Planted faults

How many faults do the tests notice? **{caught} of {count}.** `make mutation` plants each of {listed} faults in a copy
of the working tree. For each it runs only the tests that should notice it. Faults are turned signs, shifted bounds,
swapped seats, missing masks, wrong discounts, stale opponents, sampling in place of greedy choices, skipped checks.
Each fault in [tests/mutation/faults/](../../tests/mutation/faults/) names its file, the text it replaces, and its
tests. `make test` checks that all faults still fit the code.

| | |
| --- | --- |
| command | `{command}` |
| commit | {commit} |
| machine | {machine} |
| time | {minutes:.0f} minutes, one process |
| tried | {count} of {listed} |
| caught | {caught} of {count} ({share:.1%}) |

`MUTATION_ARGS="--results FILE"` continues a run. The faults are fixed text, so a run needs no seed.

| area | faults | caught |
| --- | --- | --- |
"""
SURVIVORS = "\n## Survivors\n\n"
BEYOND = """
## What this does not show

The faults were written by hand for code where a silent mistake would change results. The share is of this list, not
of all possible mistakes. A fault counts as caught when one of its tests fails, or when they take more than
{factor:.0f} times as long as without it. Tests that are not named for a fault may notice it too.
"""


def page(
    results: Sequence[TrialResult],
    *,
    command: str,
    commit: str,
    machine: str,
    seconds: float,
    factor: float,
    listed: int,
) -> str:
    """Return the page as markdown."""
    caught = sum(result.caught for result in results)
    facts = {"command": command, "commit": commit, "machine": machine, "minutes": seconds / 60}
    text = HEAD.format(listed=listed, count=len(results), caught=caught, share=caught / max(len(results), 1), **facts)
    every, found = (Counter(one.fault.area for one in some) for some in (results, [r for r in results if r.caught]))
    text += "".join(f"| {area} | {every[area]} | {found[area]} |\n" for area in sorted(every))
    rest = [result for result in results if not result.caught]
    text += SURVIVORS + ("\n".join(map(_survivor, rest)) or "None.") + "\n"
    return text + BEYOND.format(factor=factor)


def _survivor(result: TrialResult) -> str:
    fault = result.fault
    return f"- {fault.name} (`{fault.file}`): {fault.equivalent or f'{result.outcome}; no test notices it.'}"
