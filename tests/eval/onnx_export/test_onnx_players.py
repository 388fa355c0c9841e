"""ONNX agents on the command lines play wherever a checkpoint does, with the same results."""

import json

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.envs.dogfight.evaluation.onnx_export import export
from sparring.eval import payoff
from sparring.eval.run import main
from tests.eval.onnx_export.onnx_models import linear, save, through_reshape

pytestmark = pytest.mark.usefixtures("long_steps")
QUICK = ["--threads", "1", "--device", "cpu"]
WITHIN = {"rel": 1e-3}
"""Lengths and hp are means over games; rounding may move the tick of a hit."""
GENTLE = 10.0
"""Actions that do not jump from one bound to the other, so that rounding does not grow into another match."""
CHALLENGE = {"rules": "challenge", "obs_dim": 224}


@pytest.fixture
def exported(make_checkpoint):
    """Export an untrained policy beside itself and return the agent's path."""

    def make(name="pupil/final.pt", **contract):
        path = make_checkpoint(name, **contract).with_suffix(".onnx")
        export(load_checkpoint(path.with_suffix(".pt")), path)
        return path

    return make


def records(path):
    return json.loads(path.read_text())["records"]


@pytest.mark.parametrize(
    "contract",
    [{"obs_dim": 46, "observe_physics": False}, CHALLENGE | {"mirror": True}],
    ids=["46", "challenge in the mirror"],
)
def test_exported_policy_gives_table_of_its_checkpoint(contract, exported):
    agent = exported(gain=GENTLE, **contract)
    options = ["--opponents", "chaser,brawler", "--games", "8", "--quiet", *QUICK]
    assert main(["--ckpt", "pupil", *options]) == 0
    assert main(["--ckpt", "pupil/final.onnx", *options]) == 0
    ours, theirs = records(agent.parent / "eval.json"), records(agent.parent / "eval.final.onnx.json")
    assert len(ours) == len(theirs) == 2
    for one, other in zip(ours, theirs, strict=True):
        assert (one["player"], other["player"]) == ("pupil", "pupil/final.onnx")
        for key in ("opponent", "by_seat", "pairs"):
            assert one[key] == other[key]
        for key in ("length", "own_hp", "their_hp"):
            assert one[key] == pytest.approx(other[key], **WITHIN)


def test_batching_does_not_change_table(checkpoints):
    """Single-row graphs run row by row, others in one batch."""
    tables = []
    for name, model in (("fast", linear()), ("slow", through_reshape())):
        (checkpoints / name).mkdir()
        save(model, checkpoints / name / "agent.onnx")
        options = ["--opponents", "chaser", "--games", "4", "--quiet", *QUICK]
        assert main(["--ckpt", f"{name}/agent.onnx", *options]) == 0
        tables.append(records(checkpoints / name / "eval.agent.onnx.json")[0])
    assert tables[0]["by_seat"] == tables[1]["by_seat"]
    assert tables[0]["length"] == pytest.approx(tables[1]["length"], **WITHIN)


def test_agents_are_opponents_and_can_be_watched(exported, tmp_path, printed):
    exported()
    page = tmp_path / "match.html"
    arguments = ["--ckpt", "bot:ace", "--opponents", "pupil/final.onnx,chaser", "--games", "2", "--replay", str(page)]
    assert "| pupil/final.onnx " in printed(main, [*arguments, *QUICK])
    assert "ace vs pupil/final.onnx" in page.read_text()


def test_agents_play_ladder(exported, tmp_path):
    exported()
    arguments = ["--ladder", "--ckpt", "pupil/final.onnx", "--opponents", "pupil,ace", "--games", "2", "--quiet"]
    assert main([*arguments, *QUICK, "--out", str(tmp_path)]) == 0
    rated = json.loads((tmp_path / "ladder.json").read_text())["ratings"]["none"]
    assert {rating["player"] for rating in rated} == {"pupil/final.onnx", "pupil", "ace"}


def test_agents_are_tested_sequentially(exported, tmp_path):
    exported()
    arguments = ["--ckpt", "pupil/final.onnx", "--opponents", "ace", "--sprt", "elo1=50", "--max-games", "20"]
    main([*arguments, "--games", "20", "--quiet", *QUICK, "--out", str(tmp_path)])
    assert json.loads((tmp_path / "sprt.final.onnx.json").read_text())["player"] == "pupil/final.onnx"


def test_agents_are_in_payoff_matrix(exported, make_checkpoint, checkpoints):
    exported("other/agent.pt")
    folder = make_checkpoint("pupil/final.pt").parent
    arguments = ["--ckpt", "pupil", "--opponents", "other/agent.onnx", "ace", "--games", "2", "--quiet", *QUICK]
    assert payoff.main(arguments) == 0
    players = json.loads((folder / "payoff.json").read_text())["players"]
    assert [player["name"] for player in players] == ["7", "other/agent.onnx", "ace"]


def test_agent_notes_are_in_results(checkpoints, capsys):
    (checkpoints / "mine").mkdir()
    path = save(linear(), checkpoints / "mine" / "agent.onnx")
    assert main(["--ckpt", str(path), "--opponents", "ace", "--games", "2", "--stochastic", *QUICK]) == 0
    assert "\n\nNote: mine/agent.onnx is an ONNX agent, whose actions are not sampled.\n\n" in capsys.readouterr().out
    content = json.loads((path.parent / "eval.agent.onnx.json").read_text())
    assert content["notes"] == ["mine/agent.onnx is an ONNX agent, whose actions are not sampled"]


@pytest.mark.parametrize(
    ("size", "options", "parts"),
    [
        (60, [], ["agent.onnx: its input x is float32 [1, 60]; wanted is one input float32 [1, D]"]),
        (59, ["--rules", "challenge"], ["agent.onnx was trained with rules=classic"]),
        (224, ["--rules", "classic"], ["agent.onnx was trained with rules=challenge"]),
    ],
)
def test_unplayable_agent_gives_one_line_error(size, options, parts, checkpoints, tmp_path, error_line):
    save(linear(size), tmp_path / "agent.onnx")
    arguments = ["--ckpt", "bot:ace", "--opponents", str(tmp_path / "agent.onnx"), "--games", "2", "--quiet"]
    err = error_line(main, [*arguments, *options, *QUICK])
    assert [part for part in parts if part not in err] == []


def test_agent_and_policy_need_same_rules(exported, checkpoints, tmp_path, error_line):
    exported()
    save(linear(224), tmp_path / "agent.onnx")
    arguments = ["--ckpt", "pupil", "--opponents", str(tmp_path / "agent.onnx"), "--games", "2", "--quiet"]
    assert "agent.onnx was trained with rules=challenge" in error_line(main, [*arguments, *QUICK])
