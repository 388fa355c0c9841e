"""Kinds of run: how a configuration determines its kind, and what --help prints about it."""

import subprocess
import sys
from copy import deepcopy

import gymnasium
import pytest
from gymnasium.error import DeprecatedEnv

import sparring  # noqa: F401 - registers the games
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.parts import parts
from sparring.configs.games import RETIRED, is_retired
from sparring.configs.help import help_text
from sparring.configs.kinds import declared, knows, owners, run_kind, run_kinds
from sparring.configs.load import load, runs
from sparring.configs.serialization import from_stored, migrate, to_plain
from sparring.configs.validate import validate
from sparring.envs.air_combat.config import AirCombatRunConfig
from sparring.envs.chess.config import CHESS, ChessCloneRunConfig, ChessGRPORunConfig
from sparring.envs.diplomacy.config import (
    DIPLOMACY,
    DiplomacyCloneRunConfig,
    DiplomacyDistillRunConfig,
    DiplomacyGRPORunConfig,
    DiplomacyRunConfig,
)
from sparring.envs.dogfight.config import DogfightRunConfig
from sparring.envs.imported.config import GymnasiumRunConfig, ImportedRunConfig
from sparring.envs.openspiel_text.config import OpenSpielCloneRunConfig, OpenSpielGRPORunConfig
from tests.configs.run_configs import run_config


@pytest.mark.parametrize(
    ("plain", "kind"),
    [
        ({}, DogfightRunConfig),
        ({"trainer": "sb3"}, DogfightRunConfig),
        ({"env": {"id": DIPLOMACY}}, DiplomacyRunConfig),
        ({"env": {"id": "CartPole-v1"}}, GymnasiumRunConfig),
        ({"env": {"id": "sparring:sparring/Dogfight-v0"}}, DogfightRunConfig),
        ({"trainer": "grpo"}, DiplomacyGRPORunConfig),
        ({"trainer": "clone", "env": {"id": DIPLOMACY}}, DiplomacyCloneRunConfig),
        ({"trainer": "distill"}, DiplomacyDistillRunConfig),
        ({"trainer": "grpo", "env": {"id": CHESS}}, ChessGRPORunConfig),
        ({"trainer": "clone", "env": {"id": CHESS}}, ChessCloneRunConfig),
        ({"trainer": ["grpo"], "env": 3}, DogfightRunConfig),
    ],
)
def test_trainer_and_game_determine_kind(plain, kind):
    assert run_kind(plain) is kind


@pytest.mark.parametrize("kind", run_kinds())
def test_defaults_belong_to_their_kind(kind):
    plain = to_plain(kind())
    assert run_kind(plain) is kind
    assert list(plain)[-1] == "logger"
    if kind is not DiplomacyRunConfig:  # its bots are those of a run file
        validate(kind())


def test_kinds_without_game_come_from_group():
    assert parts("runs")["imported"].kinds == (GymnasiumRunConfig, ImportedRunConfig)
    assert {GymnasiumRunConfig, ImportedRunConfig} < {*run_kinds()}
    assert all(kind.ppo_task for kind in parts("runs")["imported"].kinds)


def test_options_belong_to_their_kinds():
    games = (DogfightRunConfig, DiplomacyRunConfig, AirCombatRunConfig, GymnasiumRunConfig, ImportedRunConfig)
    fights = [DogfightRunConfig, AirCombatRunConfig]
    assert owners("seed") == owners("env.id") == list(run_kinds())
    assert owners("ppo.clip") == owners("phases.0.updates") == owners("env.num_envs") == list(games)
    assert owners("env.reward.win") == owners("evaluation.check_bot") == fights
    assert owners("env.rules") == [DogfightRunConfig]
    rated = [DogfightRunConfig, DiplomacyRunConfig, AirCombatRunConfig, ImportedRunConfig]
    assert owners("self_play.slots") == owners("phases.0.scripted_end") == rated
    assert owners("self_play.promotion_games") == [*fights, ImportedRunConfig]
    assert owners("phases.3.stages.0.bots.1") == rated
    assert owners("network.encoder") == [ImportedRunConfig]
    assert owners("env.kwargs.board_size") == [ImportedRunConfig, OpenSpielGRPORunConfig, OpenSpielCloneRunConfig]
    assert owners("network.memory") == owners("ppo.sequence_length") == [*fights, ImportedRunConfig]
    assert owners("env.flares") == [AirCombatRunConfig]
    assert owners("evaluation.every") == [kind for kind in run_kinds() if kind is not GymnasiumRunConfig]
    assert owners("env.normalize_obs") == [GymnasiumRunConfig]
    assert owners("no.such") == []


def test_missing_option_is_attributed_to_other_kind():
    for kind in run_kinds():
        for key in kind.lacks:
            assert owners(key), key
            assert not knows(kind, key), key


def test_help_names_kinds_of_option():
    text = " ".join(help_text().split())
    assert "env.reward.win=5.0 [-1000, 1000]; the dogfight and air combat only" in text
    assert "env.last_year=1910 [1901, 30000]; Diplomacy only" in text
    assert "env.normalize_obs=False True or False; Gymnasium only" in text
    assert "evaluation.every=0 [0, 10000000]; the dogfight, Diplomacy, air combat, imported games, chess and" in text
    assert "evaluation.check_every=0 [0, 10000000]; the dogfight and air combat only" in text
    line = "env.num_envs=256 [1, 1000000]; ppo and sb3 only Number of parallel matches or copies of the environment."
    assert line in text
    assert "grpo.steps=200 [1, 10000000]; grpo only" in text
    assert "trainer=ppo clone, distill, grpo, ppo, sb3" in text
    assert "env.id=sparring/Dogfight-v1 an id" in text
    assert "seed=1 [0, 2147483647]" in text


@pytest.fixture(scope="module")
def everything():
    """The sections of all kinds of run."""
    sections: dict = {}
    for kind in run_kinds():
        for key in declared(kind):
            if "phases" not in key and key != "env.package":  # which is younger
                *groups, name = key.split(".")
                section = sections
                for group in groups:
                    section = section.setdefault(group, {})
                section[name] = "of another kind"
    return sections


@pytest.mark.parametrize("run", runs())
def test_file_with_sections_of_all_kinds_is_read_as_its_kind(run, everything):
    """Every config.yaml was once written this way."""
    config, old = run_config(run), deepcopy(everything)
    for key, value in to_plain(config).items():
        old[key] = {**old[key], **value} if isinstance(value, dict) else value
    if config.trainer in ("grpo", "clone", "distill"):
        old["phases"] = to_plain(DogfightRunConfig())["phases"]
    elif config.env.id != DogfightRunConfig().env.id:
        old["phases"] = [{"randomization": [], "scripted_end": 1.0, **phase} for phase in old["phases"]]
    old["env"].setdefault("reward", {"win": 1})
    assert from_stored(old) == config
    assert migrate(to_plain(config)) == to_plain(config)


def test_unknown_option_is_left_for_rejection():
    assert migrate({"ppo": {"clips": 1}, "grpo": {"stepz": 1}}) == {"ppo": {"clips": 1}}
    assert migrate([1]) == [1]


NEW_GAME = """
import sys
from types import ModuleType

from sparring.configs import schema
from sparring.envs import game

class NewRunConfig(schema.PPORunConfig):
    game, title, bots, seats = "sparring/New-v0", "the new game", ("idle", "keen"), 2

room = sys.modules["sparring.envs.new"] = ModuleType("sparring.envs.new")
room.RUNS, about = (NewRunConfig,), {"title": "the new game", "seats": 2, "bots": NewRunConfig.bots, "first_run": ""}
room.GAME = game.Game(name="new", id="sparring/New-v0", runs="sparring.envs.new:RUNS", **about)
game.parts("games")["new"] = room.GAME
game.games.cache_clear()

from sparring.configs.core.errors import ConfigError
from sparring.configs.help import help_text
from sparring.configs.kinds import run_kind
from sparring.configs.serialization import from_plain
from sparring.configs.validate import validate

def loaded(bot, **env):
    plain = {"env": {"id": "sparring/New-v0", **env}, "phases": [{"stages": [{"at": 0, "bots": [bot]}]}]}
    assert run_kind(plain) is NewRunConfig
    validate(from_plain(plain))

loaded("keen")
assert "the new game" in help_text()
for arguments, message in ((("ace", {}), "choose from idle, keen"), (("keen", {"num_envs": 1}), "at least 2")):
    try:
        loaded(arguments[0], **arguments[1])
    except ConfigError as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)
"""


def test_game_matches_folder_and_name():
    done = subprocess.run([sys.executable, "-c", NEW_GAME], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("env_id", RETIRED)
def test_retired_id_has_registered_successor(env_id):
    assert env_id not in gymnasium.registry
    assert RETIRED[env_id].successor in gymnasium.registry
    assert is_retired(env_id)
    assert not is_retired(RETIRED[env_id].successor)


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
@pytest.mark.parametrize("prefix", ["", "sparring:"])
@pytest.mark.parametrize("env_id", RETIRED)
def test_gymnasium_names_successor(env_id, prefix):
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(DeprecatedEnv, match=f"Please use `{RETIRED[env_id].successor}` instead"):
            make(prefix + env_id)


@pytest.mark.parametrize("prefix", ["", "sparring:"])
@pytest.mark.parametrize("env_id", RETIRED)
def test_training_retired_id_explains_replacement(env_id, prefix):
    with pytest.raises(ConfigError) as refusal:
        load(["+run=quickstart", f"env.id={prefix}{env_id}"])
    old = RETIRED[env_id]
    why = f"is no longer registered, because its {old.reason}; use env.id={old.successor}"
    assert str(refusal.value) == f"env.id={prefix}{env_id}: {why}"


@pytest.mark.parametrize("env_id", ["sparring/Dogfight-v2", "sparring/dogfight-v1"])
def test_unknown_game_error_lists_games(env_id):
    with pytest.raises(InputError, match=r"unknown env\.id .*sparring/Dogfight-v1"):
        load(["+run=quickstart", f"env.id={env_id}"])


@pytest.mark.parametrize("env_id", ["sparring/AirComba-v1", "AirCombat-v1", "sparring/Dogfight-v0"])
def test_wrong_game_is_reported_before_its_missing_options(env_id):
    with pytest.raises(InputError, match=r"^(unknown )?env\.id"):
        load(["+run=air_combat_quickstart", f"env.id={env_id}"])
