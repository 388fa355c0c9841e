"""Impossible paths are rejected in one line with key and value, wherever a user gives one."""

import pytest

import sparring
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import user_path
from sparring.configs.load import load_named
from sparring.envs.diplomacy.records import saved_game

RELEASED = "released/dogfight_bots_only"
CALLS = {
    "path": Policy.load,
    "path ": saved_game.load,
    "path  ": lambda path: saved_game.save(path, []),
    "path   ": lambda path: sparring.record(RELEASED, path),
    "--out": lambda path: sparring.evaluate(RELEASED, opponents=["ace"], games=2, out=path),
    "--out ": lambda path: sparring.export(RELEASED, path),
    "--out  ": lambda path: sparring.exploit(RELEASED, out=path),
    "--replay": lambda path: sparring.evaluate(RELEASED, opponents=["ace"], games=2, replay=path),
    "--log": lambda path: sparring.diplomacy_replay(log=path),
    "--static": lambda path: sparring.play(RELEASED, static=path),
}
TEXTS = {
    "--opponents": lambda text: sparring.evaluate(RELEASED, opponents=[text], games=2),
    "runs": lambda text: sparring.seeds([text, text]),
    "init_from": lambda text: load_named("quickstart", {"init_from": text}),
    "against": lambda text: load_named("quickstart", {"against": text}),
    "checkpoint_dir": lambda text: load_named("quickstart", {"checkpoint_dir": text}),
}
WRONG = {"a\0b": "holds the character NUL, which no path can; remove it", "a\ud800": "is not UTF-8 text"}


@pytest.mark.parametrize("name", [*CALLS, *TEXTS])
@pytest.mark.parametrize("text", WRONG)
def test_impossible_path_is_named(name, text):
    with pytest.raises(ConfigError) as caught:
        (CALLS | TEXTS)[name](text)
    shown = str(caught.value)
    assert shown.replace("'", "").startswith(f"{name.strip()}={text.encode('unicode_escape').decode()}: {WRONG[text]}")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("text", ["x" * 256, "/tmp/" + "é" * 128, "y/" * 2049])
def test_overlong_path_is_rejected(name, text):
    with pytest.raises(ConfigError, match=rf"^{name.strip()}='.*is too long for a path: at most 255 bytes a name"):
        CALLS[name](text)


@pytest.mark.parametrize("option", ["against", "init_from"])
def test_overlong_name_is_rejected_as_opponent(option, tmp_path):
    with pytest.raises(InputError, match=f"{option}=xxx.*(choose from|is neither)"):
        sparring.train("quickstart", {option: "x" * 300, "checkpoint_dir": tmp_path, "name": "a"})
    assert list(tmp_path.iterdir()) == []


def test_longest_valid_path_is_accepted(tmp_path):
    path = user_path("out", str(tmp_path / ("é" * 127)))
    path.write_text("")
    assert path.exists()
