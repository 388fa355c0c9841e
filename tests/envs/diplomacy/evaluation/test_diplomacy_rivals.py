"""Several adapters of one base model in one evaluation: each plays as itself; incompatible ones are rejected."""

import json
import shutil
from functools import partial

import pytest

from sparring.agents.opponents import players
from sparring.envs.diplomacy.training.opponents import POLICY, LanguageOptions, open_player
from sparring.envs.text import Prompt
from sparring.eval.run import main as run_main
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.language.toys import llama, random_choices, word_tokenizer
from tests.envs.diplomacy.evaluation.language_players import make_run
from tests.envs.diplomacy.evaluation.test_diplomacy import untrained

main = partial(run_main, env="diplomacy")

QUICK = ["--games", "7", "--last-year", "1901", "--threads", "1", "--device", "cpu", "--quiet"]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Return runs `learner` and `other` on one model, with names unlike adapters."""
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    for name, seed in (("learner", 1), ("other", 2)):
        make_run(tmp_path, seed=seed)
        (tmp_path / "run").rename(tmp_path / name)
    return tmp_path


@pytest.fixture
def refused(error_line):
    return lambda *arguments: error_line(main, [*arguments, *QUICK])


def answers(player, name):
    asked = [(text, choices) for text, choices in random_choices() if choices.lines][:20]
    requests = [Prompt(text, choices, number) for number, (text, choices) in enumerate(asked)]
    return [decision.text for decision in player.models[name].decide(requests)]


def test_two_adapters_meet_in_one_evaluation(runs, capsys):
    assert main(["--ckpt", "other", "--opponents", "learner,random", *QUICK]) == 0
    content = json.loads((runs / "other" / "eval.json").read_text())
    pairs = [(record["one"], record["six"]) for record in content["records"]]
    assert pairs == [("other", "learner"), ("learner", "other"), ("other", "random"), ("random", "other")]
    assert content["language_model"]["opponents"]["learner"]["step"] == 3
    # The roles exchanged are the same games.
    assert main(["--ckpt", "learner", "--opponents", "other", "--protocol", "six", *QUICK]) == 0
    (exchanged,) = json.loads((runs / "learner" / "eval.json").read_text())["records"]
    assert exchanged == content["records"][0]


def test_each_adapter_answers_as_alone(runs):
    files = {name: runs / name / "final.pt" for name in ("learner", "other")}
    alone = {name: answers(open_player(path, language=LanguageOptions()), POLICY) for name, path in files.items()}
    assert alone["learner"] != alone["other"]
    both = open_player(files["other"], language=LanguageOptions(rivals={"learner": files["learner"]}))
    for _ in range(2):  # each after the other has played
        assert answers(both, "learner") == alone["learner"]
        assert answers(both, POLICY) == alone["other"]


def test_incompatible_players_are_rejected_with_reason(runs, refused):
    untrained(runs / "policy.pt")
    assert "is --ckpt itself" in refused("--ckpt", "other", "--opponents", "other")
    assert "is a model, and one evaluation" in refused("--ckpt", "other", "--opponents", "tiny")
    assert "policy.pt is not an adapter of a run" in refused("--ckpt", "other", "--opponents", "policy.pt")
    assert "model is not an adapter" in refused("--ckpt", str(runs / "model"), "--opponents", "other")
    assert "policy.pt is a policy, not an adapter" in refused("--ckpt", "policy.pt", "--opponents", "other")
    assert "did you mean 'other'?" in refused("--ckpt", "learner", "--opponents", "othr")
    line = refused("--bot", "dumbbot", "--opponents", "other")
    assert "other: is a language model; the others are bots or searches, not an adapter" in line
    assert "did you mean 'other'?" in refused("--bot", "dumbbot", "--opponents", "othr")


def test_other_prompts_and_models_are_rejected(runs, refused):
    shutil.copytree(runs / "other", runs / "wordy")
    config = runs / "wordy" / "config.yaml"
    config.write_text(config.read_text().replace("show_map_windows: false", "show_map_windows: true"))
    line = refused("--ckpt", "learner", "--opponents", "wordy")
    assert "--opponents wordy: was trained with other prompts than --ckpt (model.show_map_windows)" in line
    shutil.rmtree(runs / "model")
    toy_folder(runs / "model")
    llama(word_tokenizer(), seed=5).save_pretrained(runs / "model")
    make_run(runs, seed=3)
    line = refused("--ckpt", "run", "--opponents", "other")
    assert "--opponents other: was trained on another base model than --ckpt; play each against the same bots" in line
