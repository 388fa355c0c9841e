"""`eval/payoff.py` in air combat: a run's snapshots, pilots and policies against each other."""

import json

import numpy as np
import pytest

import sparring
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.curriculum.score import wilson
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.eval.paired import evaluation as cells
from sparring.eval.payoff import main, read
from sparring.eval.plots import heatmap

QUICK = {"games": 2, "threads": 1, "device": "cpu"}


@pytest.fixture
def run(checkpoints):
    """A run in air combat with two untrained policies; steps of a second, so that matches are short to play."""
    batch = AirCombatBatch(1, action_repeat=60, threads=1)
    (checkpoints / "flyer").mkdir()
    for seed, (name, steps) in enumerate((("step_1000", 1000), ("final", 5000))):
        network = build_network(shape_for(batch.contract, NetworkConfig(hidden=8, blocks=0)), seed=seed)
        own = {"config": {"env": {"model": "f16", "gun": "auto"}}}
        training = {"run": "flyer", "update": seed + 1, "env_steps": steps, **own}
        save_checkpoint(checkpoints / "flyer" / f"{name}.pt", network, contract=batch.contract, training=training)
    batch.close()
    (checkpoints / "flyer" / "config.yaml").write_text(f"trainer: ppo\nenv: {{id: {rules.ENV_ID}}}\n")
    return checkpoints / "flyer"


def test_a_run_has_its_matrix_in_its_folder(run, capsys):
    words = ["--ckpt", "flyer", "--opponents", "chaser,straight", "--games", "4", "--threads", "1", "--device", "cpu"]
    assert main(words) == 0
    text, data = (run / "payoff.md").read_text(), json.loads((run / "payoff.json").read_text())
    assert text in capsys.readouterr().out
    assert "f16, gun rounds, deterministic" in text
    assert (data["kind"], data["env"]) == ("air_combat_payoff", rules.ENV_ID)
    assert (data["model"], data["gun"], data["action_repeat"]) == ("f16", "rounds", 60)
    names = [player["name"] for player in data["players"]]
    assert names == ["1k", "5k", "chaser", "straight"]
    assert data["players"][1]["file"] == "checkpoints/flyer/final.pt"
    shares = np.array(data["payoff"], dtype=float)
    np.testing.assert_allclose((shares + shares.T)[~np.eye(4, dtype=bool)], 1.0)
    (record,) = (one for one in data["records"] if (one["player"], one["opponent"]) == ("chaser", "straight"))
    assert shares[2, 3] == (record["wins"] + 0.5 * record["draws"]) / 4
    low, high = (100 * end for end in wilson(2 * shares[2, 3], 2))
    assert f"{100 * shares[2, 3]:.1f} ({low:.1f} to {high:.1f})" in text
    assert {rating["player"] for rating in data["ratings"]} == set(names)
    assert (run / "payoff.png").read_bytes().startswith(b"\x89PNG")
    assert not (run / "payoff.cells.jsonl").exists()


def test_pilots_and_policies_play_without_a_run(run):
    """A policy that is no run's plays with its own options and step, whoever is named first."""
    report = sparring.payoff(env="air_combat", opponents=["turning", "flyer"], model="point_mass", **QUICK)
    assert report.data["action_repeat"] == 60
    assert report.data["anchor"]["player"] == "turning"
    assert [record["games"] for record in report.data["records"]] == [2]
    assert "gun cone" in report.markdown
    assert not report.files


def test_cells_of_an_interrupted_command_are_not_played_again(run, tmp_path, monkeypatch):
    monkeypatch.setattr(heatmap, "draw_heatmap", lambda chart: b"")
    out = tmp_path / "matrix.png"
    options = {"env": "air_combat", "opponents": ["chaser", "straight", "turning"], "out": str(out), **QUICK}
    whole = sparring.payoff(**options)
    played = []
    cut, play = KeyboardInterrupt, cells.play_cell

    def once(*pair):
        played.append(pair)
        if len(played) == 3:
            raise cut
        return play(*pair)

    monkeypatch.setattr(cells, "play_cell", once)
    with pytest.raises(cut):
        sparring.payoff(**options)
    assert sparring.payoff(**options).json == whole.json
    assert len(played) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--opponents", "ace"], "--opponents: ace: name at least two players, or a run"),
        (["--opponents", "none"], "--opponents: none: name at least two players"),
        (["--opponents", "ace,acee"], "did you mean 'ace'"),
        (["--opponents", "flyer,flyer/final", "ace"], "flyer plays already"),
        (["--ckpt", "flyer", "--opponents", "flyer"], "flyer plays already"),
        (["--ckpt", "nobody"], "no checkpoint 'nobody'"),
        (["--games", "3"], "--games 3: must be even"),
        (["--model", "glider"], "unknown model 'glider'"),
        (["--anchor", "evader", "--opponents", "ace,chaser"], "unknown --anchor 'evader'"),
        (["--regimes", "none"], "--regimes"),
        (["--out", "x.jpg"], "'x.jpg': must end in .png"),
    ],
)
def test_bad_input_is_one_line(run, words, message, capsys):
    """Of the dogfight's options --regimes is not known here."""
    assert main(["--env", "air_combat", "--device", "cpu", "--threads", "1", *words]) == 2
    err = capsys.readouterr().err
    assert message in err


def test_the_game_is_known_from_the_run(run):
    assert type(read(["--ckpt", "flyer"])).__name__ == "AirPayoffOptions"
    with pytest.raises(InputError, match="unknown game 'chess': choose from dogfight, air_combat"):
        read(["--env", "chess"])
