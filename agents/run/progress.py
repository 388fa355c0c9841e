"""Console output of a run: a line about the run, a bar with ETA, and lines about events; and the timing of an update.

The speed is the median over the updates of the last minutes, so one slow update, such as one with an evaluation, does
not move the ETA. If stderr is not a terminal, a plain line now and then replaces the bar.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from sparring.configs.core.errors import printable_lines

WORTH_SAYING = 5.0
LINE_SECONDS = 30.0
"""Between plain lines."""
MEMORY_SECONDS, FEWEST, MOST = 600.0, 8, 512
"""The speed covers the updates of so many seconds, but at least the last 8 and at most the last 512."""
OUTLIER = 3.0
"""An update counts at most this many times the median of those remembered."""
BAR = "{{l_bar}}{{bar}}| {{n_fmt}}/{{total_fmt}} [{{elapsed}}<{left}{speed}{{postfix}}]"


class Pace:
    """Seconds of recent updates, and from them an estimate of the time left."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MOST)
        self._last: float | None = None

    def restart(self) -> None:
        """Leave out the time until the next update, which is spent on something else."""
        self._last = None

    def tick(self, now: float) -> None:
        """Record the end of an update at `now`, in seconds; the first one only starts the clock."""
        if self._last is not None:
            self._seconds.append(now - self._last)
        self._last = now
        # By the median, for one slow update must not displace all others.
        while len(self._seconds) > FEWEST and len(self._seconds) * statistics.median(self._seconds) > MEMORY_SECONDS:
            self._seconds.popleft()

    def per_update(self) -> float | None:
        """Return the mean seconds of an update, slow ones cut to `OUTLIER` medians; None if unknown."""
        if not self._seconds:
            return None
        most = OUTLIER * statistics.median(self._seconds)
        return statistics.fmean(min(seconds, most) for seconds in self._seconds)

    def left(self, now: float) -> float | None:
        """Return the seconds that the update in progress still takes at `now`; None if unknown or already late."""
        seconds = self.per_update()
        return None if seconds is None or self._last is None else max(self._last + seconds - now, 0.0) or None


class Progress:
    """Progress of a run of `updates`, shown only if `enabled`; lines of `say` go to stdout either way.

    If stderr is a terminal, it is a bar there. If stdout or stderr is not a terminal, as in a log, it is a line on
    stdout every `LINE_SECONDS` and one at the end.
    """

    def __init__(self, updates: int, *, enabled: bool, unit: str = "update") -> None:
        self._bar = tqdm(
            total=updates,
            unit=unit,
            file=sys.stderr,
            disable=not (enabled and sys.stderr.isatty()),
            dynamic_ncols=True,
            bar_format=BAR.format(left="?", speed=""),
        )
        self._lines = enabled and not (sys.stdout.isatty() and sys.stderr.isatty())
        self._updates, self._unit, self._done, self._pace = updates, unit, 0, Pace()
        self._said_at, self._unsaid = time.monotonic(), ""

    def skip(self, updates: int) -> None:
        """Move the bar forward or back to `updates` done; these do not count for the speed."""
        bar = self._bar
        self._done = bar.n = bar.last_print_n = bar.initial = updates
        bar.start_t = bar.last_print_t = time.time()
        self._pace.restart()
        bar.refresh()

    def say(self, text: str) -> None:
        """Print a line without breaking the bar."""
        tqdm.write(printable_lines(text), file=sys.stdout)
        sys.stdout.flush()

    def advance(self, name: str, headline: str) -> None:
        """Move the bar by one and show `name` and `headline`."""
        self._done += 1
        self._pace.tick(time.monotonic())
        seconds = self._pace.per_update()
        rest = None if seconds is None else seconds * max(0, self._updates - self._done)
        speed = "" if seconds is None else f", {_speed(seconds, self._unit)}"
        self._bar.bar_format = BAR.format(left="?" if rest is None else tqdm.format_interval(rest), speed=speed)
        self._bar.set_description_str(name, refresh=False)
        self._bar.set_postfix_str(headline, refresh=False)
        self._bar.update()
        ahead = f", about {duration(rest)} left" if rest else ""
        self._unsaid = f"{self._done} of {counted(self._updates, self._unit)}{ahead}; {name}: {headline}"
        if time.monotonic() - self._said_at >= LINE_SECONDS:
            self._say_line()

    def update_left(self) -> str:
        """Return about how long the update in progress still takes, as the end of a phrase; empty if unknown."""
        seconds = self._pace.left(time.monotonic())
        return f", in about {duration(seconds)}" if seconds and seconds >= WORTH_SAYING else ""

    def close(self) -> None:
        """Close the bar and leave it on the screen; say the last line."""
        self._bar.close()
        self._say_line()

    def _say_line(self) -> None:
        if self._lines and self._unsaid:
            self.say(self._unsaid)
        self._said_at, self._unsaid = time.monotonic(), ""


def _speed(seconds: float, unit: str) -> str:
    return f"{seconds:,.1f} s/{unit}" if seconds >= 1 else f"{1 / max(seconds, 1e-6):,.1f} {unit}s/s"


def counted(number: int, unit: str) -> str:
    """Return a count with its unit: 1 update, 20,000 updates."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def nothing_left(done: int, goal: int, option: str, total: int) -> str:
    """Return the message of a run whose `goal` updates are done; max_updates may be less than `option`, `total`."""
    line = f"nothing left to do: {counted(done, 'update')} done, {goal} asked for"
    return f"{line}; set max_updates=N to continue ({option}={total})" if goal < total else line


def forecast(seconds: float) -> str:
    """Format a run's estimated duration; empty below `WORTH_SAYING` seconds, where start-up dominates."""
    return f"about {duration(seconds)} on this machine; " if seconds >= WORTH_SAYING else ""


def duration(seconds: float) -> str:
    """Format a duration: 40 s, 9 min, 3.5 h, 12 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


class Timer:
    """Timer that starts when created; `part` times a named part."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.parts: dict[str, float] = {}
        """Seconds of each part, as metrics."""

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the code in the context as `name`."""
        start = time.perf_counter()
        yield
        self.parts[f"time/{name}_seconds"] = time.perf_counter() - start

    def seconds(self) -> float:
        """Return the seconds since creation."""
        return time.perf_counter() - self._start

    def metrics(self, *, steps: int, simulator_seconds: float) -> dict[str, float]:
        """Return the speed so far, for `steps` env steps over the whole time, and the parts in seconds."""
        seconds = self.seconds()
        speed = {"time/steps_per_second": steps / seconds, "time/simulator_share": simulator_seconds / seconds}
        return self.parts | speed
