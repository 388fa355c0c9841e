"""A run against its own past: what is found in its folder, how it is thinned, what is written."""

import json
import sys

import pytest
import torch
from PIL import Image

from sparring.agents.opponents.dogfight.load import frozen_policies
from sparring.agents.opponents.snapshots import names_by_age, shortened, thin
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.configs.core.status import LOADING
from sparring.configs.schema import NetworkConfig
from sparring.curriculum.pool import Pool
from sparring.eval.payoff import main, read
from sparring.eval.plots import heatmap

pytestmark = pytest.mark.usefixtures("long_steps")

QUICK = ["--games", "2", "--threads", "1", "--device", "cpu"]
STEPS = 100
"""Per update."""


def network(seed):
    made = ActorCritic(59, 2, 1, NetworkConfig(hidden=8, blocks=0), seed=seed)
    with torch.no_grad():
        made.actor[-1].weight.mul_(100.0)
    return made


@pytest.fixture
def make_run(checkpoints, make_checkpoint):
    """A run's folder with checkpoints of these updates, the last of them final, and pool snapshots of those."""

    def make(updates=(1, 2, 4), snapshots=(2, 3), name="pupil"):
        contract = load_checkpoint(make_checkpoint(f"{name}/final.pt")).contract
        folder = checkpoints / name
        for update in updates:
            path = folder / ("final.pt" if update == updates[-1] else f"step_{update * STEPS}.pt")
            training = {"run": name, "update": update, "env_steps": update * STEPS}
            save_checkpoint(path, network(update), contract=contract, training=training)
        if snapshots:
            pool = Pool(folder / "pool", 10, shape=network(0).shape)
            for update in snapshots:
                pool.add(update, network(update).state_dict())
        return folder

    return make


def test_pool_and_checkpoints_are_found_by_age_and_each_age_once(make_run):
    found = frozen_policies(make_run(), "cpu")
    assert [(frozen.env_steps, frozen.player.name) for frozen in found] == [
        (100, "pupil/step_100"),
        (200, "pupil/step_200"),  # And not the pool's of the same moment.
        (300, "pupil/pool/snapshot_000003"),
        (400, "pupil"),
    ]


def test_a_pool_snapshot_plays_under_the_contract_of_the_run(make_run):
    found = frozen_policies(make_run(), "cpu", deterministic=False)
    snapshot, final = found[2].player.contestant, found[3].player.contestant
    assert snapshot.contract == final.contract
    assert snapshot.deterministic is False
    assert all(torch.equal(a, b) for a, b in zip(snapshot.network.parameters(), network(3).parameters(), strict=True))


def test_thinning_keeps_both_ends_and_is_even_in_steps(make_run):
    found = frozen_policies(make_run(updates=(0, 1, 2, 3, 20), snapshots=(9, 10, 11)), "cpu")
    assert [frozen.env_steps for frozen in thin(found, 3)] == [0, 1000, 2000]
    assert [frozen.env_steps for frozen in thin(found, 2)] == [0, 2000]
    assert thin(found, 100) == found


def test_everyone_meets_everyone_and_it_is_written(make_run, capsys):
    folder = make_run()
    assert main(["--ckpt", "final.pt", "--opponents", "brawler", "--snapshots", "2", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert "6/6" in err  # The bar: three players, three pairs of two games.
    text = (folder / "payoff.md").read_text()
    assert text in out
    assert "| 100 | 400 | brawler |" in " ".join(text.split())
    assert "brawler fixed at 0" in text
    with Image.open(folder / "payoff.png") as picture:
        assert picture.format == "PNG"
    content = json.loads((folder / "payoff.json").read_text())
    assert (content["kind"], content["run"], content["anchor"]["player"]) == ("payoff", "pupil", "brawler")
    assert [player["env_steps"] for player in content["players"]] == [100, 400, None]
    assert content["players"][1]["file"] == "checkpoints/pupil/final.pt"
    payoff = content["payoff"]
    assert all(payoff[i][i] is None for i in range(3))
    assert all(payoff[i][j] + payoff[j][i] == 1.0 for i in range(3) for j in range(i))
    assert {rating["player"] for rating in content["ratings"]["none"]} == {p["name"] for p in content["players"]}


def test_the_same_command_writes_the_same_bytes(make_run, tmp_path):
    make_run()
    written = []
    for _ in range(2):
        who = ["--ckpt", "pupil", "--snapshots", "2", "--opponents", "none"]
        assert main([*who, "--out", str(tmp_path / "new" / "x.png"), "--quiet", *QUICK]) == 0
        written.append([(tmp_path / "new" / f"x.{ending}").read_bytes() for ending in ("png", "md", "json")])
    assert written[0] == written[1]


def test_a_damaged_snapshot_is_named(make_run, capsys):
    path = make_run() / "pool" / "snapshot_000003.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert main(["--ckpt", "pupil", *QUICK]) == 2
    assert "snapshot_000003.pt: is damaged" in capsys.readouterr().err


def test_a_checkpoint_without_an_age_is_named(make_run, capsys):
    folder = make_run()
    contract = load_checkpoint(folder / "final.pt").contract
    save_checkpoint(folder / "odd.pt", network(1), contract=contract, training={})
    assert main(["--ckpt", "pupil", *QUICK]) == 2
    assert "odd.pt: its training summary lacks env_steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--ckpt is missing"),
        (["--ckpt", "pupl"], "did you mean 'pupil'"),
        (["--ckpt", "empty"], "empty: holds no checkpoint"),
        (["--ckpt", "pupil", "--snapshots", "1"], "--snapshots 1: must be in [2, 100]"),
        (["--ckpt", "pupil", "--regimes", "all"], "--regimes: a payoff matrix is of one"),
        (["--ckpt", "pupil", "--out", "x.jpg"], "'x.jpg': must end in .png"),
        (["--ckpt", "pupil", "--anchor", "aec"], "unknown --anchor 'aec'"),
        (["--ckpt", "pupil", "--opponents", "pupil"], "pupil plays already"),
    ],
)
def test_bad_input_is_one_line(arguments, words, make_run, checkpoints, capsys):
    make_run()
    (checkpoints / "empty").mkdir()
    assert main([*arguments, *QUICK]) == 2
    out, err = capsys.readouterr()
    err = err.removeprefix(f"{LOADING}\n")  # where it takes more than the command line to know
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("eval/payoff.py: ")
    assert words in err


def test_ages_in_a_few_letters():
    ages = {0: "0", 950: "950", 12_345: "12.3k", 999_999: "1000k", 1_638_400: "1.64M", 32_768_000: "32.8M"}
    assert {steps: shortened(steps) for steps in ages} == ages


def test_ages_get_as_many_digits_as_tell_them_apart():
    assert names_by_age([100_000, 1_000_100, 1_000_200]) == ["100k", "1.0001M", "1.0002M"]


def test_table_and_picture_call_everyone_alike(make_run, monkeypatch):
    """So do the ratings; another table says which files those are."""
    drawn = []
    monkeypatch.setattr(heatmap, "draw_heatmap", lambda chart: drawn.append(chart.labels) or b"")
    folder = make_run(updates=(4,), snapshots=(3,))
    assert main(["--ckpt", "pupil", "--opponents", "ace", "--quiet", *QUICK]) == 0
    (labels,) = drawn
    assert labels == ["300", "400", "ace"]
    lines = (folder / "payoff.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head = rows.index(["", *labels, "score %", "decided %", "win %"])
    assert [row[0] for row in rows[head + 2 : head + 5]] == labels
    rated = rows.index(["rating", "Elo", "95 % interval", "games"])
    assert {row[0] for row in rows[rated + 2 : rated + 5]} == set(labels)
    assert ["300", "checkpoints/pupil/pool/snapshot_000003.pt"] in rows
    content = json.loads((folder / "payoff.json").read_text())
    assert [player["name"] for player in content["players"]] == labels


def test_the_defaults():
    options = read(["--ckpt", "x"])
    assert (options.games, options.snapshots, options.regimes, len(options.opponents)) == (100, 10, ("none",), 5)


def test_a_missing_package_is_named_before_anything_is_played(make_run, monkeypatch, capsys):
    make_run()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["--ckpt", "pupil", *QUICK]) == 2
    assert capsys.readouterr().err == ("eval/payoff.py: matplotlib is not installed; run `sparring install plots`\n")
