"""Games started from a phase of a saved game: prompts, tables and rejected starts."""

import json
import re
from functools import partial

import pytest

from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.records.history import PhaseRecord
from sparring.envs.diplomacy.records.saved_game import write_game
from sparring.eval.run import main as run_main
from tests.agents.language.asking import server
from tests.envs.diplomacy.evaluation.test_diplomacy import untrained

main = partial(run_main, env="diplomacy")
GAMES = ["--opponents", "dumbbot", "--games", "7", "--threads", "1", "--device", "cpu"]


def saved(folder, *phases, name="game.json", **changes):
    """Save a file of phases with changes to the opening's units and centres; `changes` apply to the file."""
    content = write_game([PhaseRecord(opening())])
    (first,) = content["phases"]
    content["phases"] = []
    for number, (phase, units, centres, extra) in enumerate(phases):
        state = {"units": first["state"]["units"] | units, "centres": first["state"]["centres"] | centres}
        last = number == len(phases) - 1
        content["phases"].append({"name": phase, "state": state} | ({} if last else {"orders": {}}) | extra)
    (folder / name).write_text(json.dumps(content | changes))
    return folder / name


FALL = ("F1901M", {"FRANCE": ["A BUR", "A MAR", "F MAO"]}, {}, {})
"""France has moved from Paris and Brest, and nobody else has."""


def test_all_games_start_in_saved_position(tmp_path):
    file, transcripts = saved(tmp_path, FALL), tmp_path / "t.jsonl"
    words = ["--start", str(file), "--last-year", "1901", "--protocol", "alone", "--transcripts", str(transcripts)]
    asked = ["--set", "endpoint.structured=regex", "endpoint.model=toy", "--out", str(tmp_path)]
    with server() as host:
        assert main(["--ckpt", host.url, *GAMES, "--quiet", *words, *asked]) == 0
    prompts = [json.loads(line)["prompt"] for line in transcripts.read_text().splitlines()]
    first = [prompt for prompt in prompts if "\nfall 1901 of" in prompt]
    assert len(first) == 7
    assert not any("\nspring 1901 of" in prompt for prompt in prompts)
    assert all("A BUR" in prompt and "F MAO" in prompt and "A PAR" not in prompt for prompt in first)
    start = json.loads((tmp_path / "diplomacy.json").read_text())["start"]
    assert (start["file"], start["phase"]) == ("game.json", "F1901M")
    assert "from F1901M of game.json to the end of 1901" in " ".join((tmp_path / "diplomacy.md").read_text().split())


def test_policy_and_bot_start_in_saved_position(tmp_path):
    untrained(tmp_path / "policy.pt")
    page, words = tmp_path / "game.html", ["--last-year", "1901", "--quiet", "--start", str(saved(tmp_path, FALL))]
    for player in (["--ckpt", str(tmp_path / "policy.pt")], ["--bot", "random"]):
        assert main([*player, *GAMES, *words, "--replay", str(page)]) == 0
        assert re.search(r'"phases": ?\[{"name": ?"(\w+)"', page.read_text())[1] == "F1901M"


@pytest.mark.parametrize(
    ("phases", "changes", "words", "message"),
    [
        ([FALL], {"map": "ancmed"}, [], "game.json: map: must be 'standard', not 'ancmed'"),
        ([FALL], {"format": "chess"}, [], "game.json: format: must be 'sparring-diplomacy', not 'chess'"),
        ([(*FALL[:3], {"done": True})], {}, [], "F1901M: position: the game is over; give one that goes on"),
        ([("F1903M", {}, {}, {})], {}, [], "F1903M: position: year=1903 is after last_year=1902"),
        ([FALL], {}, ["--phase", "S1901M"], "--phase S1901M: {file} has no such phase; its phases are from F1901M to"),
        ([("S1902M", {"ITALY": []}, {"ITALY": []}, {})], {}, [], "ITALY is out, and every power is played equally"),
    ],
)  # fmt: skip
def test_unplayable_position_gives_one_line_error(phases, changes, words, message, tmp_path, capsys):
    file = saved(tmp_path, *phases, **changes)
    assert main(["--bot", "dumbbot", *GAMES, "--last-year", "1902", "--start", str(file), *words]) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert message.format(file=file) in refusal
    assert refusal.startswith("eval/run.py: --")


def test_phase_needs_game_and_pooled_games_share_start(tmp_path, capsys):
    assert main(["--bot", "random", *GAMES, "--phase", "S1902M"]) == 2
    assert "--phase S1902M: is a phase of a saved game; give the game with --start" in capsys.readouterr().err
    file, quick = saved(tmp_path, FALL), ["--bot", "random", *GAMES, "--last-year", "1901", "--quiet"]
    assert main([*quick, "--out", str(tmp_path / "1")]) == 0
    assert main([*quick, "--out", str(tmp_path / "2"), "--seed", "1", "--start", str(file)]) == 0
    assert main(["--pool", *(str(tmp_path / number / "diplomacy.json") for number in "12")]) == 2
    assert "begin in different positions; pool them apart" in capsys.readouterr().err
