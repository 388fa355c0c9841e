"""Trials in a scratch copy of the working tree: the tests of the sound code once, then those of every fault.

A changed file is written, its tests are run until the first fails, and the file is restored with its time stamp, so
that Python's cached bytecode of the sound code stays valid and none of the fault is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from tests.golden.checkout import Checkout
from tests.mutation.faults import Fault, FaultError
from tests.mutation.server import LIBRARIES

CAUGHT, SURVIVED, SLOW, BROKEN = "caught", "survived", "caught by its time limit", "broken"
PASSED, FAILED = 0, 1
"""Exit codes of pytest; all others mean that no test has judged the fault."""
START = 60.0
"""Seconds that Python, its imports and the compilation of changed kernels may take beside the tests themselves."""
OPTIONS = ("-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-profile=ci")
"""The profile has fixed draws, so that a fault has the same outcome every time, and no deadlines for a busy machine."""
FACTOR = 10.0
"""A fault may make its tests so many times slower before they count as stopped by it."""


@dataclass(frozen=True)
class TrialResult:
    """Outcome of one fault: one of the four words above, the seconds it took, and the first test that failed."""

    fault: Fault
    outcome: str
    seconds: float
    noticed_by: str = ""

    @property
    def caught(self) -> bool:
        """True if a test failed or did not end."""
        return self.outcome in (CAUGHT, SLOW)


class Trials:
    """Runs tests in `checkout`, a copy that nothing else uses, until `close`; its server imports `libraries` once."""

    def __init__(self, checkout: Checkout, *, libraries: Sequence[str] = LIBRARIES) -> None:
        self.folder = checkout.folder
        environment = checkout.environment | {"WARP_CACHE_PATH": str(checkout.folder.with_name("kernels"))}
        line = [sys.executable, "-m", "tests.mutation.server", *libraries]
        self._server = subprocess.Popen(
            line, cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.durations: dict[str, float] = {}

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait()

    def measure(self, tests: Iterable[str]) -> None:
        """Run the sound code's tests and keep their durations; raises `FaultError` if one of them fails."""
        report = self.folder.with_name("durations.xml")
        ended = self._pytest([*sorted(set(tests)), f"--junitxml={report}"], None, bytecode=True)
        if ended["code"] != PASSED:
            lines = [line for line in ended["output"].splitlines() if line.startswith(("FAILED", "ERROR"))]
            why = lines[0] if lines else ended["output"].strip().splitlines()[-1]
            raise FaultError(f"the tests fail without any fault: {why}")
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            self.durations[name] = float(case.get("time", 0.0))

    def cost(self, fault: Fault) -> float:
        """Return the seconds that the fault's tests take without it."""
        return sum(
            seconds
            for name, seconds in self.durations.items()
            if any(name == test or name.startswith((f"{test}::", f"{test}[")) for test in fault.tests)
        )

    def run(self, fault: Fault) -> TrialResult:
        """Plant a fault, run its tests, and take it out again."""
        path, started = self.folder / fault.file, time.perf_counter()
        sound, stamp = path.read_bytes(), path.stat()
        fault.plant(self.folder)
        try:
            ended = self._pytest([*fault.tests, "-x"], START + FACTOR * self.cost(fault))
        finally:
            path.write_bytes(sound)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        outcome = {PASSED: SURVIVED, FAILED: CAUGHT, None: SLOW}.get(ended["code"], BROKEN)
        failed = [line.split()[1] for line in ended["output"].splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return TrialResult(fault, outcome, time.perf_counter() - started, failed[0] if failed else "")

    def _pytest(self, arguments: Sequence[str], limit: float | None, *, bytecode: bool = False) -> dict[str, Any]:
        assert self._server.stdin
        assert self._server.stdout
        options = [*OPTIONS, *arguments]
        request = {"arguments": options, "limit": limit, "bytecode": bytecode}
        print(json.dumps(request), file=self._server.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer
