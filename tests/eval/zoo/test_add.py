"""`sparring policies add`: the card states what the run's files contain and what is missing."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

import sparring
from sparring import __main__ as command
from sparring.agents.opponents import players
from sparring.configs.core.archive import read_arrays
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.configs.resume import differences
from sparring.configs.serialization import from_stored
from sparring.eval.options import parse
from sparring.eval.zoo import cards

ROOT = Path(__file__).resolve().parents[3]
POLICY = ROOT / "checkpoints" / "released" / "dogfight_quickstart.pt"
STRONG = POLICY.with_name("dogfight_strong.pt")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Create a folder with one run, whose policy is a released one."""
    for module in (players, cards.files):
        monkeypatch.setattr(module, "CHECKPOINTS", tmp_path / "checkpoints")
    run = tmp_path / "checkpoints" / "mine"
    run.mkdir(parents=True)
    shutil.copy(POLICY, run / "final.pt")
    return tmp_path / "checkpoints"


def added(*words):
    card = cards.add(parse(cards.AddOptions, words))
    return card, dict(cards.ROW.findall(card.read_text()))


def evaluation(steps):
    records = [{"opponent": "ace", "win_rate": 0.975}, {"opponent": "held_out:left", "win_rate": 0.5}]
    held_out = {"none": {"mean": 0.5, "worst": 0.25, "worst_opponent": "held_out:runner"}}
    about = {"command": "python eval/run.py --ckpt mine", "games": 40, "training": {"env_steps": steps}}
    return json.dumps(about | {"records": records, "held_out": held_out})


def test_run_without_figures_is_reported(home):
    card, facts = added("mine")
    digest = sha256(POLICY.read_bytes()).hexdigest()
    assert card == home / "zoo" / "mine.md"
    assert facts["file"] == f"`mine.pt`, 128h/0b, 48,902 weights, SHA-256 `{digest}`"
    assert (facts["licence"], facts["bots"], facts["held out"]) == ("not stated", "not measured", "not measured")
    assert facts["machine"].startswith("not recorded minutes")
    assert facts["best response"] == "not measured: run `sparring exploit`"
    assert facts["trained by"].startswith("no command: the run's options are in the file")  # its run file is gone
    assert "32.8 M steps" in facts["trained by"]
    assert sparring.load("zoo/mine").env_id == "sparring/Dogfight-v1"
    assert sparring.load("zoo/mine", device="numpy").name == "zoo/mine"


def test_run_figures_are_on_card(home):
    run, digest = home / "mine", sha256(POLICY.read_bytes()).hexdigest()
    steps = cards.read_policy(POLICY).training["env_steps"]
    (run / "eval.json").write_text(evaluation(steps))
    rows = [{"env_steps": 6000, "time/steps_per_second": 100.0}, {"env_steps": 12000, "time/steps_per_second": 50.0}]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, of in (("one", digest), ("other", "0" * 64)):
        place = home / "exploit" / name
        place.mkdir(parents=True)
        curve = {"start": "warm", "points": [{"steps": 1000, "win_rate": 0.125 if of == digest else 1.0}]}
        (place / "exploit.json").write_text(json.dumps({"sha256": of, "command": "exploit it", "curves": [curve]}))
    _, facts = added("mine", "--name", "best", "--licence", "MIT")
    assert facts["machine"] == "3.0 minutes of updates by the clock"
    assert facts["bots"] == "ace 97.5 of 40 games, win %"
    assert facts["held out"] == "mean 50.0, worst 25.0 (runner) of 40 games, win %"
    assert facts["best response"] == "warm 12.5 % after 1,000 steps (`exploit it`)"
    shown = cards.columns(home / "zoo" / "best.pt")
    assert (shown["minutes"], shown["licence"], shown["best response"]) == (
        "3.0",
        "MIT",
        "warm 12.5 % after 1,000 steps",
    )
    assert "zoo/best" in cards.policies()


def test_evaluation_of_other_state_is_not_used(home):
    (home / "mine" / "eval.json").write_text(evaluation(1))
    assert added("mine")[1]["bots"] == "not measured"


def test_card_command_contains_run_options(home):
    _, facts = added(str(STRONG))
    words = facts["trained by"].split("`")[1].removeprefix("python train.py ")
    stored = from_stored(read_arrays(STRONG.read_bytes())["training"]["config"])
    left = differences(load(words.replace('"', "").split(" ")), stored)
    assert [key for key in left if not key.startswith(cards.MACHINE_OPTIONS)] == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "--run is missing"),
        (["nope"], "no checkpoint 'nope'"),
        (["mine", "mine"], "mine mine: one run is added at a time"),
        (["mine", "--name", "final"], "mine: a policy of the zoo cannot be named final"),
        (["mine", "--licence", "a|b"], "--licence 'a|b': must be one line"),
        (["tiny"], "no checkpoint 'tiny'"),
    ],
)
def test_bad_input_gives_one_line_error(words, line, home):
    with pytest.raises(InputError, match="^" + line.replace("|", r"\|")):
        added(*words)


def test_existing_name_is_kept(home):
    added("mine")
    with pytest.raises(InputError, match="the zoo has another policy of this name"):
        added(str(STRONG), "--name", "mine")
    assert cards.read_policy(home / "zoo" / "mine.pt").training["run"] != ""


def test_command_prints_card(home, capsys):
    assert command.main(["policies", "add", "mine"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# mine\n")
    assert "sparring.load('zoo/mine') loads it." in printed
