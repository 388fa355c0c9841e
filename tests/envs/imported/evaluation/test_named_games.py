"""Files cannot name code: only installed games are trusted, and no module is imported."""

import os
import re
import sys

import pytest
import yaml

import sparring
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.configs.resume import resume_hint
from sparring.configs.serialization import from_plain, to_plain
from sparring.envs.imported.config import GymnasiumEnvConfig, ImportedEnvConfig
from sparring.envs.imported.evaluation.players import network_states
from sparring.envs.imported.evaluation.policy import ImportedGame, check_modules
from sparring.envs.imported.names import found_elsewhere

CANARY = "raise SystemExit('the canary was imported')\n"
HOSTILE = [
    "pettingzoo.env_registry.spec:_load_env_creator",
    "pettingzoo.env_registry.registration:make",
    "pettingzoo.classic.all_modules:find_spec",
    "pettingzoo.classic.chess_v6:import_module",
    "pettingzoo.classic.chess_v6:chess",
    "pettingzoo.classic.chess.chess:importlib",
    "pettingzoo.utils.conversions:aec_to_parallel",
    "pettingzoo.utils:wrappers",
    "pettingzoo:ParallelEnv",
    "pettingzoo",
    "pettingzoo.test.api_test:api_test",
    "pettingzoo.classic",
    "pettingzoo.classic.chess",
    "pettingzoo.os_v1",
    "pettingzoo.classic.rlcard_envs.leduc_holdem_v4",
    "pettingzoo.classic.chess_v6.env",
    "pettingzoo.classic.chess_v6:__loader__",
    "mpe2._mpe_utils.simple_env:make_env",
    "mpe2.all_modules",
    "mpe2.simple_v3:SimpleEnv",
    "mpe2_v1.canary",
    "canary",
    "canary.chess_v6",
    "canary.pettingzoo.classic.chess_v6:env",
    "subprocess:run",
    "os",
    "importlib:import_module",
]
KNOWN = [
    "pettingzoo.classic.chess_v6",
    "pettingzoo.classic.tictactoe_v3:env",
    "pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env",
    "pettingzoo.atari.pong_v3",
    "mpe2.simple_tag_v3:raw_env",
]


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """Create a module that ends the process on import; return its folder."""
    for name in ("canary.py", "canary_v1.py"):
        (tmp_path / name).write_text(CANARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    assert not {"canary", "canary_v1"} & sys.modules.keys()


def options(game_id, kwargs):
    return {"env": {"package": "pettingzoo", "id": game_id, "kwargs": kwargs}, "defaults": ["pettingzoo"]}


@pytest.mark.parametrize("game_id", HOSTILE)
def test_run_file_cannot_name_callable(game_id, canary):
    file = canary / "mine.yaml"
    file.write_text(yaml.safe_dump(options(game_id, {"entry_point": "canary:env", "id": "canary"})))
    with pytest.raises(ConfigError, match=r"runs the code of the module [\w.]+; if you trust it, add env\.id="):
        load([f"+run={file}"])


@pytest.mark.parametrize("game_id", HOSTILE)
def test_stored_configuration_cannot_name_callable(game_id, canary):
    folder = canary / "runs" / "run"
    folder.mkdir(parents=True)
    config = to_plain(load(["env=pettingzoo"]))
    config["env"] |= {"id": game_id, "kwargs": {"name": "canary"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match=r"runs the code of the module [\w.]+; if you trust it, add env\.id="):
        load(["resume=run", f"checkpoint_dir={canary / 'runs'}"])


@pytest.mark.parametrize("game_id", HOSTILE)
def test_policy_cannot_name_callable(game_id, canary):
    module = game_id.partition(":")[0]
    with pytest.raises(InputError, match=rf"the code of the module {module}; if you trust it, add --import {module}$"):
        check_modules("final.pt", ImportedGame("pettingzoo", game_id, {"entry_point": "canary:env"}), ())


@pytest.mark.parametrize("game_id", KNOWN)
def test_installed_package_games_need_no_trust(game_id, tmp_path):
    assert ImportedEnvConfig(id=game_id).module == ""
    check_modules("final.pt", ImportedGame("pettingzoo", game_id), ())
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(options(game_id, {})))
    assert load([f"+run={file}"]).env.id == game_id


def test_match_score_function_is_never_trusted():
    game = ImportedGame("openspiel", "kuhn_poker", outcome="pettingzoo.env_registry.spec:_load_env_creator")
    with pytest.raises(InputError, match=r"module pettingzoo\.env_registry\.spec; if you trust it"):
        check_modules("final.pt", game, ())


def test_openspiel_game_module_is_imported_only_if_user_names_it(canary):
    """The canary ends the process. A name in brackets is an option, not a module."""
    own, run = "canary:own_game", canary / "runs" / "run"
    file = canary / "mine.yaml"
    file.write_text(yaml.safe_dump({"env": {"package": "openspiel", "id": own}, "defaults": ["openspiel"]}))
    run.mkdir(parents=True)
    config = to_plain(load(["env=openspiel"]))
    config["env"] |= {"id": own}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    for words in ([f"+run={file}"], ["resume=run", f"checkpoint_dir={canary / 'runs'}"]):
        with pytest.raises(
            ConfigError, match=r"code of the module canary; if you trust it, add env\.id=canary:own_game"
        ):
            load(words)
    for game_id in (own, "canary:own_game(cards=3)"):
        with pytest.raises(InputError, match=r"the code of the module canary; if you trust it, add --import canary$"):
            check_modules("final.pt", ImportedGame("openspiel", game_id), ())
    assert load(["env=openspiel", f"env.id={own}"]).env.module == "canary"
    assert ImportedGame("openspiel", "turn_based_simultaneous_game(game=canary:x)").modules == []


def test_user_input_is_trusted():
    own = "my_package.game:make"
    assert load(["env=pettingzoo", f"env.id={own}"]).env.id == own
    check_modules("final.pt", ImportedGame("pettingzoo", own), ["my_package.game"])


FILE_OPTIONS = [
    "filename",
    "instances_file",
    "boards_file",
    "word_list_file",
    "auto_rom_install_path",
    "log_dirs",
    "map",
]


@pytest.fixture
def fifo(tmp_path, monkeypatch):
    """Create a FIFO that would block any reader; creating a game ends the process."""
    os.mkfifo(tmp_path / "fifo")
    pyspiel = pytest.importorskip("pyspiel")
    monkeypatch.setattr(pyspiel, "load_game", lambda *given: sys.exit(f"{given} was made"))
    return tmp_path / "fifo"


@pytest.mark.parametrize("option", FILE_OPTIONS)
def test_file_named_only_by_file_is_not_opened(option, fifo):
    typed = f"env.kwargs.{option}={fifo}"
    refusal = rf"in {re.escape(typed)}; if you trust it, add {re.escape(typed)}$"
    mine = fifo.parent / "mine.yaml"
    env = {"package": "openspiel", "id": "efg_game", "kwargs": {option: str(fifo)}}
    mine.write_text(yaml.safe_dump({"env": env, "defaults": ["openspiel"]}))
    with pytest.raises(ConfigError, match=refusal):
        load([f"+run={mine}"])
    config = load([f"+run={mine}", typed])
    assert config.env.kwargs == {option: str(fifo)}
    (fifo.parent / "run").mkdir()
    (fifo.parent / "run" / "config.yaml").write_text(yaml.safe_dump(to_plain(config)))
    for given in ([], ["env.id=efg_game"], ["env.kwargs.players=2"]):
        with pytest.raises(ConfigError, match=refusal):
            load(["resume=run", f"checkpoint_dir={fifo.parent}", *given])
    assert load(["resume=run", f"checkpoint_dir={fifo.parent}", typed]).env.kwargs == {option: str(fifo)}
    assert typed in resume_hint(config, "run")
    game = ImportedGame("openspiel", "efg_game", {option: str(fifo)})
    with pytest.raises(
        InputError, match=rf"the file in {option}={fifo}; if you trust it, add --import {option}={fifo}$"
    ):
        check_modules("final.pt", game, ())
    check_modules("final.pt", game, [f"{option}={fifo}"])


@pytest.mark.parametrize(
    ("game_id", "kwargs"),
    [
        ("efg_game(filename=x)", {}),
        ("turn_based_simultaneous_game(game=nfg_game(filename=x))", {}),
        ("repeated_game", {"stage_game": "nfg_game(filename = x)"}),
        ("efg_game", {"filename": "x"}),
        ("efg_game", {"FileName": "..\\x"}),
    ],
)
def test_policy_cannot_name_game_file(game_id, kwargs):
    with pytest.raises(InputError, match="may read or write the file in"):
        check_modules("final.pt", ImportedGame("openspiel", game_id, kwargs), ())


@pytest.mark.parametrize(
    "kwargs", [{"direction": "left"}, {"board_size": 3}, {"obs_type": "rgb_image"}, {"filename": ""}]
)
def test_other_game_options_need_no_trust(kwargs):
    check_modules("final.pt", ImportedGame("openspiel", "leduc_poker(players=3)", kwargs), ())


@pytest.mark.parametrize("kwargs", [{"a": {"b": 1}}, {"a": [1, object()]}, {"a": b"x"}, {"a-b": 1}, {"__class__ ": 1}])
def test_game_options_are_plain_data(kwargs):
    plain = to_plain(load(["env=pettingzoo"]))
    plain["env"]["kwargs"] = kwargs
    with pytest.raises(ConfigError, match=r"env\.kwargs"):
        from_plain(plain)


@pytest.mark.parametrize("env_id", ["canary:CartPole-v1", "os:Taxi-v3", "gymnasium.envs:CartPole-v1"])
def test_gymnasium_ids_with_module_need_trust(env_id, canary):
    assert GymnasiumEnvConfig(id=env_id).module == env_id.partition(":")[0]
    file = canary / "mine.yaml"
    file.write_text(yaml.safe_dump({"env": {"id": env_id}, "defaults": ["gymnasium"]}))
    with pytest.raises(ConfigError, match=r"if you trust it, add env\.id="):
        load([f"+run={file}"])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("goofspiel", "check it as openspiel:goofspiel, train with env=openspiel env.id=goofspiel"),
        ("goofspeil", "openspiel:goofspiel"),
        ("leduc_poker(players=3)", "openspiel:leduc_poker"),
        ("tictactoe", "check it as pettingzoo.classic.tictactoe_v3, train with env=pettingzoo"),
        ("connect_four_v2", "pettingzoo.classic.connect_four_v3"),
        ("classic.go_v5", "pettingzoo.classic.go_v5"),
        ("simple_tag", "mpe2.simple_tag_v3"),
        ("CartPole-v1", "Gymnasium has CartPole-v1, for one player: train with env=gymnasium env.id=CartPole-v1"),
        ("cartpole", "env.id=CartPole-v1"),
        ("my_package.game", ""),
        ("json", ""),
    ],
)
def test_name_without_package_is_found(given, meant):
    pytest.importorskip("pyspiel")
    pytest.importorskip("mpe2")
    found = found_elsewhere(given)
    assert meant in found
    assert bool(meant) == bool(found)


@pytest.mark.parametrize("name", ["goofspiel", "openspiel:connect_fourr_v3", "CartPole-v1"])
def test_check_states_game_origin(name):
    pytest.importorskip("pyspiel")
    with pytest.raises(InputError, match=r"openspiel:goofspiel|connect_four|env=gymnasium env\.id=CartPole-v1"):
        sparring.check(name, trial=0)


def test_policy_may_import_only_module_of_played_game(monkeypatch):
    """The command line named the game, so its module has run; a policy file cannot name one."""
    allowed = []

    def load_policy(path, device, modules):
        allowed.append(modules)
        raise InputError("read")

    monkeypatch.setattr(network_states, "find_checkpoint", lambda text: text)
    monkeypatch.setattr(network_states, "load_policy", load_policy)
    game = type("Race", (), {"__module__": "race"})()
    with pytest.raises(InputError, match="read"):
        network_states.read_policy("racer", game)
    assert allowed == [["race"]]
