"""One power against six: what the command refuses, plays and writes."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

from agents.checkpoint import save_checkpoint
from agents.ppo.order_network import OrderNetwork
from configs.schema import NetworkConfig
from envs.diplomacy.codes import BOTS, ENV_ID
from eval import one_against_six
from eval.diplomacy import main, read_options

QUICK = ["--games", "7", "--last-year", "1902", "--threads", "1", "--device", "cpu"]


def run(capsys, *arguments):
    code = main(arguments)
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ladder", "--games", "200"], "multiple of 7, so that all powers are played as often; try 203"),
        (["--ladder", "--games", "0"], "--games 0: must be in [7, 1000000]"),
        (["--ladder", "--last-year", "1900"], "--last-year 1900: must be in [1901, 2000]"),
        (["--bot", "dumbot"], "did you mean 'dumbbot'?"),
        (["--ladder", "--opponents", "random", "choas"], "did you mean 'chaos'?"),
        (["--ladder", "--bot", "chaos"], "either --bot NAME"),
        ([], "either --bot NAME"),
        (["--ladder", "--device", "gpu"], "--device 'gpu'"),
        (["--lader"], "did you mean '--ladder'?"),
        (["--ckpt", "nowhere"], "no checkpoint 'nowhere'"),
    ],
)
def test_slips_are_answered_in_one_line(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("eval/diplomacy.py: ")
    assert words in err
    assert err.count("\n") == 1


def test_a_policy_for_another_game_is_refused(capsys):
    code, _, err = run(capsys, "--ckpt", "released/dogfight_quickstart", *QUICK)
    assert code == 2
    assert "plays sparring/Dogfight-v0, not sparring/Diplomacy-v0; use eval/run.py" in err.splitlines()[-1]


def test_a_policy_plays_one_power(capsys, tmp_path):
    network = OrderNetwork(NetworkConfig(hidden=4, blocks=1))
    contract = {"id": ENV_ID, "version": 1, "obs_dim": network.obs_dim, "continuous": 0, "binary": 0}
    save_checkpoint(tmp_path / "policy.pt", network, contract=contract, training={})
    code, out, _ = run(capsys, "--ckpt", str(tmp_path / "policy.pt"), "--opponents", "random,dumbbot", *QUICK)
    assert code == 0
    rows = [line for line in out.splitlines() if "policy.pt" in line and line.startswith("|")]
    assert len(rows) == 4  # against two, from either side


def test_who_plays_whom():
    ladder = read_options(["--ladder", "--opponents", "random,dumbbot"])
    assert ladder.cells == [(one, six) for one in ("random", "dumbbot") for six in ("random", "dumbbot")]
    assert read_options(["--bot", "chaos"]).cells == [("chaos", six) for six in BOTS]


def test_a_ladder_is_printed_written_and_the_same_again(capsys, tmp_path):
    arguments = ["--ladder", "--opponents", "random,dumbbot", *QUICK, "--out", str(tmp_path)]
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "dumbbot vs six random" in err
    assert (tmp_path / "diplomacy.md").read_text() in out
    data = (tmp_path / "diplomacy.json").read_bytes()
    content = json.loads(data)
    assert [(record["one"], record["six"]) for record in content["records"]] == read_options(arguments).cells
    # 34 centres at most between the one and the six, and the squares of a game add up to 1.
    for record in content["records"]:
        assert record["alone"]["centres"]["value"] + 6 * record["together"]["centres"]["value"] <= 34
        assert record["alone"]["squares"]["value"] + 6 * record["together"]["squares"]["value"] == pytest.approx(1)
        assert record["games"] == 7
    code, out, err = run(capsys, *arguments, "--quiet")
    assert (code, out, err) == (0, "", "")
    assert (tmp_path / "diplomacy.json").read_bytes().replace(b" --quiet", b"") == data


def test_intervals_are_wilsons_and_students():
    owner = np.full((7, 34), -1)
    owner[:3] = 2
    centres = np.array([34.0, 34, 34, 1, 1, 1, 1])
    owner[3:, :4] = [2, 3, 4, 5]
    side = one_against_six._side(torch.tensor(owner), lambda scores: scores[:, 2])
    assert side.solos.value == pytest.approx(3 / 7)
    assert side.solos.interval == pytest.approx((0.1582, 0.7495), abs=1e-4)
    low, high = stats.t.interval(0.95, 6, loc=centres.mean(), scale=stats.sem(centres))
    assert side.centres.value == pytest.approx(centres.mean())
    assert side.centres.interval == pytest.approx((max(low, 0), min(high, 34)))
