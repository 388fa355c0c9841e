"""Train an agent: `python train.py +run=quickstart seed=3`; sparring/train.py has the command and its exit codes."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from pathlib import Path
from runpy import run_path

if __name__ == "__main__":  # maybe before installation
    # During the imports; `main` does the rest. An exception could be lost in the code that imports.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(75))
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # Last of all: to free what was loaded takes a second, without a handler, and the run is over.
    atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)
    run_path(str(Path(__file__).parent / "configs" / "installed.py"))["check_installed"]("train.py")

    from sparring.train import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
