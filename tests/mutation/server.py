"""A process in the scratch copy that imports the libraries it is called with and forks one child per run of tests.

Importing them takes several times as long as most tests. A child first forgets every module of the project, so that
it imports the files as they are then. It reads one JSON object a line, {"arguments", "limit", "bytecode"}, and writes
{"code", "output"}; code is null where the limit in seconds was exceeded.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any

LIBRARIES = (
    *("gymnasium", "hydra", "hypothesis", "numpy", "pettingzoo", "PIL.Image", "pydantic", "pytest", "scipy.stats"),
    *("torch", "torch.utils.tensorboard", "torch._dynamo", "warp", "xdist.plugin"),
    *("transformers", "transformers.models.llama.modeling_llama", "peft", "tokenizers"),
)
PAUSE = 0.02
"""Seconds between looks at whether the child has ended."""


def main() -> None:
    """Serve requests until the end of the input."""
    for name in sys.argv[1:]:
        with suppress(ImportError):  # a test that needs it is then skipped, as elsewhere
            importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_serve(json.loads(line))), flush=True)


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            _run_tests(request, output.fileno())
        code = _wait(child, request["limit"])
        output.seek(0)
        return {"code": code, "output": output.read().decode(errors="replace")}


def _run_tests(request: dict[str, Any], output: int) -> None:
    """Become the process of the tests; does not return."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 70
    try:
        for name in [name for name in sys.modules if name.split(".")[0] in ("sparring", "tests")]:
            del sys.modules[name]
        sys.dont_write_bytecode = not request["bytecode"]
        import pytest

        code = int(pytest.main(request["arguments"]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(child: int, limit: float | None) -> int | None:
    """Return the exit code of a child, or None after ending it and its own children at the limit."""
    end = time.monotonic() + limit if limit else None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if end and time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
