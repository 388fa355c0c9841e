"""Resuming a GRPO run: its base must exist, and differences are reported."""

import shutil
from dataclasses import replace

import pytest

from sparring import train
from sparring.agents.language.models.adapters import base_identity, first_identity
from sparring.agents.run.states import StateFolder
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import BASE_MODEL
from tests.agents.language.grpo.small_runs import events, rows, run
from tests.agents.language.toys import llama, word_tokenizer


@pytest.fixture(scope="module")
def started(toy, tmp_path_factory):
    """Return the folder of a run after one of two steps."""
    return run(toy, tmp_path_factory.mktemp("started"), "small", "grpo.steps=2", "max_updates=1").parent


@pytest.fixture
def half(started, tmp_path):
    """Return a copy of it, as a user would find it under checkpoints/."""
    shutil.copytree(started, tmp_path / "small")
    return tmp_path / "small"


def resume(folder, *options):
    places = [f"checkpoint_dir={folder.parent}", "threads=1", "logger.progress=false", "max_updates=2"]
    return train.main(["resume=small", *places, *options])


def rewrite(folder, change):
    """Publish the newest state again with content and summary modified by `change`."""
    states = StateFolder(folder / "state", 3, alert=pytest.fail)
    found = states.latest()
    change(found.content, found.summary)
    states.publish(found.summary["update"], found.content, found.summary)


def test_replaced_base_model_is_rejected(toy, half, capsys):
    before = (half / "final.pt").read_bytes()
    other = llama(word_tokenizer(), seed=1, layers=1)
    own = (toy / "model.safetensors").read_bytes()
    try:
        other.save_pretrained(toy)
        capsys.readouterr()
        assert resume(half) == 2
    finally:
        (toy / "model.safetensors").write_bytes(own)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    then, now = base_identity(llama(word_tokenizer(), layers=1)), base_identity(other)
    assert f"update_000001: was trained on the base model {then}, but model.name={toy} is now {now}" in line
    assert "restore that model, or start a new run with another name=" in line
    assert (half / "final.pt").read_bytes() == before
    assert len(rows(half / "final.pt")) == 1
    assert resume(half) == 0
    assert "inexact" not in events(half / "final.pt")


def test_old_state_of_other_torch_resumes_as_inexact(half):
    def change(content, summary):
        del content["base"], summary["torch_threads"]
        summary |= {"torch": "1.0", "minibatch": "0" * 64}

    rewrite(half, change)
    assert resume(half) == 0
    assert len(rows(half / "final.pt")) == 2
    (line,) = (line for line in events(half / "final.pt").splitlines() if "inexact resume: " in line)
    assert "inexact resume: torch_threads was not noted and is 1; torch was 1.0 and is " in line
    assert "a replayed minibatch differs bitwise" in line


def test_inheriting_run_resumes_without_source_or_league(toy, started, tmp_path):
    """The training state contains the league; a damaged file is kept, and the run ends as usual."""
    shutil.copytree(started, tmp_path / "source")
    options = ("grpo.steps=2", "league.inherit=source", "league.checkpoint_every=1")
    run(toy, tmp_path, "heir", *options, "max_updates=1")
    shutil.copytree(tmp_path / "heir", tmp_path / "whole")
    whole = run(toy, tmp_path, "whole", *options)
    shutil.rmtree(tmp_path / "source")
    own = tmp_path / "heir" / "league.json"
    damaged = own.read_bytes()[:-30]
    own.write_bytes(damaged)
    heir = run(toy, tmp_path, "heir", *options)
    assert rows(heir) == rows(whole)
    assert LeagueFile(heir.parent).read() == LeagueFile(whole.parent).read()
    assert (tmp_path / "heir" / "league.json.damaged").read_bytes() == damaged
    assert "it is kept as league.json.damaged, and the league of update_000001 is used" in events(heir)


def test_finished_run_names_extension_option_and_extends(half, capsys):
    assert resume(half) == 0
    before = (half / "final.pt").read_bytes()
    (half / "final.pt").unlink()  # which the training state brings back
    assert resume(half, "max_updates=9") == 0
    assert "nothing left to do: 2 steps done, 2 asked for by grpo.steps" in capsys.readouterr().out
    assert (half / "final.pt").read_bytes() == before
    assert resume(half, "max_updates=0", "grpo.steps=3") == 0
    assert "option changed: grpo.steps was 2 and is 3" in events(half / "final.pt")
    assert len(rows(half / "final.pt")) == 3
    assert resume(half) == 0
    assert "3 steps done, 2 asked for" in events(half / "final.pt")


def test_run_with_partially_hashed_base_resumes_and_is_inherited(toy, half):
    old = first_identity(llama(word_tokenizer(), layers=1))
    rewrite(half, lambda content, summary: content.update(base=old))
    league = LeagueFile(half).read()
    league.agents[BASE_MODEL] = replace(league[BASE_MODEL], path=old)
    LeagueFile(half).restore(league)
    heir = run(toy, half.parent, "heir", "grpo.steps=1", "league.inherit=small")
    assert len(rows(heir)) == 1
    assert resume(half) == 0
    assert StateFolder(half / "state", 3, alert=pytest.fail).latest().content["base"].startswith("all:")
