"""What a person is told while a run trains."""

import pytest

from sparring.agents.run.progress import Progress, duration, forecast


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
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.1, ""), (4.9, ""), (5.1, "about 5 s on this machine; ")])
def test_a_run_of_a_moment_is_not_forecast(seconds, text):
    assert forecast(seconds) == text


def test_the_bar_shows_phase_opponents_win_rates_and_speed(capsys):
    progress = Progress(5, shown=True)
    progress.advance("transition (none)", "ace 93% brawler selfplay 60%, 31,250 steps/s")
    progress.say("something happened")
    progress.close()
    out, bar = capsys.readouterr()
    assert out == "something happened\n"
    for part in ("transition (none)", "1/5", "ace 93% brawler", "selfplay 60%", "31,250 steps/s"):
        assert part in bar


def test_without_the_bar_only_lines_remain(capsys):
    progress = Progress(5, shown=False)
    progress.skip(2)
    progress.advance("transition", "ace, 1 steps/s")
    progress.say("something happened")
    progress.close()
    assert capsys.readouterr() == ("something happened\n", "")


@pytest.mark.parametrize("updates", [1, 4])
def test_the_bar_goes_on_where_the_run_does(capsys, updates):
    """After resuming it begins later than at 0, after the guard went back earlier than it was; the speed is of now."""
    progress = Progress(6, shown=True)
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
