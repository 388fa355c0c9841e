"""Resolving names: from any folder, or an error with choices and the nearest match."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparring.agents.opponents import players
from sparring.agents.opponents.players import display_name, find_checkpoint, find_player, find_run
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.games import DOGFIGHT
from sparring.envs import diplomacy, dogfight
from sparring.envs.diplomacy.config import DIPLOMACY
from sparring.envs.game import games, load

DOGFIGHT_GAME, DIPLOMACY_GAME = dogfight.GAME, diplomacy.GAME
ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"run": "['--ckpt', 'no-name']", "payoff": "['--ckpt', 'no-name']", "export": "['--ckpt', 'no-name']"}
COMMANDS["seeds"] = "['no-name', 'no-name-either']"


def find_opponent(text, game=DOGFIGHT_GAME):
    return find_player(text, game, bare=game.bots)


def saved(path, seconds=None):
    """Stand in for a policy that is not read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    if seconds:
        os.utime(path, (seconds, seconds))
    return path


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Create a repository with two runs and a released policy, outside the working directory."""
    folder = tmp_path / "repository" / "checkpoints"
    for seconds, run in enumerate(["dark-ghost-quickstart", "calm-raven-quickstart"], start=1):
        saved(folder / run / "final.pt", seconds)
    saved(folder / "released" / "dogfight_bots_only.pt")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(players, "CHECKPOINTS", folder)
    return folder


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path / "checkpoints")
    return tmp_path / "checkpoints"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dark-ghost-quickstart", "dark-ghost-quickstart/final.pt"),
        ("dark-ghost-quickstart/final.pt", "dark-ghost-quickstart/final.pt"),
        ("checkpoints/dark-ghost-quickstart/final.pt", "dark-ghost-quickstart/final.pt"),
        ("checkpoints/dark-ghost-quickstart", "dark-ghost-quickstart/final.pt"),
        ("final.pt", "calm-raven-quickstart/final.pt"),
        ("released/dogfight_bots_only", "released/dogfight_bots_only.pt"),
        ("released/dogfight_bots_only.pt", "released/dogfight_bots_only.pt"),
        ("dogfight_bots_only", "released/dogfight_bots_only.pt"),
    ],
)
def test_found_by_name_from_any_folder(root, text, found):
    assert find_checkpoint(text) == find_player(text) == find_opponent(text) == root / found


def test_run_precedes_released_policy_of_same_name(root):
    run = saved(root / "dogfight_bots_only" / "final.pt")
    assert find_checkpoint("dogfight_bots_only") == run


def test_path_from_working_directory_takes_precedence(root, tmp_path):
    here = saved(tmp_path / "elsewhere" / "final.pt")
    assert find_checkpoint("final.pt") == here
    assert find_checkpoint(str(here)) == here


def test_newest_is_by_time_then_name(root):
    for run in ("dark-ghost-quickstart", "calm-raven-quickstart"):
        saved(root / run / "final.pt", 9)
    assert find_checkpoint("final.pt").parent.name == "dark-ghost-quickstart"


def test_unknown_name_lists_choices_and_nearest(root):
    with pytest.raises(UnknownNameError, match=r"choose from .*; or pass a path") as caught:
        find_checkpoint("dark-gost-quickstart")
    message = str(caught.value)
    assert "\n" not in message
    assert "no checkpoint 'dark-gost-quickstart'" in message
    assert "released/dogfight_bots_only" in message
    assert "did you mean 'dark-ghost-quickstart'" in message


def of_game(run, env_id):
    (run / "config.yaml").write_text(f"env: {{id: {env_id}}}")


def test_each_game_suggests_its_own_players(root):
    """Runs, policies, bots and training hints of other games are not suggested."""
    of_game(root / "dark-ghost-quickstart", DOGFIGHT)
    of_game(saved(root / "red-fox-diplomacy" / "final.pt").parent, DIPLOMACY)
    saved(root / "released" / "diplomacy_ppo.pt")
    lines = {}
    for game in (DOGFIGHT_GAME, DIPLOMACY_GAME):
        with pytest.raises(UnknownNameError) as caught:
            find_checkpoint("unknown", game)
        lines[game] = str(caught.value).partition("choose from ")[2].removesuffix("; or pass a path")
    assert lines[DOGFIGHT_GAME] == (
        "final.pt, calm-raven-quickstart, dark-ghost-quickstart, released/dogfight_bots_only"
    )
    models = "tiny, smollm2, released/diplomacy_ppo"
    assert lines[DIPLOMACY_GAME] == f"final.pt, calm-raven-quickstart, red-fox-diplomacy, {models}"


def test_language_models_are_suggested_where_playable(root):
    of_game(saved(root / "red-fox-diplomacy" / "final.pt").parent, DIPLOMACY)
    of_game(root / "dark-ghost-quickstart", DIPLOMACY)
    for trainer, run in (("grpo", "gray-wolf"), ("clone", "pale-horse")):
        saved(root / run / ("final.pt" if trainer == "grpo" else "final/config.json"))
        (root / run / "config.yaml").write_text(f"trainer: {trainer}\nenv: {{id: {DIPLOMACY}}}")
    saved(root / "released" / "diplomacy_ppo.pt")
    lines = {}
    for models in (True, False):
        with pytest.raises(UnknownNameError) as caught:
            find_player("unknown", DIPLOMACY_GAME, models=models)
        listed = str(caught.value).partition("choose from final.pt, calm-raven-quickstart, ")[2]
        lines[models] = listed.removesuffix("; or pass a path")
    every, policies = lines[True], lines[False]
    released = "released/diplomacy_ppo"
    assert every == f"dark-ghost-quickstart, gray-wolf, pale-horse, red-fox-diplomacy, tiny, smollm2, {released}"
    assert policies == f"dark-ghost-quickstart, red-fox-diplomacy, {released}"


def test_bots_belong_to_their_game(root):
    for text, line in (("dumbbot", "write bot:dumbbot for the bot"), ("ace", "choose from final.pt, .*or pass a path")):
        with pytest.raises(UnknownNameError, match=f"no checkpoint '{text}': {line}"):
            find_checkpoint(text, DIPLOMACY_GAME)
    with pytest.raises(UnknownNameError, match=r"opponent 'ace': no bot of that name \(random, chaos,.* and no checkp"):
        find_opponent("ace", DIPLOMACY_GAME)


def test_without_policies_game_suggests_its_own_run(empty):
    for game, run in ((DOGFIGHT_GAME, "quickstart"), (DIPLOMACY_GAME, "diplomacy_ppo")):
        with pytest.raises(
            UnknownNameError,
            match=rf"train one first \(python train\.py \+run={run}\)( or choose from tiny, smollm2)?$",
        ):
            find_checkpoint("final.pt", game)
        assert (ROOT / "configs" / "run" / f"{run}.yaml").is_file()


@pytest.mark.parametrize("text", ["x" * 300, "a\0b"])
def test_impossible_file_name_is_handled_like_unknown_name(empty, text):
    for look in (find_player, find_opponent, find_checkpoint, find_run):
        with pytest.raises(UnknownNameError, match="no checkpoint"):
            look(text)


def test_final_pt_before_first_save_is_explained(empty):
    saved(empty / "released" / "good.pt")
    with pytest.raises(UnknownNameError) as caught:
        find_checkpoint("final.pt", DOGFIGHT_GAME)
    assert "no checkpoint 'final.pt': no run in " in str(caught.value)
    assert str(caught.value).endswith("(python train.py +run=quickstart) or choose from released/good")


@pytest.mark.parametrize("text", ["dark-ghost", "dark-ghost/final.pt", "dark-ghost/step_8192"])
def test_run_without_file_lists_existing_files(empty, text):
    for name in ("best", "pre_brawler", "step_4096"):
        saved(empty / "dark-ghost" / f"{name}.pt")
    (empty / "dark-ghost" / "config.yaml").touch()
    with pytest.raises(UnknownNameError) as caught:
        find_checkpoint(text)
    choices = "dark-ghost/best, dark-ghost/pre_brawler, dark-ghost/step_4096"
    assert str(caught.value).startswith(f"no checkpoint '{text}': choose from {choices}; did you mean 'dark-ghost/")


def test_bots_are_players_by_prefix_and_opponents_by_name(root):
    assert find_player("bot:ace") == find_opponent("bot:ace") == find_opponent("ace") == "ace"
    with pytest.raises(UnknownNameError, match="no checkpoint 'ace': write bot:ace for the bot"):
        find_player("ace")
    with pytest.raises(UnknownNameError, match=r"opponent 'brawlr': .*did you mean 'brawler'.* and no checkpoint"):
        find_opponent("brawlr")


def test_run_is_its_folder_or_folder_of_its_checkpoint(root):
    for text in ("dark-ghost-quickstart", str(root / "dark-ghost-quickstart"), "dark-ghost-quickstart/final.pt"):
        assert find_run(text) == root / "dark-ghost-quickstart"
    assert find_run("final.pt").name == "calm-raven-quickstart"
    (root / "empty").mkdir()
    with pytest.raises(UnknownNameError, match="empty: contains no checkpoint; name a run that has saved one"):
        find_run("empty")


def test_policy_has_short_name_in_tables(root, tmp_path):
    names = {"final.pt": "calm", "step_5.pt": "calm/step_5", "pool/snapshot_000003.pt": "calm/pool/snapshot_000003"}
    assert {file: display_name(root / "calm" / file) for file in names} == names
    assert display_name("ace") == "ace"
    for path in (
        tmp_path / "x.pt",
        root / "ace" / "final.pt",
        root / "dumbbot" / "final.pt",
    ):  # a run called like a bot is not taken for it
        assert display_name(path) == str(path)


def test_unknown_name_is_reported_before_importing_torch():
    code = "import sys\n"
    for command, arguments in COMMANDS.items():
        code += f"from sparring.eval.{command} import main\nprint(main({arguments}))\n"
    code += "from sparring.eval.run import main\n"
    code += "print(main(['--ckpt', 'bot:ace', '--opponents', 'brawlr']), {'torch', 'warp', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "2\n" * len(COMMANDS) + "2 set()\n"
    *lines, opponent = done.stderr.splitlines()
    for command, line in zip(COMMANDS, lines, strict=True):
        assert line.startswith(f"eval/{command}.py: no")
        assert "no-name" in line
    assert "did you mean 'brawler'" in opponent


def test_released_policy_keeps_name_in_installed_package(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "SHIPPED", tmp_path / "package" / "checkpoints")
    saved(tmp_path / "package" / "checkpoints" / "released" / "dogfight_strong.pt")
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path / "home" / "checkpoints")
    assert display_name(find_opponent("released/dogfight_strong")) == "released/dogfight_strong"


@pytest.mark.parametrize("game", games(), ids=lambda game: game.name)
def test_every_game_opens_players_in_one_place(game):
    assert load(game.open_player)(f"bot:{game.bots[0]}")
