"""One power against six: rejected arguments, games and output."""

import json
import re
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, DEFAULT_BOTS, ENV_ID
from sparring.envs.diplomacy.evaluation import results
from sparring.envs.diplomacy.evaluation.command import last_year_of
from sparring.envs.diplomacy.evaluation.options import FIXED, DiplomacyOptions
from sparring.envs.diplomacy.rollouts.games import play_to_end, seats_of_pairs
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.diplomacy.training.task import play_against
from sparring.eval.options import parse
from sparring.eval.run import main as run_main
from tests.configs import messages

main = partial(run_main, env="diplomacy")

QUICK = ["--games", "7", "--last-year", "1902", "--threads", "1", "--device", "cpu"]


def run(capsys, *arguments):
    code = main(arguments)
    return code, *capsys.readouterr()


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_run"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row)


def test_benchmark_is_one_pair_under_fixed_conditions(capsys, monkeypatch):
    """With 7 short games it equals the same options given individually."""
    monkeypatch.setitem(FIXED, "games", 7)
    monkeypatch.setitem(FIXED, "last_year", 1901)
    code, out, _ = run(capsys, "--bot", "random", "--protocol", "dumbbot-1v6", "--threads", "1")
    assert code == 0
    options = ["--opponents", "dumbbot", "--reference", "dumbbot", "--games", "7", "--last-year", "1901", "--seed", "0"]
    options += ["--threads", "1"]
    _, direct, _ = run(capsys, "--bot", "random", *options)
    assert out.split("Command:")[0] == direct.split("Command:")[0]


def test_policy_for_other_game_is_rejected(capsys):
    code, _, err = run(capsys, "--ckpt", "released/dogfight_bots_only", *QUICK)
    assert code == 2
    last = err.splitlines()[-1]
    assert "plays sparring/Dogfight-v1, not sparring/Diplomacy-v0; give a policy of sparring/Diplomacy-v0" in last
    assert last.endswith("or leave --env out")


def test_policy_plays_one_power(capsys, tmp_path, packed_tasks):
    policy = untrained(tmp_path / "policy.pt")
    network = load_checkpoint(policy).network
    arguments = ["--ckpt", str(policy), "--opponents", "random,dumbbot", *QUICK]
    code, out, _ = run(capsys, *arguments, "--replay", str(tmp_path / "game.html"))
    assert code == 0
    assert out.splitlines()[-1] == f"Wrote {tmp_path / 'game.html'}"
    shown = replay(tmp_path / "game.html")
    assert shown["players"] == [str(tmp_path / "policy.pt"), *["dumbbot"] * 6]
    batch = DiplomacyBatch(7, threads=1, last_year=1902)
    play_against(batch, network.eval(), "dumbbot", seed=0)
    assert shown["phases"][-1]["owner"] == batch.owner[0].tolist()
    assert len(shown["phases"][-1]["units"]) == int((batch.units[0] > 0).sum())
    batch.close()
    rows = [line for line in out.splitlines() if "policy.pt" in line and line.startswith("|")]
    assert len(rows) == 8  # against two, from either side, in two tables
    assert out.count("power by power") == 2
    content = json.loads((tmp_path / "eval.policy.json").read_text())
    for record in content["records"]:
        # Each power played once, so the whole is the mean of the powers.
        centres = [side["centres"]["value"] for side in record["alone_by_power"].values()]
        assert list(record["alone_by_power"])[2] == "FRANCE"
        assert np.mean(centres) == pytest.approx(record["alone"]["centres"]["value"])
    several = ["--workers", "2", "--replay", str(tmp_path / "again.html")]
    assert run(capsys, *arguments, *several)[1].split("Command:")[0] == out.split("Command:")[0]
    assert replay(tmp_path / "again.html") == shown
    assert len(packed_tasks) == 1


def untrained(path, **contract):
    """Save an untrained policy; `contract` adds entries."""
    network = OrderNetwork(NetworkConfig(hidden=4, blocks=1))
    sizes = {"obs_dim": network.obs_dim, "continuous": 0, "binary": 0}
    save_checkpoint(path, network, contract={"id": ENV_ID, "version": 1, **sizes, **contract}, training={})
    return path


def test_default_last_year_comes_from_training(capsys, tmp_path):
    policy = untrained(tmp_path / "policy.pt", last_year=1903)
    arguments = ["--ckpt", str(policy), "--opponents", "random", "--games", "7", "--threads", "1", "--device", "cpu"]
    for more, year in (([], 1903), (["--last-year", "1902"], 1902)):
        code, out, _ = run(capsys, *arguments, *more)
        assert code == 0
        assert f"7 games each to the end of {year}" in out
        content = json.loads((tmp_path / "eval.policy.json").read_text())
        assert content["last_year"] == year
        assert {record["year"] for record in content["records"]} == {year}


def test_last_year_is_read_from_policy_or_run(tmp_path):
    """It is read from the policy's file, then from its run's configuration, else it is unset."""
    run, model = tmp_path / "run", tmp_path / "run" / "final"
    model.mkdir(parents=True)
    assert last_year_of(model) is None
    assert last_year_of(untrained(run / "silent.pt")) is None
    (run / "config.yaml").write_text("env: {last_year: 1907}")
    assert last_year_of(model) == 1907
    assert last_year_of(run / "silent.pt") == 1907
    assert last_year_of(untrained(run / "policy.pt", last_year=1905)) == 1905
    with pytest.raises(InputError, match=r"odd\.pt: last_year='soon': must be a whole number in .*; give --last-year"):
        last_year_of(untrained(run / "odd.pt", last_year="soon"))


def replay(path):
    """Return a page's content, after checking that each phase follows from the previous one."""
    told = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])
    assert [phase["name"] for phase in told["phases"]][:1] == ["S1901M"]
    assert told["phases"][-1]["name"] == "END"
    assert len({phase["name"] for phase in told["phases"]}) == len(told["phases"])
    return told


def test_replay_shows_first_game_of_last_pair(capsys, tmp_path):
    arguments = ["--bot", "dumbbot", "--opponents", "random", "chaos", *QUICK, "--quiet"]
    assert run(capsys, *arguments, "--replay", str(tmp_path / "new" / "game.html")) == (0, "", "")
    shown = replay(tmp_path / "new" / "game.html")
    assert shown["players"] == ["dumbbot", *["chaos"] * 6]
    batch = DiplomacyBatch(7, threads=1, last_year=1902)
    play_to_end(batch, [*seats_of_pairs([("dumbbot", "chaos")], 7).items()], seed=0)
    assert shown["phases"][-1]["owner"] == batch.owner[0].tolist()
    batch.close()
    code, _, err = run(capsys, *arguments, "--replay", str(tmp_path))
    assert code == 2
    assert "is a folder; give the name of a file" in err


def test_pairings():
    ladder = parse(DiplomacyOptions, ["--ladder", "--opponents", "random,dumbbot"])
    assert ladder.cells == [(one, six) for one in ("random", "dumbbot") for six in ("random", "dumbbot")]
    assert parse(DiplomacyOptions, ["--bot", "chaos"]).cells == [("chaos", six) for six in DEFAULT_BOTS]
    assert parse(DiplomacyOptions, ["--ladder"]).cells == [(one, six) for one in BOTS for six in BOTS]


def test_ladder_is_printed_written_and_reproducible(capsys, tmp_path):
    arguments = ["--ladder", "--opponents", "random,dumbbot", *QUICK, "--out", str(tmp_path)]
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "dumbbot vs six random" in err
    assert (tmp_path / "diplomacy.md").read_text() in out
    data = (tmp_path / "diplomacy.json").read_bytes()
    content = json.loads(data)
    assert [(record["one"], record["six"]) for record in content["records"]] == parse(DiplomacyOptions, arguments).cells
    # 34 centres at most between the one and the six, and the squares of a game add up to 1.
    for record in content["records"]:
        assert record["alone"]["centres"]["value"] + 6 * record["together"]["centres"]["value"] <= 34
        assert record["alone"]["squares"]["value"] + 6 * record["together"]["squares"]["value"] == pytest.approx(1)
        assert record["games"] == 7
    code, out, err = run(capsys, *arguments, "--quiet")
    assert (code, out, err) == (0, "", "")
    assert (tmp_path / "diplomacy.json").read_bytes().replace(b" --quiet", b"") == data


def test_intervals_match_wilson_and_student():
    owner = np.full((7, 34), -1)
    owner[:3] = 2
    centres = np.array([34.0, 34, 34, 1, 1, 1, 1])
    owner[3:, :4] = [2, 3, 4, 5]
    seats = (torch.arange(7) == 2).expand(7, 7)
    side = results.side(torch.tensor(owner), seats)
    assert side.solos.value == pytest.approx(3 / 7)
    assert side.solos.interval == pytest.approx((0.1582, 0.7495), abs=1e-4)
    low, high = stats.t.interval(0.95, 6, loc=centres.mean(), scale=stats.sem(centres))
    assert side.centres.value == pytest.approx(centres.mean())
    assert side.centres.interval == pytest.approx((max(low, 0), min(high, 34)))
    assert side.draws.value == pytest.approx(4 / 7)
    assert side.losses.value == 0
    assert side.rank.value == 1


def test_game_is_won_drawn_or_lost():
    """France wins, England survives, England is eliminated, Turkey wins: seen from both sides."""
    owner = np.full((4, 34), -1)
    owner[0, :20], owner[0, 20:22] = 2, 1
    owner[1, :5], owner[1, 5:8], owner[1, 8] = 0, 1, 3
    owner[2, :5] = 4
    owner[3, :18] = 6
    england = (torch.arange(7) == 1).expand(4, 7)
    one, six = (results.side(torch.tensor(owner), seats) for seats in (england, ~england))
    assert [getattr(one, name).value for name in ("solos", "draws", "losses")] == [0, 0.25, 0.75]
    assert [getattr(six, name).value for name in ("solos", "draws", "losses")] == [0.5, 0.5, 0]
    assert one.survival.value == 0.5
    assert six.survival.value == pytest.approx((1 + 2 + 1 + 1) / 24)
    # England's places: behind France; behind Austria; behind Germany; behind Turkey.
    assert one.rank.value == 2
    # Of the six: France 1, others 3; Austria 1, Germany 3, others 4; Germany 1, others 2; Turkey 1, others 2.
    assert six.rank.value == pytest.approx((1 + 5 * 3 + 1 + 3 + 4 * 4 + 1 + 5 * 2 + 1 + 5 * 2) / 24)


def test_single_game_has_no_spread():
    owner = np.zeros((1, 34), dtype=int)
    side = results.side(torch.tensor(owner), torch.eye(7, dtype=torch.bool)[:1])
    assert (side.centres.value, side.centres.interval, side.rank.interval) == (34.0, (0.0, 34.0), (1.0, 7.0))
