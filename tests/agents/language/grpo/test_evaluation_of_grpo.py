"""Checks during GRPO training: measures by hand, reproducibility, and no effect on training."""

import json
from types import SimpleNamespace

import torch

from sparring.agents.language.grpo.step import ReferenceEvaluation
from sparring.agents.language.models.adapters import Adapters, LoraShape, load_adapter
from sparring.agents.language.models.load import load_model
from sparring.agents.trainers import train as train_run
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.rollouts.games import measured
from sparring.envs.text import Prompt, ReferenceTable
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.toys import random_choices

CHECKED = ("evaluation.every=2", "evaluation.games=7", "env.last_year=1901")


def train(toy, folder, name, *options):
    places = [f"model.name={toy}", f"checkpoint_dir={folder}", f"name={name}", "grpo.learning_rate=1e-2"]
    return train_run(small_config(*places, "grpo.steps=3", "env.last_year=1901", *options))


def rows(final, name="metrics.jsonl"):
    return [json.loads(line) for line in (final.parent / name).read_text().splitlines()]


def test_two_games_by_hand():
    """Austria has won alone with 18 centres; England, the second game's power, has none."""
    owner = torch.full((2, 34), -1)
    owner[0, :18], owner[1, :5] = 0, 0
    assert measured(owner) == {"win_rate": 0.5, "survival_rate": 0.5, "avg_centers": 9.0}


def test_check_repeats_and_separates_learner_from_base(toy):
    config = small_config(f"model.name={toy}", *CHECKED)
    model, tokenizer = load_model(config.model)
    adapters = Adapters(model, LoraShape.of(config.model))
    evaluation = ReferenceEvaluation(config, adapters, tokenizer, threads=1)
    before = evaluation.check()
    assert evaluation.check() == before
    assert [key.split("/")[1] for key in before.metrics][::3] == [f"vs_{name}" for name in ("dumbbot", "base_model")]
    torch.manual_seed(0)
    adapters.restore({key: torch.randn_like(value) for key, value in adapters.weights().items()})
    assert evaluation.check() != before
    assert before.table.splitlines()[2].startswith("| dumbbot | 7 | ")


def test_checks_are_run_when_due_and_do_not_change_training(toy, tmp_path):
    plain, checked = train(toy, tmp_path, "plain"), train(toy, tmp_path, "checked", *CHECKED)
    assert [any(key.startswith("eval/") for key in row) for row in rows(checked)] == [False, True, False]
    (table,) = [row for row in rows(checked, "events.jsonl") if row["kind"] == "eval/summary_table"]
    assert "| base_model | 7 | " in table["event"]
    assert table["env_steps"] == rows(checked)[1]["env_steps"] > rows(checked)[0]["env_steps"]
    weights = [load_adapter(path).weights for path in (plain, checked)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    longest = [row["rollout/max_total_s"] for row in rows(checked)]
    assert longest == sorted(longest)
    assert longest[-1] == max(row["benchmark/rollout_time_s"] for row in rows(checked))


def test_unplayable_check_is_alert_and_training_continues(toy, tmp_path, monkeypatch):
    def refuse(_):
        raise InputError("the prompt is too long")

    monkeypatch.setattr(ReferenceEvaluation, "check", refuse)
    final = train(toy, tmp_path, "alert", *CHECKED)
    assert len(rows(final)) == 3
    alerts = [row["event"] for row in rows(final, "events.jsonl") if row["kind"] == "alert"]
    assert alerts == ["no check after step 2: the prompt is too long"]


def test_evaluated_model_decodes_greedily_for_any_seed(toy):
    """This holds for learner and base model, although the run samples at temperature 5."""
    config = small_config(f"model.name={toy}", "model.temperature=5", *CHECKED)
    model, tokenizer = load_model(config.model)
    evaluation = ReferenceEvaluation(config, Adapters(model, LoraShape.of(config.model)), tokenizer, threads=1)
    given = {}

    def note_models(config, models, **_):
        given.update(models)
        return ReferenceTable({}, {}, 0, heading="", prefix="")

    evaluation._game = SimpleNamespace(references=note_models)
    evaluation.check()
    assert len(given) == 2
    text, menu = max(random_choices(), key=lambda choice: choice[1].lines)
    for player in given.values():
        answers = {one.text for one in player.decide([Prompt(text, menu, seed=seed) for seed in range(20)])}
        assert len(answers) == 1
