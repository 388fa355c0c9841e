"""LoRA adapters: bit-for-bit storage, playing without touching the learner, averages."""

import copy
import hashlib

import pytest
import torch

from sparring.agents.language.backend import ModelError
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.models.adapters import (
    BASE,
    LEARNER,
    AdapterError,
    Adapters,
    LoraShape,
    base_identity,
    load_adapter,
    save_adapter,
)
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.core.tensor_file import pack, unpack
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.toys import gpt2, llama, random_choices, word_tokenizer

SHAPE = LoraShape(4, 8.0)


def adapted(make=llama, shape=SHAPE, **options):
    return Adapters(make(word_tokenizer()), shape, **options)


def stir(adapters, seed=0):
    """Give the learner non-trivial weights."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapters.parameters().values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))


def logits(model):
    with torch.no_grad():
        return model.eval()(torch.arange(3, 20)[None]).logits


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("targets", ["attention", "all"])
def test_new_adapter_equals_base_and_only_lora_trains(make, targets):
    plain = logits(make(word_tokenizer()))
    adapters = adapted(make, LoraShape(4, 8.0, targets))
    assert torch.equal(logits(adapters.model), plain)
    trained = [name for name, parameter in adapters.model.named_parameters() if parameter.requires_grad]
    assert len(trained) == len(adapters.parameters()) > 0
    assert all("lora" in name for name in trained)


def test_targets_are_listed_layers():
    """Llama of two layers: 4 projections of attention, and 3 of the MLP, two matrices each."""
    layers = {name.split(".")[-3] for name in adapted(shape=LoraShape(4, 8.0, "all")).parameters()}
    assert layers == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert len(adapted(shape=LoraShape(4, 8.0, "attention")).parameters()) == 2 * 4 * 2
    assert len(adapted(gpt2, LoraShape(4, 8.0, "attention")).parameters()) == 2 * 2 * 2
    assert len(adapted(gpt2, LoraShape(4, 8.0, "all")).parameters()) == 2 * 4 * 2


def test_unsupported_model_architecture_is_rejected():
    with pytest.raises(ModelError, match="Sequential has no layers q_proj"):
        Adapters(torch.nn.Sequential(torch.nn.Linear(2, 2)), SHAPE)


def test_initial_weights_depend_on_seed_only():
    torch.manual_seed(5)
    one = adapted(seed=3).weights()
    torch.manual_seed(6)
    same, other = adapted(seed=3).weights(), adapted(seed=4).weights()
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_frozen_adapters_are_fixed_while_learner_trains():
    adapters, seen = adapted(), {}
    base = logits(adapters.model)
    for step in range(3):
        stir(adapters, step)
        adapters.add(f"step_{step}", adapters.weights())
        seen[f"step_{step}"] = logits(adapters.model)
    stir(adapters, 9)
    learner = logits(adapters.model)
    for name in ("step_2", "step_0", "step_1", "step_0"):
        with adapters.playing(name):
            assert torch.equal(logits(adapters.model), seen[name])
        assert torch.equal(logits(adapters.model), learner)
    with adapters.playing(BASE):
        assert torch.equal(logits(adapters.model), base)
    with adapters.playing(LEARNER):
        assert torch.equal(logits(adapters.model), learner)
    assert not torch.equal(learner, base)
    assert adapters.names == ["step_0", "step_1", "step_2"]


def test_learner_trains_after_others_played():
    adapters = adapted()
    stir(adapters)
    adapters.add("other", adapters.weights())
    for name in ("other", BASE, LEARNER):
        with adapters.playing(name):
            logits(adapters.model)
    adapters.model.train()(torch.arange(3, 20)[None]).logits.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in adapters.parameters().values())
    learners = {id(parameter) for parameter in adapters.parameters().values()}
    assert {id(p) for p in adapters.model.parameters() if p.requires_grad} == learners


def test_error_during_other_adapter_restores_learner():
    adapters = adapted()
    stir(adapters)
    adapters.add("other", adapters.weights())
    stir(adapters, 2)
    learner = logits(adapters.model)
    for name in ("other", BASE):
        with pytest.raises(KeyError), adapters.playing(name):
            raise KeyError
        assert torch.equal(logits(adapters.model), learner)


def test_adapters_of_other_shape_share_base():
    wide = adapted(shape=LoraShape(8, 4.0, "all"))
    stir(wide)
    expected = logits(wide.model)
    adapters = adapted()
    adapters.add("wide", wide.weights(), wide.shape)
    stir(adapters)
    learner = logits(adapters.model)
    with adapters.playing("wide"):
        assert torch.equal(logits(adapters.model), expected)
    assert torch.equal(logits(adapters.model), learner)


def test_mismatched_adapter_is_rejected_without_changes():
    adapters = adapted()
    before = adapters.weights()
    with pytest.raises(
        AdapterError, match=r"does not fit the model: .*; use the adapter.s model\.lora_rank and model\.lora_targets"
    ):
        adapters.restore(adapted(shape=LoraShape(8, 8.0)).weights())
    with pytest.raises(AdapterError, match="does not fit the model"):
        adapters.add("wide", adapted(shape=LoraShape(8, 8.0)).weights())
    with pytest.raises(AdapterError, match="reserved for the base itself"):
        adapters.add(BASE, before)
    with pytest.raises(UnknownNameError, match="unknown adapter 'stepp'"), adapters.playing("stepp"):
        pass
    assert adapters.names == []
    assert all(torch.equal(before[key], value) for key, value in adapters.weights().items())


def test_removed_adapter_frees_its_name():
    adapters = adapted()
    adapters.add("one", adapters.weights())
    adapters.remove("one")
    with pytest.raises(UnknownNameError), adapters.playing("one"):
        pass
    stir(adapters)
    adapters.add("one", adapters.weights())
    learner = logits(adapters.model)
    with adapters.playing("one"):
        assert torch.equal(logits(adapters.model), learner)


def test_saved_adapters_are_restored_bit_for_bit(tmp_path):
    adapters = adapted()
    stir(adapters)
    for name in ("a", "b"):
        save_adapter(tmp_path / name, adapters.model, SHAPE, adapters.weights(), training={"step": 3})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    other = adapted(seed=7)
    found = load_adapter(tmp_path / "a", other.model)
    assert (found.shape, found.training) == (SHAPE, {"step": 3})
    other.restore(found.weights)
    assert torch.equal(logits(other.model), logits(adapters.model))


def test_bad_adapter_files_are_named(tmp_path):
    adapters, path = adapted(), tmp_path / "adapter.pt"
    with pytest.raises(AdapterError, match=r"adapter\.pt: cannot be read"):
        load_adapter(path)
    save_adapter(path, adapters.model, SHAPE, adapters.weights(), training={})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(AdapterError, match=r"adapter\.pt: is"):
        load_adapter(path)
    save_adapter(path, llama(word_tokenizer(), seed=5), SHAPE, adapters.weights(), training={})
    load_adapter(path)
    with pytest.raises(AdapterError, match="another base model"):
        load_adapter(path, adapters.model)


def test_base_identity_is_independent_of_adapters():
    model = llama(word_tokenizer())
    before = base_identity(model)
    adapters = Adapters(model, SHAPE)
    stir(adapters)
    adapters.add("other", adapters.weights())
    assert base_identity(adapters.model) == before
    assert base_identity(llama(word_tokenizer(), seed=1)) != before


def test_base_identity_covers_every_value():
    """This includes the last value of each weight, also where the model was hashed before."""
    model = llama(word_tokenizer())
    before = base_identity(model)
    for parameter in model.parameters():
        with torch.no_grad():
            parameter.flatten()[-1] += 1.0
        after = base_identity(model)
        assert after != before
        assert after == base_identity(copy.deepcopy(model))
        before = after


def test_adapter_with_partially_hashed_base_is_read(tmp_path):
    """The old identity has no prefix and hashes 256 values of each weight, in name order."""
    adapters, path = adapted(), tmp_path / "adapter.pt"
    save_adapter(path, adapters.model, SHAPE, adapters.weights(), training={})
    content = unpack(path.read_bytes())
    digest = hashlib.sha256()
    for name, value in sorted(llama(word_tokenizer()).named_parameters()):
        digest.update(f"{name} {tuple(value.shape)}".encode() + value.detach().flatten()[:256].numpy().tobytes())
    (tmp_path / "manifest.json").unlink()
    path.write_bytes(pack(content | {"base": digest.hexdigest()[:16]}))
    load_adapter(path, adapters.model)
    path.write_bytes(pack(content | {"base": "0" * 16}))
    with pytest.raises(AdapterError, match="another base model"):
        load_adapter(path, adapters.model)


def test_backends_of_several_adapters_share_model():
    """The same requests are answered by the learner, an old adapter and the base, as if each were alone."""
    asked = [Prompt(*pair, seed) for seed, pair in enumerate(random_choices()[-40:])]
    constraint, adapters = Constraint(word_tokenizer(), DIPLOMACY_TEXT), adapted()
    stir(adapters, 1)
    adapters.add("old", adapters.weights())
    stir(adapters, 2)
    scores = {}
    for name in (LEARNER, "old", BASE):
        player = TransformersBackend(
            adapters.model,
            word_tokenizer(),
            constraint=constraint,
            playing=lambda name=name: adapters.playing(name),
            name=name,
        )
        batch = collate(player.decide(asked))
        with adapters.playing(name), torch.no_grad():
            mine = score(adapters.model, batch).logp
        assert torch.allclose(mine, batch.sampled_logp, atol=1e-4)
        scores[name] = mine
    assert len({value.sum().item() for value in scores.values()}) == 3


def test_gradients_reach_adapter_through_scores():
    adapters = adapted()
    asked = [Prompt(*pair, seed) for seed, pair in enumerate(random_choices()[:20])]
    decisions = TransformersBackend(
        adapters.model, word_tokenizer(), constraint=Constraint(word_tokenizer(), DIPLOMACY_TEXT)
    ).decide(asked)
    adapters.model.train()
    batch = collate(decisions)
    first, again = (score(adapters.model, batch).logp for _ in range(2))
    assert torch.equal(first, again)
    first.sum().backward()
    grads = {key: parameter.grad for key, parameter in adapters.parameters().items()}
    assert all(grad.any() for key, grad in grads.items() if "lora_B" in key)
    assert all(p.grad is None for p in adapters.model.parameters() if not p.requires_grad)
