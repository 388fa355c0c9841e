"""Ids that are no longer registered are answered with the reason and the id to use."""

import gymnasium
import pytest
from gymnasium.error import DeprecatedEnv

import sparring  # noqa: F401 - registers the games
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.games import RETIRED, is_retired
from sparring.configs.load import load


@pytest.mark.parametrize("env_id", RETIRED)
def test_a_retired_id_has_a_registered_successor(env_id):
    assert env_id not in gymnasium.registry
    assert RETIRED[env_id].successor in gymnasium.registry
    assert is_retired(env_id)
    assert not is_retired(RETIRED[env_id].successor)


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
@pytest.mark.parametrize("prefix", ["", "sparring:"])
@pytest.mark.parametrize("env_id", RETIRED)
def test_gymnasium_names_the_successor(env_id, prefix):
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(DeprecatedEnv, match=f"Please use `{RETIRED[env_id].successor}` instead"):
            make(prefix + env_id)


@pytest.mark.parametrize("run", ["+run=quickstart", "env=gymnasium"])
@pytest.mark.parametrize("prefix", ["", "sparring:"])
@pytest.mark.parametrize("env_id", RETIRED)
def test_training_says_why_and_what_to_use(env_id, prefix, run):
    with pytest.raises(ConfigError) as refusal:
        load([run, f"env.id={prefix}{env_id}"])
    old = RETIRED[env_id]
    why = f"is no longer registered, because its {old.reason}; use env.id={old.successor}"
    assert str(refusal.value) == f"env.id={prefix}{env_id}: {why}"


@pytest.mark.parametrize("env_id", ["sparring/Dogfight-v2", "sparring/dogfight-v1"])
def test_the_error_for_an_unknown_game_lists_the_games(env_id):
    with pytest.raises(InputError, match=r"unknown env\.id .*sparring/Dogfight-v1"):
        load(["+run=quickstart", f"env.id={env_id}"])


@pytest.mark.parametrize("env_id", ["sparring/AirComba-v1", "AirCombat-v1", "sparring/Dogfight-v0"])
def test_a_wrong_game_is_blamed_before_the_options_that_it_lacks(env_id):
    with pytest.raises(InputError, match=r"^(unknown )?env\.id"):
        load(["+run=air_combat_quickstart", f"env.id={env_id}"])
