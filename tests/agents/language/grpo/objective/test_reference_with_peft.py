"""Traps 1 and 11 with real PEFT LoRA adapters on a small Llama, for both kinds of reference."""

import pytest
import torch

from sparring.agents.language.grpo.objective.kl import Reference, exact_kl
from sparring.configs.language import GRPOConfig

IDS = torch.tensor([[1, 5, 9, 2, 7, 3]])
ROW = torch.repeat_interleave(torch.arange(6), 20)


@pytest.fixture
def model():
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = transformers.LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    lora = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.3, target_modules=["q_proj", "v_proj", "o_proj"])
    return peft.get_peft_model(transformers.LlamaForCausalLM(shape), lora).eval()


def scorer(model):
    return lambda: model(input_ids=IDS).logits[0].float().log_softmax(1).flatten()


def reference_of(model, **options):
    adapters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert len(adapters) == 6
    return Reference(adapters, GRPOConfig(**options), base="small", without_adapters=model.disable_adapter)


@torch.no_grad()
def learn(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and "lora_B" in name:
            parameter.add_(torch.randn(parameter.shape, generator=generator))


def kl_of(model, reference):
    with torch.no_grad():
        return exact_kl(scorer(model)(), reference.score(scorer(model)).values, ROW, 6).max().item()


def test_trap_1_reference_equals_policy_before_updates(model):
    for ema in (False, True):
        assert abs(kl_of(model, reference_of(model, use_ema_reference=ema))) <= 1e-6


def test_trap_11_base_model_is_fixed_and_ema_follows(model):
    base = reference_of(model)
    mean = reference_of(model, use_ema_reference=True, ema_tau=0.5)
    before = base.score(scorer(model)).values
    learn(model, 1)
    far = kl_of(model, mean)
    mean.update()
    near = kl_of(model, mean)
    assert 1e-4 < near < far
    assert far == pytest.approx(kl_of(model, base), rel=1e-4)  # the mean had not moved yet
    assert torch.equal(base.score(scorer(model)).values, before)


def test_trap_11_tau_at_limits(model):
    first, last = (reference_of(model, use_ema_reference=True, ema_tau=tau) for tau in (1.0, 0.0))
    start = scorer(model)().detach()
    learn(model, 1)
    first.update()
    last.update()
    assert torch.equal(first.score(scorer(model)).values, start)
    assert kl_of(model, last) == 0.0


@pytest.mark.parametrize("ema", [False, True])
def test_trap_11_adapters_are_restored_bit_for_bit(model, ema):
    reference = reference_of(model, use_ema_reference=ema)
    learn(model, 1)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    output = scorer(model)().detach()
    reference.score(scorer(model))
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == trained
    assert torch.equal(scorer(model)(), output)
