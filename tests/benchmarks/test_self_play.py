"""Recipes of self-play: the same cost for all, options that exist, and exploiters that stay."""

import pytest

from benchmarks.self_play.recipes import EXPLOITERS, RECIPES, follow
from sparring.configs.load import load
from sparring.envs.dogfight.rules import BOTS

START = "released/dogfight_bots_only"
UPDATES = 40


@pytest.fixture
def runs(tmp_path):
    """Configurations by name of the runs that a recipe asked for; nothing is trained."""
    asked = {}

    def train(name, options):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        (folder / "final.pt").touch()
        asked[name] = load(["+run=quickstart", *options])
        return str(folder / "final.pt")

    def followed(recipe):
        return asked, follow(recipe, START, UPDATES, train)

    return followed


@pytest.mark.parametrize("recipe", [*RECIPES, EXPLOITERS])
def test_all_recipes_cost_the_same_env_steps(runs, recipe):
    asked, _ = runs(recipe)
    steps = [config.max_updates * config.env.num_envs * config.ppo.rollout_steps for config in asked.values()]
    assert sum(steps) == UPDATES * 512 * 64


def test_an_exploiter_begins_with_the_policy_that_it_trains_against_and_stays(runs):
    asked, final = runs(EXPLOITERS)
    assert list(asked) == [f"{part} {number}" for number in range(1, 6) for part in ("exploiter", "round")]
    assert asked["exploiter 1"].init_from == START
    assert asked["exploiter 1"].phases[0].stages[0].bots == [START]
    second, third = asked["exploiter 2"], asked["exploiter 3"]
    assert second.phases[0].stages[0].bots == [second.init_from]
    assert third.phases[0].stages[0].bots == [third.init_from] != [second.init_from]
    last = asked["round 5"].phases[0].stages[0].bots
    assert last[:5] == list(BOTS)
    assert [name.split("/")[-2] for name in last[5:]] == [f"exploiter-{number}" for number in range(1, 6)]
    assert final.endswith("round-5/final.pt")
