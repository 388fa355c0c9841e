"""The released air combat policies perform as their cards state in the current simulator."""

import json

import pytest

import sparring
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import ROOT
from sparring.envs.air_combat.evaluation.command import matches_of
from sparring.envs.air_combat.rules import CombatOptions
from sparring.envs.air_combat.training.opponents import CombatConditions, ground_limit, open_player
from sparring.envs.dogfight.training.matches import play
from sparring.eval.exploit import find_targets, make_runs
from sparring.eval.exploitability.options import ExploitOptions
from sparring.eval.options import parse

RELEASED = ROOT / "checkpoints" / "released"
FLOWN = [
    ("air_combat_quickstart", "point_mass", "cone"),
    ("air_combat_f16", "f16", "cone"),
    ("air_combat_f16_rounds", "f16", "rounds"),
    ("air_combat_low", "point_mass", "cone"),
    ("air_combat_f16_low", "f16", "cone"),
]
KEPT = [("air_combat_low", "deck"), ("air_combat_f16_low", "spiral")]
LOW = [(name, pilot) for name in ("air_combat_low", "air_combat_f16_low") for pilot in ("deck", "weaver", "spiral")]


def flown(name, model, gun, opponent, **near):
    policy = sparring.load(RELEASED / f"{name}.pt").policy
    options = CombatOptions(observe_ground=policy.contract.get("observe_ground", False))
    setting = CombatConditions(model, gun, policy.contract["action_repeat"], threads=1, options=options, **near)
    return play(policy, opponent, games=40, seed=20, setting=setting)


@pytest.mark.parametrize(("name", "model", "gun"), FLOWN)
def test_released_pilot_beats_dogfighter(name, model, gun):
    """A changed contract, simulator or weights would lose far more of forty games than chance."""
    results = flown(name, model, gun, "dogfighter")
    assert results.wins >= 32, f"{results.wins} wins, {results.draws} draws, {results.losses} losses"


@pytest.mark.parametrize(
    ("name", "pilot"), [*KEPT, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in LOW if pair not in KEPT)]
)
def test_low_pilot_wins_without_ground_impact(name, pilot):
    model = "f16" if "f16" in name else "point_mass"
    results = flown(name, model, "cone", pilot, ground_limit=100.0, low_start=0.5)
    assert (results.wins >= 32, results.losses <= 2) == (True, True), results


def test_attackers_come_from_same_game(tmp_path):
    """`all` starts with every other released air combat policy, and excludes the dogfight planner."""
    options = parse(ExploitOptions, ["released/air_combat_quickstart", "--attacker", "all", "--out", str(tmp_path)])
    assert options.start[:2] == ("cold", "warm")
    assert len(options.start) > 2
    assert all(name.startswith("released/air_combat_") for name in options.start[2:])
    with pytest.raises(InputError, match="--attacker planner: plans only in the dogfight; remove it"):
        find_targets(parse(ExploitOptions, ["released/air_combat_quickstart", "--attacker", "planner"]))
    with pytest.raises(InputError, match="--import json: applies only to policies of PettingZoo games"):
        find_targets(parse(ExploitOptions, ["released/air_combat_quickstart", "--import", "json"]))


@pytest.mark.parametrize(("name", "model", "gun"), FLOWN)
def test_evaluations_and_attacks_use_training_matches(name, model, gun, tmp_path):
    path = RELEASED / f"{name}.pt"
    pilot = open_player(path)
    assert CombatConditions(*matches_of(pilot, "", "")).gun_name == gun
    assert matches_of(pilot, "", "")[0] == model
    assert (ground_limit([open_player("ace"), pilot]), ground_limit([pilot], 0.0)) == (100.0, 0.0)
    starts = ["--start", "cold", "released/air_combat_quickstart"]  # a policy of the point mass learns the others, too
    options = parse(ExploitOptions, [str(path), "--steps", "100000", "--seeds", "1", *starts])
    runs = make_runs(options, find_targets(options), tmp_path)
    assert len(runs) == len(starts) - 1
    for run in runs:
        assert (run.config.env.model, run.config.env.gun) == (model, "auto" if model == "point_mass" else gun)
        assert run.config.env.ground_limit == 100.0


def test_gun_follows_selected_flight_model():
    pilot = open_player(RELEASED / "air_combat_f16.pt")
    assert matches_of(pilot, "point_mass", "") == ("point_mass", "")
    assert matches_of(pilot, "", "rounds") == ("f16", "rounds")


@pytest.mark.parametrize("path", sorted(RELEASED.glob("*.pt")), ids=lambda path: path.stem)
def test_released_policy_names_no_training_machine_folder(path):
    told = json.dumps(load_checkpoint(path).training)
    assert '"/' not in told
    assert "~" not in told
