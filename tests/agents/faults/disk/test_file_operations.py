"""Every file operation of a run fails once, or the process is killed before it.

The session survives, with an alert where something is missing, or ends with one line and exit code 2. What was saved
before is whole, and the next session ends as an undisturbed run does, bit for bit: states, rows and policies. Every
test run samples the operations by the functions that lead to them; `make slow` takes all of them.
"""

import os
import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest

from tests.agents.faults.disk.faulty_files import FAULTS
from tests.agents.faults.disk.sessions import RUNS, SESSIONS, prepare

SAMPLES = {"ppo": {"start": 4, "resume": 2, "finished": 1}, "grpo": {"resume": 1}, "clone": {"start": 1}}
"""Cases in every test run, by run and session."""


MEMORY = Path("/dev/shm")
"""A file system without a disk, on which no fsync waits; faults come from the operations, not from the disk."""


@pytest.fixture(scope="module")
def bench():
    with TemporaryDirectory(prefix="faults-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield cache(lambda run: prepare(run, Path(mkdtemp(prefix=run, dir=folder)).resolve()))


def cases(operations, fault):
    """Return every operation of a session that the fault can hit, by number."""
    return {number: one for number, one in enumerate(operations) if one.name in FAULTS[fault]}


def distinct(found):
    """Return one operation for each distinct call path."""
    return dict({(one.name, one.callers): (number, one) for number, one in found.items()}.values())


def check(bench, session, wanted):
    """Try all `wanted` triples of fault, number and operation, and report all failures together."""
    tried = ((fault, at, one, bench.wrong(session, fault, at)) for fault, at, one in wanted)
    wrong = [f"{session} {fault} {at} {tuple(one)}: {text}" for fault, at, one, text in tried if text]
    assert not wrong, f"{len(wrong)} of {len(wanted)} cases:\n" + "\n\n".join(wrong)


@pytest.mark.parametrize(("run", "session"), [(run, session) for run in SAMPLES for session in SAMPLES[run]])
def test_sampled_failing_operation_leaves_resumable_run(bench, run, session):
    rng, used = random.Random(f"{run} {session}"), bench(run)
    number, operations = SAMPLES[run][session], used.operations(session)
    found = {fault: list(distinct(cases(operations, fault)).items()) for fault in FAULTS}
    faults = [fault for fault in FAULTS if found[fault]]
    drawn = [(faults[n % len(faults)], *rng.choice(found[faults[n % len(faults)]])) for n in range(number)]
    check(used, session, drawn)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("run", RUNS)
def test_every_failing_operation_leaves_resumable_run(bench, run, session, fault):
    found = cases(bench(run).operations(session), fault)
    chosen = found if run == "ppo" else distinct(found)
    check(bench(run), session, [(fault, at, one) for at, one in chosen.items()])
