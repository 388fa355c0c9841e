"""The commands of `eval/` as functions of `sparring`: same data, files and errors."""

import inspect
import json
import shlex

import numpy as np
import pytest

import sparring
from sparring import InputError
from sparring.agents.opponents import players
from sparring.eval import curves as curves_command
from sparring.eval import export as export_command
from sparring.eval import payoff as payoff_command
from sparring.eval import play as play_command
from sparring.eval import runs as runs_command
from sparring.eval.browser import server

pytestmark = pytest.mark.usefixtures("long_steps")

TINY = {"env.num_envs": 10, "ppo.rollout_steps": 10, "ppo.minibatch_size": 100, "ppo.epochs": 1, "evaluation.every": 1}


class Idle:
    """Fly straight on."""

    def act(self, obs):
        return np.zeros((len(obs), 3))


def test_python_object_is_exploited(tmp_path, capsys):
    options = {"steps": 100, "seeds": 1, "start": "cold", "games": 2, "device": "cpu", "threads": 1}
    report = sparring.exploit(Idle, TINY | {"seed": 1}, out=tmp_path / "idle", **options)
    assert capsys.readouterr().out == ""
    assert (report.data["kind"], report.data["player"], report.data["steps"]) == ("exploit", "Idle", 100)
    (curve,) = report.data["curves"]
    assert [point["steps"] for point in curve["points"]] == [100]
    assert json.loads((tmp_path / "idle" / "exploit.json").read_text()) == report.data
    assert (tmp_path / "idle" / "exploit.png").is_file()
    with pytest.raises(InputError, match=r"--steps 150: must be a multiple of 100"):
        sparring.exploit(Idle, TINY, out=tmp_path / "idle", **options | {"steps": 150})
    with pytest.raises(InputError, match="bot:ace: only a checkpoint has weights to begin with"):
        sparring.exploit("bot:ace", start="warm")


def test_payoff_matrix_matches_command(make_checkpoint, tmp_path):
    folder = make_checkpoint().parent
    report = sparring.payoff("pupil", opponents=["ace", "bot:chaser"], games=2, threads=1, device="cpu")
    assert {path.name for path in folder.iterdir()} == {"final.pt", "manifest.json"}
    assert "![" not in str(report)
    assert [player["name"] for player in report.data["players"]][1:] == ["ace", "chaser"]
    assert report.data["payoff"][1][2] == 1 - report.data["payoff"][2][1]
    _, _, *words = shlex.split(report.data["command"])
    assert payoff_command.main([*words, "--out", str(tmp_path / "matrix.png")]) == 0
    written = json.loads((tmp_path / "matrix.json").read_text())
    assert {**written, "command": ""} == {**report.data, "command": ""}


@pytest.fixture
def histories(tmp_path, monkeypatch):
    """Two runs of three updates."""
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    for name, values in {"a": [0.0, 0.2, 0.4], "b": [0.5, 0.5, 0.8]}.items():
        rows = [{"env_steps": 100 * k, "rollout/win_rate": value} for k, value in enumerate(values, 1)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        records = [{"regime": "none", "opponent": "ace", "wins": round(10 * values[2]), "draws": 0, "games": 10}]
        known = {"rules": "classic", "bot_rate": "tick", "action_repeat": 10, "deterministic": True, "games": 10}
        content = {"schema_version": 1, "kind": "evaluation", "seed": 0, "records": records} | known
        (tmp_path / name / "eval.json").write_text(json.dumps(content))
    return tmp_path


def test_curves_returns_numbers_and_draws_picture_on_request(histories, printed, monkeypatch):
    monkeypatch.chdir(histories)
    report = sparring.curves({"both": ["a", "b"]}, metrics="rollout/win_rate", smooth=1)
    (group,) = report.data["metrics"]["rollout/win_rate"]
    assert group == {
        "group": "both",
        "runs": [
            {"run": "a", "env_steps": [100, 200, 300], "values": [0.0, 0.2, 0.4]},
            {"run": "b", "env_steps": [100, 200, 300], "values": [0.5, 0.5, 0.8]},
        ],
    }
    assert not [*histories.glob("*.png")]
    sparring.curves(["a", "b"], out="curves.svg")
    assert (histories / "curves.svg").read_text().startswith("<?xml")
    assert printed(curves_command.main, ["both=a,b", "--smooth", "1"]) == f"{report}\nWrote curves.png\n"
    with pytest.raises(InputError, match=r"runs: 'a' is one name; give a list"):
        sparring.curves("a")


def test_seeds_are_summarized(histories):
    report = sparring.seeds(["a", "b"], resamples=100, out=histories / "both")
    assert report.data["rows"][0]["scores"]["mean"] == pytest.approx(0.6)  # 4 and 8 of 10 games
    assert (histories / "both" / "seeds.md").read_text() == str(report)
    with pytest.raises(InputError, match="runs: 1 given, at least 2 are needed"):
        sparring.seeds(["a"])


def test_recorded_runs_are_returned_as_data(histories, capsys, printed):
    (histories / "a" / "config.yaml").write_text("seed: 3\n")
    found = sparring.runs("get-metrics", run_id=str(histories / "a"), metrics=["rollout/win_rate", "none"], limit=2)
    assert found["metrics"]["rollout/win_rate"]["y"] == [0.2, 0.4]
    assert capsys.readouterr().out == ""
    words = ["get-metrics", "--run-id", str(histories / "a"), "-m", "rollout/win_rate", "-m", "none", "-n", "2"]
    assert json.loads(printed(runs_command.main, [*words, "--json"])) == found
    with pytest.raises(InputError, match="unknown command 'watsch': choose from list, search"):
        sparring.runs("watsch")
    with pytest.raises(InputError, match="No such option"):
        sparring.runs("list", limits=3)


def test_policy_is_exported(make_checkpoint, tmp_path, capsys):
    policy = sparring.load(make_checkpoint())
    path = sparring.export(policy, tmp_path / "agent.onnx")
    assert capsys.readouterr().out == ""
    assert sparring.load(path).act is not None
    written = path.read_bytes()
    assert export_command.main(["--ckpt", "pupil"]) == 0
    assert policy.path.with_suffix(".onnx").read_bytes() == written
    with pytest.raises(InputError, match="a bot has no network to export"):
        sparring.export("bot:ace")


def test_diplomacy_game_is_written(tmp_path, capsys):
    options = {"players": {"FRANCE": "random", "": "dumbbot"}, "last_year": 1901, "seed": 3}
    files = sparring.diplomacy_replay(tmp_path / "game.html", log=tmp_path / "game.txt", **options)
    assert files == (tmp_path / "game.html", tmp_path / "game.txt")
    assert all(path.stat().st_size > 100 for path in files)
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match="--out is missing"):
        sparring.diplomacy_replay(players="dumbbot")


def test_play_serves_game_of_command(tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(server, "serve", lambda hosted, gate, listening: served.append(type(hosted).__name__))
    sparring.play(Idle, port=0, no_browser=True, quiet=True)
    assert play_command.main(["--opponent", "ace", "--port", "0", "--no-browser", "--quiet"]) == 0
    assert served == ["DogfightStage", "DogfightStage"]
    sparring.play(static=tmp_path / "fly.html", quiet=True)
    assert (tmp_path / "fly.html").stat().st_size > 10_000
    with pytest.raises(InputError, match="--port 70000"):
        sparring.play("ace", port=70000)


def test_every_eval_command_has_function():
    from tests.test_architecture import ROOT

    scripts = {path.stem for path in (ROOT / "eval").glob("*.py") if "check_installed" in path.read_text()}
    assert {"exploit", "play", "runs"} < scripts
    assert {name for name in scripts - {"run"} if not inspect.isfunction(getattr(sparring, name, None))} == set()
