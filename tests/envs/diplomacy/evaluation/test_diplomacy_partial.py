"""An interrupted evaluation of a language model writes complete rounds, marked as partial."""

import json
from functools import partial

import pytest

from sparring.agents.language.backend import BotBackend
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.evaluation.games import rounds_of
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.training.opponents import POLICY, LanguagePlayer
from sparring.eval.run import main as run_main

main = partial(run_main, env="diplomacy")

ARGUMENTS = ["--ckpt", "tiny", "--opponents", "random", "--last-year", "1901", "--threads", "1", "--device", "cpu"]


class Failing(BotBackend):
    """A DumbBot that raises `end` when asked in the winter of a round."""

    def __init__(self, rounds, end):
        super().__init__("dumbbot", game="diplomacy")
        self.left, self.end = rounds, end

    def decide(self, requests):
        if requests[0].menu.winter:
            self.left -= 1
            if self.left < 0:
                raise self.end
        return super().decide(requests)


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Evaluate with `rounds` of seven games before the end; return exit code and results folder."""

    def run(rounds, *arguments, end=None, games=21):
        player = LanguagePlayer({POLICY: Failing(rounds, end)}, PromptRules(), {"model": "toy"}, at_a_time=14)
        monkeypatch.setattr("sparring.envs.diplomacy.training.opponents.open_player", lambda *_, **__: player)
        out = tmp_path / f"{rounds}-{games}"
        return main([*ARGUMENTS, "--games", str(games), "--out", str(out), *arguments]), out

    return run


def test_rounds_balance_powers_and_keep_model_busy():
    assert rounds_of(21, 1, 1) == [range(7), range(7, 14), range(14, 21)]
    assert rounds_of(35, 2, 16) == [range(14), range(14, 28), range(28, 35)]  # 2 * 7 are fewer than 16, 2 * 14 not
    assert rounds_of(7, 2, 128) == [range(7)]


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (InputError("endpoint: it is gone"), 2, "endpoint: it is gone\n"),
        (KeyboardInterrupt(), 130, "will be repeated\n"),
    ],
)
def test_interrupted_evaluation_writes_complete_rounds_with_note(play, capsys, end, code, words):
    found, out = play(2, end=end)
    said = capsys.readouterr()
    assert found == code
    assert "stopped after 14 of 21 games per pair" in said.err
    assert words in said.err
    kept = out / "diplomacy.cells.jsonl"
    assert said.err.splitlines()[-1].startswith(f"finished results are kept in {kept}; to resume: ")
    assert len(kept.read_text().split("\n\n")) == 2 * 14  # all games of the complete rounds
    assert {path.name for path in out.iterdir()} == {"diplomacy.partial.json", "diplomacy.partial.md", kept.name}
    content = json.loads((out / "diplomacy.partial.json").read_text())
    assert content["partial"] == {"games": 14, "of": 21}
    assert "Partial: stopped after 14 of 21 games each." in (out / "diplomacy.partial.md").read_text()
    code, whole = play(9, games=14)
    assert code == 0
    asked_for = json.loads((whole / "diplomacy.json").read_text())
    assert content["records"] == asked_for["records"]
    assert "partial" not in asked_for


def test_interrupted_evaluation_writes_replay_of_complete_round(play, tmp_path):
    pages = [tmp_path / "cut.html", tmp_path / "whole.html"]
    assert play(1, "--replay", str(pages[0]), end=KeyboardInterrupt())[0] == 130
    assert play(9, "--replay", str(pages[1]))[0] == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_results_without_complete_round_are_not_written(play, capsys, tmp_path):
    code, out = play(0, "--replay", str(tmp_path / "game.html"), end=KeyboardInterrupt())
    assert code == 130
    assert "stopped after 0 of 21 games per pair; nothing is written" in capsys.readouterr().err
    assert list(out.iterdir()) == []
    assert not (tmp_path / "game.html").exists()
