"""Console output of a run: a line about the run, a bar with ETA, and lines about events."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

WORTH_SAYING = 5.0


class Progress:
    """A bar over `updates` on stderr, or none if `shown` is false; lines go to stdout either way."""

    def __init__(self, updates: int, *, shown: bool, unit: str = "update") -> None:
        self._bar = tqdm(total=updates, unit=unit, file=sys.stderr, disable=not shown, dynamic_ncols=True)

    def skip(self, updates: int) -> None:
        """Move the bar forward or back to `updates` done; these do not count for the speed."""
        bar = self._bar
        bar.n = bar.last_print_n = bar.initial = updates
        bar.start_t = bar.last_print_t = time.time()
        bar.refresh()

    def say(self, text: str) -> None:
        """Print a line without breaking the bar."""
        tqdm.write(text, file=sys.stdout)
        sys.stdout.flush()

    def advance(self, name: str, headline: str) -> None:
        """Move the bar by one and show `name` and `headline`."""
        self._bar.set_description_str(name, refresh=False)
        self._bar.set_postfix_str(headline, refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Close the bar and leave it on the screen."""
        self._bar.close()


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
