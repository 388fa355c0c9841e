"""A run against its own past in every game: saved policies, thinning, and matrix files."""

import json
import re
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import sparring
from sparring.agents.opponents.snapshots import names_by_age, shortened, thin
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.curriculum.pool import Pool
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.dogfight.training.opponents.load import frozen_policies
from sparring.eval.paired import evaluation
from sparring.eval.payoff import PAYOFFS, main
from sparring.eval.plots import heatmap
from tests.configs import messages
from tests.envs.imported.evaluation.saved import DUEL, save_run

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
    """Write a run with checkpoints of these updates, the last one final, and these pool snapshots."""

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


@pytest.fixture
def flyer(checkpoints):
    """Write an air combat run with two untrained policies and one-second steps, for short matches."""
    batch = AirCombatBatch(1, action_repeat=60, threads=1)
    (checkpoints / "flyer").mkdir()
    for seed, (name, steps) in enumerate((("step_1000", 1000), ("final", 5000))):
        network = build_network(shape_for(batch.contract, NetworkConfig(hidden=8, blocks=0)), seed=seed)
        config = {"env": {"model": "f16", "gun": "auto"}}
        training = {"run": "flyer", "update": seed + 1, "env_steps": steps, "config": config}
        save_checkpoint(checkpoints / "flyer" / f"{name}.pt", network, contract=batch.contract, training=training)
    batch.close()
    (checkpoints / "flyer" / "config.yaml").write_text(f"trainer: ppo\nenv: {{id: {rules.ENV_ID}}}\n")
    return checkpoints / "flyer"


def imported_run(folder, game_id=DUEL):
    save_run(folder, "pettingzoo", game_id)
    (folder / "config.yaml").write_text(f"trainer: ppo\nenv: {{package: pettingzoo, id: {game_id}}}\n")
    return folder


@pytest.fixture
def game_run(request, checkpoints):
    """Return a run's folder in a game, the other players, and the command's options."""
    if request.param == "dogfight":
        return request.getfixturevalue("make_run")(), ["brawler"], ["--device", "cpu", "--snapshots", "2"]
    if request.param == "air_combat":
        return request.getfixturevalue("flyer"), ["straight", "chaser"], ["--device", "cpu"]
    return imported_run(checkpoints / "duel"), ["random", f"{DUEL}:Highest"], ["--import", DUEL]


EVERY = pytest.mark.parametrize("game_run", ["dogfight", "air_combat", "imported"], indirect=True)


def test_pool_and_checkpoints_are_unique_by_age(make_run):
    found = frozen_policies(make_run(), "cpu")
    assert [(frozen.env_steps, frozen.player.name) for frozen in found] == [
        (100, "pupil/step_100"),
        (200, "pupil/step_200"),  # And not the pool's of the same moment.
        (300, "pupil/pool/snapshot_000003"),
        (400, "pupil"),
    ]


def test_pool_snapshot_plays_under_run_contract(make_run):
    found = frozen_policies(make_run(), "cpu", deterministic=False)
    snapshot, final = found[2].player.contestant, found[3].player.contestant
    assert snapshot.contract == final.contract
    assert snapshot.deterministic is False
    assert all(torch.equal(a, b) for a, b in zip(snapshot.network.parameters(), network(3).parameters(), strict=True))


def test_thinning_keeps_both_ends_and_even_steps(make_run):
    found = frozen_policies(make_run(updates=(0, 1, 2, 3, 20), snapshots=(9, 10, 11)), "cpu")
    assert [frozen.env_steps for frozen in thin(found, 3)] == [0, 1000, 2000]
    assert [frozen.env_steps for frozen in thin(found, 2)] == [0, 2000]
    assert thin(found, 100) == found


@EVERY
def test_run_matrix_is_in_its_folder(game_run, capsys):
    folder, opponents, options = game_run
    words = ["--ckpt", folder.name, "--opponents", ",".join(opponents), "--games", "4", "--threads", "1", *options]
    assert main(words) == 0
    out, err = capsys.readouterr()
    text, data = (folder / "payoff.md").read_text(), json.loads((folder / "payoff.json").read_text())
    assert text in out
    count = 2 + len(opponents)
    games = 4 * count * (count - 1) // 2
    assert f"{games}/{games}" in err
    steps = [100, 400] if folder.name == "pupil" else [1000, 5000]
    names = [str(step) if step < 1000 else f"{step // 1000}k" for step in steps] + opponents
    assert [player["name"] for player in data["players"]] == names
    assert [player["env_steps"] for player in data["players"]] == [*steps, *[None] * len(opponents)]
    assert data["players"][1]["file"] == f"checkpoints/{folder.name}/final.pt"
    assert f"| {' | '.join(names)}" in " ".join(text.split())
    assert (data["kind"].endswith("payoff"), data["run"]) == (True, folder.name)
    shares = np.array(data["payoff"], dtype=float)
    assert np.isnan(np.diag(shares)).all()
    np.testing.assert_allclose((shares + shares.T)[~np.eye(count, dtype=bool)], 1.0)
    ratings = data["ratings"]["none"] if folder.name == "pupil" else data["ratings"]
    assert {rating["player"] for rating in ratings} == set(names)
    assert {rating["player"]: rating["elo"] for rating in ratings}[data["anchor"]["player"]] == 0.0
    assert f"{data['anchor']['player']} fixed at 0" in text
    with Image.open(folder / "payoff.png") as picture:
        assert picture.format == "PNG"
    assert not (folder / "payoff.cells.jsonl").exists()


def test_matches_use_run_options(flyer):
    report = sparring.payoff(flyer, opponents="straight", snapshots=2, games=2, threads=1, device="cpu")
    assert "f16, gun rounds, deterministic" in report.markdown
    assert (report.data["kind"], report.data["env"]) == ("air_combat_payoff", rules.ENV_ID)
    assert (report.data["model"], report.data["gun"], report.data["action_repeat"]) == ("f16", "rounds", 60)


def test_standalone_policy_plays_at_own_step_in_any_order(flyer):
    options = {"games": 2, "threads": 1, "device": "cpu"}
    report = sparring.payoff(env="air_combat", opponents=["turning", "flyer"], model="point_mass", **options)
    assert report.data["action_repeat"] == 60
    assert report.data["anchor"]["player"] == "turning"
    assert [record["games"] for record in report.data["records"]] == [2]
    assert "gun cone" in report.markdown
    assert not report.files


def test_interrupted_command_reuses_finished_cells(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(heatmap, "draw_heatmap", lambda chart: b"")
    options = {"env": "air_combat", "opponents": ["chaser", "straight", "turning"], "out": str(tmp_path / "matrix.png")}
    options |= {"games": 2, "threads": 1, "device": "cpu"}
    whole = sparring.payoff(**options)
    played = []
    cut, play = KeyboardInterrupt, evaluation.play_cell

    def once(*pair):
        played.append(pair)
        if len(played) == 3:
            raise cut
        return play(*pair)

    monkeypatch.setattr(evaluation, "play_cell", once)
    with pytest.raises(cut):
        sparring.payoff(**options)
    assert sparring.payoff(**options).json == whole.json
    assert len(played) == 4


def test_pairs_of_several_processes_are_equal(tmp_path, packed_tasks):
    folder, options = imported_run(tmp_path / "run"), {"games": 4, "import_": DUEL}
    alone, shared = (sparring.payoff(folder, **options, **workers).data for workers in ({}, {"workers": 2}))
    assert alone.pop("command") != shared.pop("command")
    assert alone == shared
    assert len(packed_tasks) == 1


def test_imported_game_without_matrix_is_rejected(tmp_path):
    pytest.importorskip("mpe2")
    folder = imported_run(tmp_path / "tag", "mpe2.simple_tag_v3")
    with pytest.raises(
        InputError, match=r"mpe2.simple_tag_v3 has 4 seats, but a payoff matrix needs two; play earlier"
    ):
        sparring.payoff(folder, games=2)
    duel = imported_run(tmp_path / "duel")
    with pytest.raises(InputError, match=f"runs the code of the module {DUEL}"):
        sparring.payoff(duel, games=2)
    with pytest.raises(InputError, match="--games 3: must be a multiple of 2"):
        sparring.payoff(duel, games=3)


def test_same_command_writes_same_bytes(make_run, tmp_path):
    make_run()
    written = []
    for _ in range(2):
        who = ["--ckpt", "pupil", "--snapshots", "2", "--opponents", "none"]
        assert main([*who, "--out", str(tmp_path / "new" / "x.png"), "--quiet", *QUICK]) == 0
        written.append([(tmp_path / "new" / f"x.{ending}").read_bytes() for ending in ("png", "md", "json")])
    assert written[0] == written[1]


def test_damaged_snapshot_is_named(make_run, error_line):
    path = make_run() / "pool" / "snapshot_000003.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert "snapshot_000003.pt: is damaged" in error_line(main, ["--ckpt", "pupil", *QUICK])


def test_checkpoint_without_age_is_named(make_run, error_line):
    folder = make_run()
    contract = load_checkpoint(folder / "final.pt").contract
    save_checkpoint(folder / "odd.pt", network(1), contract=contract, training={})
    assert "odd.pt: its training summary lacks env_steps" in error_line(main, ["--ckpt", "pupil", *QUICK])


@EVERY
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ckpt", "{run}", "--regimes", "all"], "--regimes"),
        (["--ckpt", "{run}", "--anchor", "nobody"], "unknown --anchor 'nobody'"),
        (["--ckpt", "{run}", "--games", "3"], "--games 3: must be "),
    ],
)
def test_bad_input_gives_one_line_error_in_every_game(words, message, game_run, error_line):
    folder, _, options = game_run
    env = {"flyer": ["--env", "air_combat"], "duel": ["--env", "pettingzoo"]}.get(folder.name, [])
    options = options[:2]
    words = [word.format(run=folder.name) for word in words]
    assert message in error_line(main, [*words, *env, *options, "--threads", "1"])


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_payoff"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, make_run, flyer, checkpoints, check_row):
    make_run()
    (checkpoints / "empty").mkdir()
    check_row(main, row)


def test_ages_are_abbreviated():
    ages = {0: "0", 950: "950", 12_345: "12.3k", 999_999: "1000k", 1_638_400: "1.64M", 32_768_000: "32.8M"}
    assert {steps: shortened(steps) for steps in ages} == ages


def test_ages_have_enough_digits_to_be_distinct():
    assert names_by_age([100_000, 1_000_100, 1_000_200]) == ["100k", "1.0001M", "1.0002M"]


def test_table_and_picture_use_same_names(make_run, monkeypatch):
    """The ratings use them too; another table maps them to files."""
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


def test_missing_package_is_named_before_playing(make_run, monkeypatch, capsys):
    make_run()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["--ckpt", "pupil", *QUICK]) == 2
    needs = f"matplotlib is not installed for {sys.executable}; run `sparring install plots`\n"
    assert capsys.readouterr().err == f"eval/payoff.py: {needs}"


def test_help_names_every_game_with_matrix(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    (listed,) = re.findall(r"if no run determines it: ([^(]*)\(", " ".join(capsys.readouterr().out.split()))
    assert sorted(listed.strip().split(", ")) == sorted(PAYOFFS)
