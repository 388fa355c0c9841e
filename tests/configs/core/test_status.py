"""Waiting messages: only for slow stages, and only where enabled."""

import time

import pytest

from sparring.configs.core import status
from sparring.configs.core.status import said_if_long, say


def test_status_goes_to_stderr(capsys):
    say("a line")
    say("another", enabled=False)
    assert capsys.readouterr() == ("", "a line\n")


@pytest.mark.parametrize(("patience", "shown", "said"), [(0.01, True, "slow\n"), (0.01, False, ""), (60.0, True, "")])
def test_slow_stage_is_announced_once(monkeypatch, capsys, patience, shown, said):
    monkeypatch.setattr(status, "PATIENCE", patience)
    with said_if_long("slow", enabled=shown):
        time.sleep(0.2)
    assert capsys.readouterr().err == said


def test_error_ends_waiting_message(monkeypatch, capsys):
    monkeypatch.setattr(status, "PATIENCE", 0.1)
    with pytest.raises(ValueError, match="broken"), said_if_long("slow", enabled=True):
        raise ValueError("broken")
    time.sleep(0.3)
    assert capsys.readouterr().err == ""
