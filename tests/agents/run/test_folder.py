"""Run folders: names, exclusiveness, and what lies where."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from sparring.agents.run import folder
from sparring.agents.run.folder import ADJECTIVES, CALLSIGNS, RunFolder, RunFolderError


def test_a_made_up_name_is_adjective_callsign_run(tmp_path):
    folder = RunFolder.create(tmp_path / "checkpoints", "", "unified_dr_gpu_v3")
    adjective, callsign, run = folder.name.split("-")
    assert (adjective in ADJECTIVES, callsign in CALLSIGNS, run) == (True, True, "unified_dr_gpu_v3")
    assert folder.path.is_dir()


def test_without_a_run_file_the_name_has_two_parts(tmp_path):
    assert len(RunFolder.create(tmp_path).name.split("-")) == 2


def test_the_words_are_many_and_plain():
    for words in (ADJECTIVES, CALLSIGNS):
        assert len(set(words)) == len(words) >= 40
        assert all(word.isalpha() and word.islower() for word in words)


def test_a_made_up_name_that_is_taken_is_drawn_again(tmp_path, monkeypatch):
    draws = iter(["dark", "ghost", "dark", "ghost", "calm", "raven"])
    monkeypatch.setattr(folder.secrets, "choice", lambda words: next(draws))
    assert RunFolder.create(tmp_path, "", "v3").name == "dark-ghost-v3"
    assert RunFolder.create(tmp_path, "", "v3").name == "calm-raven-v3"


def test_a_given_name_that_exists_is_refused(tmp_path):
    assert RunFolder.create(tmp_path, "mine").path == tmp_path / "mine"
    with pytest.raises(RunFolderError, match=r"name='mine': .* exists; choose another or leave it empty"):
        RunFolder.create(tmp_path, "mine")


def test_of_many_that_want_one_name_at_once_one_gets_it(tmp_path):
    def create(_):
        try:
            return RunFolder.create(tmp_path / "checkpoints", "mine").name
        except RunFolderError:
            return None

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(create, range(64))).count("mine") == 1


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "two words", "released", "-flag"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(RunFolderError, match=r"name=.*must be letters, digits"):
        RunFolder.create(tmp_path, name)


def test_a_place_that_cannot_be_had_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderError, match=r"checkpoint_dir=.*file/runs: cannot be made \(Not a directory\); give"):
        RunFolder.create(tmp_path / "file" / "runs")


def test_what_lies_where(tmp_path):
    folder = RunFolder(tmp_path / "dark-ghost")
    paths = [folder.config, folder.state, folder.pool, folder.final, folder.step(4096), folder.named("pre_brawler")]
    names = ["config.yaml", "state", "pool", "final.pt", "step_4096.pt", "pre_brawler.pt"]
    assert paths == [folder.path / name for name in names]
    with pytest.raises(RunFolderError, match=r"snapshot='\.\./x': must be letters"):
        folder.named("../x")


def test_the_configuration_is_yaml_in_the_given_order(tmp_path):
    folder = RunFolder.create(tmp_path)
    config = {"seed": 1, "env": {"id": "sparring/Dogfight-v1", "rules": "classic"}, "bots": ["ace"], "none": None}
    folder.write_config(config)
    text = folder.config.read_text()
    assert yaml.safe_load(text) == config
    assert text.index("seed") < text.index("env") < text.index("bots")


def test_a_run_is_opened_again_by_its_name(tmp_path):
    assert RunFolder.open(tmp_path, "mine") is None
    assert RunFolder.open(tmp_path, "") is None
    folder = RunFolder.create(tmp_path, "mine")
    folder.write_config({"seed": 1})
    assert RunFolder.open(tmp_path, "mine") == folder
    assert folder.read_config() == {"seed": 1}


def test_a_folder_that_is_no_run_is_not_opened(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(RunFolderError, match=r"name='mine': .* exists and is no run's folder; choose another name"):
        RunFolder.open(tmp_path, "mine")


@pytest.mark.parametrize("text", ["[1, 2", "just text", None])
def test_an_unreadable_configuration_is_named(tmp_path, text):
    folder = RunFolder.create(tmp_path, "mine")
    if text:
        folder.config.write_text(text)
    with pytest.raises(RunFolderError, match=r"config\.yaml: (cannot be read|is no configuration)"):
        folder.read_config()
