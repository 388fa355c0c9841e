"""`sparring bench`: published figures match the pages, and work is counted correctly."""

from pathlib import Path

import pytest

from sparring.envs.diplomacy.evaluation import speed as diplomacy
from sparring.envs.dogfight.evaluation import speed as dogfight
from sparring.eval.bench import speed

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results"


def test_published_figures_are_on_pages():
    text = (RESULTS / "speed.md").read_text() + (RESULTS / "diplomacy_speed.md").read_text()
    assert "| 4,096 x brawler | 9.71 |" in text
    figures = {figure for one in speed.speeds() for figure, _ in one.published} - {9_710_000}
    assert len(figures) == 3
    assert [figure for figure in figures if f"{figure:,}" not in text] == []


def test_reported_work_is_work_done(monkeypatch):
    monkeypatch.setattr(dogfight, "MATCHES", 2)
    monkeypatch.setattr(diplomacy, "GAMES", 2)
    assert (dogfight.actor_work(3)(), dogfight.dogfight_work()(), diplomacy.diplomacy_work()()) == (3, 20, 2)


def test_bench_prints_measured_speed():
    clock, processor = speed.speed_of(lambda: sum(range(1000)) * 0 + 5, 0.01)
    assert clock > 0 < processor
    shown = speed.line(dogfight.SPEEDS[2], (1234.5, 6789.0))
    assert "1,234" in shown
    assert "6,789" in shown
    assert shown.endswith("9,710,000 AMD EPYC Zen 5")
    assert "needs torch and Warp" in speed.line(speed.speeds()[-1], None)


def test_bad_input_gives_one_line_error(error_line):
    said = error_line(speed.main, ["--seconds", "100"])
    assert said.startswith("sparring bench: --seconds")
    with pytest.raises(SystemExit):
        speed.main(["--help"])
