"""The released policy still does what its page says: it beats every bot, here and now, in the simulator as it is."""

from pathlib import Path

import pytest

from sparring.agents.play.matches import play
from sparring.agents.policies.policy import Policy
from sparring.envs.dogfight.rules import BOTS
from sparring.eval.stats.tables import wilson

RELEASED = Path(__file__).resolve().parents[3] / "checkpoints" / "released" / "dogfight_quickstart.pt"


@pytest.mark.parametrize("bot", BOTS)
def test_the_released_policy_beats(bot):
    results = play(Policy.load(RELEASED), bot, games=400, seed=20)
    low, _ = wilson(results.wins, results.games)
    assert low >= 0.95, f"{results.wins} wins, {results.draws} draws, {results.losses} losses against {bot}"
