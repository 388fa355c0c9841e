"""Time to a result: what is measured, and when training has reached it."""

import pytest
import torch

from benchmarks.imported_training import seconds


def uniform(rows, count):
    legal = rows[:, -count:]
    return legal / legal.sum(1, keepdim=True)


def test_uniform_play_in_leduc_has_known_exploitability():
    pytest.importorskip("pyspiel")
    result, reached = seconds.measured("leduc_poker", lambda rows: uniform(rows, 3), 0)
    assert result == pytest.approx(4.747222 / 2, abs=1e-5)  # half of OpenSpiel's NashConv of its uniform policy
    assert not reached


def test_one_column_player_beats_random_in_connect_four():
    pytest.importorskip("pyspiel")

    def column(rows):
        legal = rows[:, -7:]
        return legal * torch.tensor([1.0, 2, 3, 9, 3, 2, 1])

    result, reached = seconds.measured("connect_four", column, 0)
    assert 0.6 < result < seconds.WON  # four in a row of the middle column, unless it is blocked
    assert not reached


def test_training_ends_at_first_good_enough_result(monkeypatch):
    results = iter([0.4, 0.1, 0.05])
    monkeypatch.setattr(seconds, "exploitability", lambda chances: next(results))
    clock = seconds.ResultClock("leduc_poker", limit=1e9, seed=0)
    assert [clock.look(1, None), clock.look(2, None)] == [False, True]
    assert [(moves, result) for _, moves, result in clock.results] == [(1, 0.4), (2, 0.1)]
    row = seconds.row("leduc_poker", "ours", 1, [(1.0, 4096, 0.4), (2.5, 8192, 0.1), (3.0, 12288, 0.05)])
    assert row == ["leduc_poker", "ours", "1", "2.5", "8,192", "0.100"]
    row = seconds.row("leduc_poker", "ours", 1, [(1.0, 4096, 0.4), (2.5, 8192, 0.2)])
    assert row == ["leduc_poker", "ours", "1", "not in 2", "", "best 0.200"]


def test_training_without_measurement_is_rejected(capsys):
    with pytest.raises(SystemExit):
        seconds.parse(["--updates", "5"])
    assert "--updates=5: must be at least 10" in capsys.readouterr().err
