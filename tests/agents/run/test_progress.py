"""Messages shown while a run trains."""

import sys

import pytest

from sparring.agents.run import progress as module
from sparring.agents.run.progress import Pace, Progress, counted, duration, forecast


def on_terminal(monkeypatch):
    """Let the streams captured by `capsys` act as a terminal; call it inside the test."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)


@pytest.fixture
def clock(monkeypatch):
    """Return a manual clock: `clock[0]` is its time in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])
    return seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (600, "10 min"),
        (5400, "1.5 h"),
        (172_000, "47.8 h"),
        (950_400, "11 days"),
    ],
)
def test_durations_are_human_readable(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.1, ""), (4.9, ""), (5.1, "about 5 s on this machine; ")])
def test_very_short_run_is_not_forecast(seconds, text):
    assert forecast(seconds) == text


def test_bar_shows_phase_opponents_win_rates_and_speed(monkeypatch, capsys):
    on_terminal(monkeypatch)
    progress = Progress(5, enabled=True)
    progress.advance("transition (none)", "ace 93% brawler selfplay 60%, 31,250 steps/s")
    progress.say("something happened")
    progress.close()
    out, bar = capsys.readouterr()
    assert out == "something happened\n"
    for part in ("transition (none)", "1/5", "ace 93% brawler", "selfplay 60%", "31,250 steps/s"):
        assert part in bar


def test_only_lines_remain_without_bar(capsys):
    progress = Progress(5, enabled=False)
    progress.skip(2)
    progress.advance("transition", "ace, 1 steps/s")
    progress.say("something happened")
    progress.close()
    assert capsys.readouterr() == ("something happened\n", "")


@pytest.mark.parametrize("updates", [1, 4])
def test_bar_follows_resume_and_rollback(monkeypatch, capsys, updates):
    """It starts above 0 after resuming, and moves back after a rollback; the speed is current."""
    on_terminal(monkeypatch)
    progress = Progress(6, enabled=True)
    for _ in range(2):
        progress.advance("transition", "ace, 1 steps/s")
    capsys.readouterr()
    progress.skip(updates)
    progress.advance("transition", "ace, 1 steps/s")
    progress.close()
    states = capsys.readouterr().err.split("\r")
    assert f"{updates}/6" in states[1]
    assert f"{updates + 1}/6" in states[-1]
    assert not any("0/6" in state or "-" in state.split("[")[-1].split("ace")[0] for state in states)


@pytest.mark.parametrize(
    ("number", "unit", "text"), [(1, "update", "1 update"), (0, "step", "0 steps"), (20_000, "bot", "20,000 bots")]
)
def test_count_of_one_is_singular(number, unit, text):
    assert counted(number, unit) == text


def pace_of(seconds):
    pace, now = Pace(), 100.0
    pace.tick(now)
    for one in seconds:
        now += one
        pace.tick(now)
    return pace.per_update()


@pytest.mark.parametrize(
    ("seconds", "pace"),
    [
        ([1.0] * 59 + [600.0], 62 / 60),  # the mean is 11 s; the slow one counts as three
        ([1.0] * 500 + [2.0] * 300, 2.0),  # 600 s are remembered, and no update of 1 s before
        ([100.0] * 5 + [900.0] * 8, 900.0),  # slow ones: the last eight
    ],
)
def test_pace_follows_lasting_change_but_not_one_slow_update(seconds, pace):
    assert pace_of(seconds) == pytest.approx(pace)


def test_pace_is_unknown_before_second_update_and_excludes_restart():
    pace = Pace()
    pace.tick(5.0)
    assert pace.per_update() is None
    pace.tick(6.0)
    pace.restart()
    pace.tick(1000.0)
    assert pace.per_update() == 1.0


def test_bar_shows_time_left(clock, monkeypatch, capsys):
    """100 updates of 4 s with 20 done: 320 s are left, although one update took a minute."""
    on_terminal(monkeypatch)
    progress = Progress(100, enabled=True)
    for update in range(20):
        clock[0] += 60.0 if update == 10 else 4.0
        progress.advance("transition", "ace")
        progress._bar.refresh()
    last = capsys.readouterr().err.split("\r")[-1]
    assert "20/100 [" in last
    assert "<05:53, 4.4 s/update" in last  # (18 x 4 + 12) / 19 = 4.42 s, times 80
    progress.close()


@pytest.mark.parametrize("stream", [None, "stdout", "stderr"])
def test_log_gets_plain_line_every_half_minute_and_at_end(stream, clock, monkeypatch, capsys):
    """Only `stream` is a terminal; a bar is shown on stderr only."""
    if stream:
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True)
    progress = Progress(10, enabled=True)
    for _ in range(10):
        clock[0] += 12.0
        progress.advance("transition", "ace 93%")
    progress.close()
    progress.close()
    out, bar = capsys.readouterr()
    assert out.splitlines() == [
        "3 of 10 updates, about 84 s left; transition: ace 93%",
        "6 of 10 updates, about 48 s left; transition: ace 93%",
        "9 of 10 updates, about 12 s left; transition: ace 93%",
        "10 of 10 updates; transition: ace 93%",
    ]
    assert bool(bar) == (stream == "stderr")
