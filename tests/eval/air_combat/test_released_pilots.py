"""The released policies of air combat still do what their cards say, here and now, in the simulator as it is."""

import pytest

import sparring
from sparring.agents.opponents.air_combat import CombatConditions
from sparring.agents.play.dogfight_matches import play
from sparring.configs.core.files import ROOT

RELEASED = ROOT / "checkpoints" / "released"
FLOWN = [
    ("air_combat_quickstart", "point_mass", "cone"),
    ("air_combat_f16", "f16", "cone"),
    ("air_combat_f16_rounds", "f16", "rounds"),
]


@pytest.mark.parametrize(("name", "model", "gun"), FLOWN)
def test_it_beats_the_dogfighter(name, model, gun):
    """A contract, a simulator or weights that have changed lose far more games than chance does in forty."""
    policy = sparring.load(RELEASED / f"{name}.pt").policy
    setting = CombatConditions(model, gun, policy.contract["action_repeat"], threads=1)
    results = play(policy, "dogfighter", games=40, seed=20, setting=setting)
    assert results.wins >= 32, f"{results.wins} wins, {results.draws} draws, {results.losses} losses"
