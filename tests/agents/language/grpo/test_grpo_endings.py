"""GRPO runs that cannot continue end with a one-line reason and lose nothing learned."""

import json

import pytest
import torch

from sparring import train
from sparring.agents.language.grpo import learner
from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.agents.trainers import train as train_grpo
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER
from tests.agents.language.grpo.rollouts.small_games import SMALL, small_config
from tests.agents.language.grpo.small_runs import events, rows, run, weights
from tests.agents.language.toys import llama, word_tokenizer


def test_sampler_disagreement_ends_run_and_resumes_later(toy, tmp_path, monkeypatch):
    """The sampler is off by a nat in the second step; once fixed, the run ends like an unharmed one."""
    options = ("grpo.steps=2", "grpo.learning_rate=1e-2", "checkpoint_every=100")
    whole = run(toy, tmp_path, "whole", *options)
    check, calls = learner.check_agreement, []

    def off(trainer, sampler, *, at_most):
        calls.append(len(trainer.values))
        hurt = sampler.map(lambda values: values - 1.0) if hurts() else sampler
        check(trainer, hurt, at_most=at_most)

    def hurts():
        return len(rows(tmp_path / "hurt" / "final.pt")) == 1

    monkeypatch.setattr(learner, "check_agreement", off)
    with pytest.raises(SystemExit) as ended:
        run(toy, tmp_path, "hurt", *options)
    assert ended.value.code == 1
    assert any(calls)
    hurt = tmp_path / "hurt" / "final.pt"
    reason = json.loads((tmp_path / "hurt" / "guard_report.json").read_text())["reason"]
    assert "in the trainer and" in reason
    assert "use grpo.use_importance_correction=true" in reason
    assert f"the run ends after step 1: {reason}" in events(hurt)
    monkeypatch.setattr(learner, "check_agreement", check)
    run(toy, tmp_path, "hurt", *options)
    assert "resumed after update 1" in events(hurt)
    assert rows(hurt) == rows(whole)
    assert all(torch.equal(value, weights(hurt)[name]) for name, value in weights(whole).items())


def test_full_disk_when_learner_joins_league_is_alert(toy, tmp_path, monkeypatch):
    """The league on disk is that of the newest state, here the first one until the run ends."""
    save, games = GRPOTrainer.save_policy, []

    def full(trainer, path, **options):
        if path.name.startswith("step_"):
            games.append(LeagueFile(path.parent).read()[CHALLENGER].games)
            raise OSError(28, "No space left on device")
        save(trainer, path, **options)

    monkeypatch.setattr(GRPOTrainer, "save_policy", full)
    final = run(toy, tmp_path, "full", "grpo.steps=2", "league.checkpoint_every=1", "checkpoint_every=100")
    assert len(rows(final)) == 2
    assert "step_000002.pt was not saved (No space left on device); training continues" in events(final)
    league = LeagueFile(final.parent).read()
    assert "checkpoint_000002" not in league.agents
    assert games == [0, 0]
    assert league[CHALLENGER].games > 0
    assert (final.parent / "state" / "update_000002").is_dir()


def test_non_finite_base_model_is_rejected_before_run_starts(tmp_path, capsys, error_line):
    model = llama(word_tokenizer())
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("inf"))
    model.save_pretrained(tmp_path / "broken")
    word_tokenizer().save_pretrained(tmp_path / "broken")
    capsys.readouterr()
    places = [f"model.name={tmp_path / 'broken'}", f"checkpoint_dir={tmp_path}", "name=run"]
    assert "its weights are not finite, such as model.embed_tokens.weight" in error_line(train.main, [*SMALL, *places])
    assert not (tmp_path / "run").exists()


def test_deterministic_true_uses_fixed_summation_order(toy, tmp_path):
    places = [f"model.name={toy}", f"checkpoint_dir={tmp_path}", "name=fixed"]
    assert not torch.are_deterministic_algorithms_enabled()
    try:
        train_grpo(small_config(*places, "deterministic=true", "grpo.steps=1"))
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
