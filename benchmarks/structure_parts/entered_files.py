"""Run a command line of a checkout and print the functions of that checkout that it calls, as JSON.

`functions` are a file and a name each, `depth` the functions of the checkout in the deepest chain of calls.

`python entered_files.py ROOT WINDOW SCRIPT ARGUMENT...`. WINDOW `update` counts calls between the first and second row
of metrics, which is one whole update; `all` counts every call. Calls during imports do not count. This file does not
import the project, so it can trace another version of it.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import runpy
import sys
import tempfile
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

ROOMS = ("agents", "configs", "curriculum", "envs", "eval", "sparring", "train.py")
PACKAGES = ("gymnasium", "hydra", "omegaconf", "pydantic", "tensorboard", "torch", "tqdm", "warp", "yaml")
"""Packages of other projects, which are imported before tracing begins: that takes a third of the time."""


class CallTrace:
    """Profile function: collects the functions entered within the window, and the depth of the deepest."""

    def __init__(self, root: str, *, whole: bool) -> None:
        self.entered: set[tuple[str, str]] = set()
        self.depth = 0
        self.rows: set[object] = set()
        self._whole, self._imports = whole, threading.local()
        self._file = cache(lambda code: _file_of(code, root))

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            step = {"call": 1, "return": -1}.get(event, 0)
            importing = 0 if frame.f_globals.get("__name__") == "__main__" else step
            self._imports.depth = getattr(self._imports, "depth", 0) + importing
        elif event == "call" and not getattr(self._imports, "depth", 0):
            self._enter(frame, code)

    def _enter(self, frame: FrameType, code: CodeType) -> None:
        file = self._file(code)
        if file is None:
            return
        if code.co_name == "log" and file.endswith("logger.py"):
            self.rows.add(frame.f_locals[code.co_varnames[1]])  # the number of steps, which differs from row to row
        if self._whole or len(self.rows) == 1:
            self.entered.add((file, code.co_qualname))
            self.depth = max(self.depth, self._depth_of(frame))
        elif self.rows:  # the update is over, and what follows need not be seen
            sys.setprofile(None)

    def _depth_of(self, frame: FrameType | None) -> int:
        depth = 0
        while frame:
            depth += self._file(frame.f_code) is not None
            frame = frame.f_back
        return depth


def _file_of(code: CodeType, root: str) -> str | None:
    """Path of a function below `root`; None for class bodies, generated code and other projects."""
    if not code.co_flags & inspect.CO_OPTIMIZED or code.co_filename.startswith("<"):
        return None
    path = os.path.realpath(code.co_filename)
    inside = os.path.relpath(path, root)
    return inside if inside.split(os.sep)[0] in ROOMS else None


def main() -> None:
    """Run the command line in `sys.argv`."""
    root, window, script, *arguments = sys.argv[1:]
    root = os.path.realpath(root)
    path = str(Path(root) / script)
    for name in PACKAGES:
        with contextlib.suppress(ImportError):
            import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(root) / "sparring"  # older checkouts are the package themselves
        (Path(folder) / "sparring").symlink_to(package if package.is_dir() else root)
        sys.argv, sys.path[:1] = [path, *arguments], [str(Path(path).parent), folder]
        trace = CallTrace(root, whole=window == "all")
        threading.setprofile(trace)
        sys.setprofile(trace)
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(path, run_name="__main__")
        sys.setprofile(None)
    print(json.dumps({"functions": sorted(trace.entered), "depth": trace.depth}))


if __name__ == "__main__":
    main()
