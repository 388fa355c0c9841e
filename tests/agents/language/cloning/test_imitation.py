"""Imitation learning: learning-rate schedule, loss by hand, skipped steps."""

from copy import deepcopy

import pytest
import torch

pytest.importorskip("transformers")

from sparring.agents.language.cloning.dataset import Example, pack
from sparring.agents.language.cloning.imitation import Imitator, answer_loss, learning_rate
from sparring.agents.language.models.tiny import build_tiny, game_tokenizer
from sparring.configs.core.typed import ContentError

GROUPS = [[Example([7, 8, 9], [11, 2]), Example([7, 8, 6], [12, 13, 2])], [Example([9, 5], [2])]]


@pytest.fixture
def model():
    return build_tiny(game_tokenizer("diplomacy"), hidden=32, layers=1, heads=2, seed=0)


@pytest.mark.parametrize(
    ("done", "rate"), [(0.0, 0.0), (0.015, 0.05), (0.03, 0.1), (0.515, 0.05), (1.0, 0.0), (0.03 + 0.97 / 3, 0.075)]
)
def test_learning_rate_warms_up_and_decays_to_zero(done, rate):
    """Half way between warmup and end the cosine is 0; after a third it is 1/2, so 3/4 of the peak remains."""
    assert learning_rate(0.1, done) == pytest.approx(rate, abs=1e-12)


def test_loss_is_mean_over_answer_tokens_of_each_example(model):
    nats = []
    with torch.no_grad():
        for one in (one for group in GROUPS for one in group):
            logs = model(torch.tensor([one.prompt + one.answer])).logits[0].log_softmax(-1)
            places = range(len(one.prompt) - 1, len(one.prompt) + len(one.answer) - 1)
            nats += [-float(logs[place, token]) for place, token in zip(places, one.answer, strict=True)]
        loss = float(answer_loss(model, pack(GROUPS, pad_id=0)))
    assert len(nats) == 6
    assert loss == pytest.approx(sum(nats), abs=1e-5)
    assert Imitator(model).learn([pack(GROUPS, pad_id=0)], 0.0)[0] == pytest.approx(sum(nats) / 6, abs=1e-5)


def gradient(model, parts, *, halves):
    imitator = Imitator(model, halves=halves)
    loss, norm = imitator.learn([pack(part, pad_id=0) for part in parts], 0.0)
    imitator.close()
    return [loss, norm, *(weight.grad.clone() for weight in model.parameters())]


def test_two_halves_equal_one_step(model):
    """The gradient is of the mean over all tokens, not the mean of two means over five tokens and one."""
    whole = gradient(model, [GROUPS], halves=False)
    parts = [[group] for group in GROUPS]
    side_by_side, in_turn = gradient(model, parts, halves=True), gradient(model, parts, halves=False)
    for one, other, again in zip(whole, side_by_side, in_turn, strict=True):
        assert torch.allclose(torch.as_tensor(one), torch.as_tensor(other), atol=1e-6)
        assert torch.equal(torch.as_tensor(other), torch.as_tensor(again))


def test_non_finite_gradient_changes_nothing(model):
    imitator, batch = Imitator(model), [pack(GROUPS, pad_id=0)]
    imitator.learn(batch, 1e-3)
    with torch.no_grad():
        model.model.norm.weight[0] = float("nan")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    loss, norm = imitator.learn(batch, 1e-3)
    assert not (torch.isfinite(torch.tensor([loss, norm])).all())
    assert all(torch.equal(before[name].nan_to_num(), w.nan_to_num()) for name, w in model.state_dict().items())


def test_muon_step_moves_all_singular_vectors_equally():
    """The size is 0.2 sqrt(24) x rate for the largest, like Adam's step; the raw gradient is more uneven."""
    model = build_tiny(game_tokenizer("diplomacy"), hidden=8, layers=1, heads=2, seed=0)
    matrix = model.model.layers[0].mlp.up_proj.weight
    with torch.no_grad():
        matrix.mul_(1e-9)  # leaves nothing to decay
    before = matrix.detach().clone()
    Imitator(model, optimizer="muon").learn([pack(GROUPS, pad_id=0)], 0.1)
    assert matrix.shape == (24, 8)
    moved, gradient = (torch.linalg.svdvals(one.double()) for one in (matrix.detach() - before, matrix.grad))
    assert float(moved[0]) == pytest.approx(0.1 * 0.2 * 24**0.5, rel=0.25)
    assert moved[5] / moved[0] > 2 * gradient[5] / gradient[0]


def test_embeddings_and_norms_use_adam(model):
    imitator = Imitator(model, optimizer="muon")
    imitator.learn([pack(GROUPS, pad_id=0)], 1e-3)
    state = imitator.state_dict()
    assert (len(state["muon"]["state"]), len(state["optimizer"]["state"])) == (7, 4)  # 7 matrices; embedding, 3 norms


def test_muon_state_resumes_and_other_shape_is_rejected(model):
    batch = [pack(GROUPS, pad_id=0)]
    first = Imitator(model, optimizer="muon")
    first.learn(batch, 1e-3)
    state = deepcopy(first.state_dict())
    first.learn(batch, 1e-3)
    after = {name: weight.clone() for name, weight in model.state_dict().items()}
    second = Imitator(model, optimizer="muon")
    second.load_state_dict(state)
    second.learn(batch, 1e-3)
    assert all(torch.equal(after[name], weight) for name, weight in model.state_dict().items())
    state["muon"]["state"][0]["momentum_buffer"] = torch.zeros(1)
    with pytest.raises(ContentError, match=r"muon\.state\.0\.momentum_buffer: has shape \(1,\)"):
        second.load_state_dict(state)
