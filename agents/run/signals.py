"""Stop requests by Ctrl-C and SIGTERM: the update in progress is finished and saved.

After Ctrl-C the update has all the time that it needs: a person waits, or presses Ctrl-C again. SIGTERM comes from a
scheduler, which kills what does not end in time, so the update has the grace time. A second signal, or the end of the
grace time, stops at once without saving; the last training state is intact. Before the first update a signal stops at
once, and before and after training SIGTERM ends the process at once, with the same exit codes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NoReturn

STDERR = 2
REQUESTED = 1
"""Stands for the signal where the program itself asks for a stop; below those of the signals, which replace it."""
EXIT_CODES = {REQUESTED: 0, signal.SIGINT: 130, signal.SIGTERM: 75}
"""130 is the shell convention for Ctrl-C; 75 (EX_TEMPFAIL) requests a restart of the run."""
FINAL_CODES = {**EXIT_CODES, signal.SIGTERM: 143}
"""Of a run that cannot be resumed: 143 is the shell convention for SIGTERM, and requests nothing."""


class Stopped(SystemExit):
    """Raised when the run stops on request; `code` is the exit code."""


class StopRequest:
    """Within this context the first SIGINT or SIGTERM sets `signal`; a second one raises `Stopped`.

    So do `grace` seconds after SIGTERM, and the first SIGINT while `at_once` is true. Outside the main thread signals
    cannot be handled, and it does nothing. `saved` says what a stop at once leaves, and `hint` how to go on then;
    `codes` are the exit codes by signal. `remaining` returns a phrase about the time that the `unit` in progress still
    takes, or nothing.
    """

    def __init__(
        self,
        grace: float,
        saved: str = "the last training state is whole",
        hint: str = "",
        *,
        unit: str = "update",
        remaining: Callable[[], str] = str,
    ) -> None:
        self.grace, self.saved, self.hint, self.codes = grace, saved, hint, EXIT_CODES
        self._unit, self._left = unit, remaining
        self.at_once = False
        self.signal = 0
        self._main = threading.current_thread() is threading.main_thread()

    @property
    def asked(self) -> bool:
        """True once a signal was received, or a stop was requested."""
        return self.signal != 0

    def asked_of_any(self, largest: Callable[[int], int]) -> bool:
        """Return True if any process received a signal; set all signals to the `largest` over the processes."""
        agreed = largest(self.signal)
        self.signal = agreed or self.signal
        return agreed != 0

    def request(self) -> None:
        """Stop after this update, as on Ctrl-C, but with exit code 0."""
        self.signal = self.signal or REQUESTED

    @property
    def exit_code(self) -> int:
        """The process's exit code for this signal, 0 without one."""
        return self.codes[self.signal] if self.asked else 0

    def __enter__(self) -> StopRequest:
        if self._main:
            handlers = {signal.SIGINT: self._ask, signal.SIGTERM: self._ask, signal.SIGALRM: self._over}
            self._previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and self.signal != REQUESTED:
            self._stop(number)
        self.signal = number
        if self.at_once and number == signal.SIGINT:
            self._stop(number)
        if self.at_once:
            _stop_at_once(number, frame)
        within = f", within {self.grace:g} s (grace_seconds)" if number == signal.SIGTERM else self._left()
        if number == signal.SIGTERM:
            signal.setitimer(signal.ITIMER_REAL, self.grace)
        _tell(f"stopping after this {self._unit}{within}, which is kept; Ctrl-C again stops at once, and {self.saved}")

    def _stop(self, number: int) -> NoReturn:
        self._tell_end("stopped at once")
        raise Stopped(self.codes[signal.Signals(number)])

    def _over(self, number: int, frame: FrameType | None) -> None:
        self._tell_end(f"the {self._unit} did not end within {self.grace:g} s (grace_seconds)")
        raise Stopped(self.exit_code)

    def _tell_end(self, reason: str) -> None:
        _tell("; ".join(filter(None, (reason, self.saved, self.hint))))


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Within this context SIGTERM ends the process with code 75, while a run starts or ends and has nothing to save.

    Nothing is cleaned up, as after SIGKILL: an exception raised here could be lost in the interrupted library,
    or come out as another. `StopRequest` replaces this during training. Outside the main thread it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop_at_once(number: int, frame: FrameType | None) -> NoReturn:
    _tell("stopped by SIGTERM; the same command starts or continues the run")
    os._exit(EXIT_CODES[signal.Signals(number)])


def _tell(text: str) -> None:
    # Not print, because the signal may have interrupted one.
    os.write(STDERR, f"\n{text}\n".encode())
