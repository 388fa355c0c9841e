"""Held-out accuracy of a clone: untrained models and a model that knows the answers."""

import math

import pytest
import torch

pytest.importorskip("transformers")

from sparring.agents.language.cloning import held_out
from sparring.agents.language.cloning.dataset import CloneDataset
from sparring.agents.language.cloning.held_out import HeldOut
from sparring.agents.language.decoding.scoring import Scores
from sparring.agents.language.models.tiny import build_tiny, game_tokenizer
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.demonstrations import BotGames


@pytest.fixture(scope="module")
def questions():
    games = BotGames(3, bot="dumbbot", last_year=1904, seed=6)
    tokenizer = game_tokenizer("diplomacy")
    yield HeldOut(CloneDataset(games, tokenizer), tokenizer, DIPLOMACY_TEXT)
    games.close()


@pytest.fixture(scope="module")
def model():
    return build_tiny(game_tokenizer("diplomacy"), hidden=32, layers=1, heads=2, seed=0).eval()


def scored(batch, favour):
    """Return scores with weight `favour` for the written token and 1 for each other allowed one."""
    weight = torch.ones(len(batch.allowed))
    weight[batch.chosen] = favour
    total = torch.zeros(len(batch.chosen)).index_add(0, batch.row, weight)
    logps = (weight / total[batch.row]).log()
    return Scores(logps[batch.chosen], torch.zeros(len(batch.chosen)), logps, batch.row, batch.sample)


def test_oracle_model_is_always_right(questions, model, monkeypatch):
    monkeypatch.setattr(held_out, "score", lambda _, batch: scored(batch, 1e9))
    found = questions.check(model)
    assert found["eval/held_out/accuracy"] == 1.0
    assert found["eval/held_out/order_loss"] == pytest.approx(0.0, abs=1e-3)


def test_model_avoiding_labels_is_right_only_if_forced(questions, model, monkeypatch):
    monkeypatch.setattr(held_out, "score", lambda _, batch: scored(batch, 1e-9))
    assert questions.check(model)["eval/held_out/accuracy"] < 0.05


def test_one_wrong_token_makes_one_order_wrong(questions, model, monkeypatch):
    wrong = []

    def mostly_right(_, batch):
        scores = scored(batch, 1e9)
        if not wrong:
            wrong.append(int((scores.row == 0).nonzero()[-1]))
            scores.logp[0] -= 50.0
        return scores

    monkeypatch.setattr(held_out, "score", mostly_right)
    assert questions.check(model)["eval/held_out/accuracy"] == pytest.approx(1.0 - 1.0 / questions.orders)


def test_untrained_model_scores_near_random_order(questions, model):
    found = questions.check(model)
    assert found["eval/held_out/accuracy"] < 0.4
    assert 1.5 < found["eval/held_out/order_loss"] < math.log(100)
    assert questions.check(model) == found
