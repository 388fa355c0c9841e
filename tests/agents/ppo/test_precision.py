"""Choice of precision, its messages, and the state of the fp16 scaler."""

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo import learner
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.schema import NetworkConfig, PPOConfig


@pytest.fixture
def cpu(monkeypatch):
    """Return a machine whose CPU reports the given flags."""

    def report(*flags, vendor="AuthenticAMD"):
        first = {"processor": "0", "vendor_id": vendor, "flags": " ".join(("fpu", "avx2", *flags))}
        monkeypatch.setattr(learner, "first_cpu", lambda: first)

    return report


@pytest.mark.parametrize(
    ("flags", "vendor", "dtype"),
    [
        ((), "AuthenticAMD", None),
        (("avx512f",), "AuthenticAMD", None),
        (("avx512_bf16",), "AuthenticAMD", torch.bfloat16),
        (("avx512_bf16",), "GenuineIntel", None),
        (("avx512_bf16", "amx_bf16"), "GenuineIntel", torch.bfloat16),
    ],
)
def test_auto_selects_bf16_only_on_cpu_where_faster(cpu, flags, vendor, dtype):
    cpu(*flags, vendor=vendor)
    assert Autocast("auto", "cpu").dtype == dtype


def test_auto_is_fp32_on_unknown_processor(monkeypatch):
    monkeypatch.setattr(learner, "first_cpu", dict)
    assert Autocast("auto", "cpu").dtype is None


@pytest.mark.parametrize(("capability", "dtype"), [((7, 5), None), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)])
def test_auto_on_cuda_checks_capability(monkeypatch, capability, dtype):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert learner.resolve("auto", torch.device("cuda")) == dtype


@pytest.mark.parametrize(("flags", "dtype", "name"), [(["amx_bf16"], torch.bfloat16, "bf16"), ([], None, "fp32")])
def test_fp16_without_cuda_falls_back_to_auto_with_note(cpu, flags, dtype, name):
    cpu(*flags)
    autocast = Autocast("fp16", "cpu")
    assert autocast.dtype == dtype
    assert not autocast.scaler.is_enabled()
    assert autocast.note == (f"ppo.precision=fp16 requires CUDA; this device is cpu and trains in {name} instead")


@pytest.mark.parametrize("flags", [(), ("avx512_bf16",)])
def test_slow_bf16_is_accepted_with_note(cpu, flags):
    cpu(*flags, vendor="GenuineIntel")
    autocast = Autocast("bf16", "cpu")
    assert autocast.dtype == torch.bfloat16
    assert autocast.note == "ppo.precision=bf16 is slower than fp32 on this cpu; fp32 or auto is faster"


@pytest.mark.parametrize("wish", ["fp32", "auto", "bf16"])
def test_supported_precision_prints_no_note(cpu, wish):
    cpu("amx_bf16")
    autocast = Autocast(wish, "cpu")
    assert autocast.note == ""
    with autocast.context(1_000):
        assert torch.is_autocast_enabled("cpu") == (wish != "fp32")


def test_warmup_runs_in_full_precision(cpu):
    cpu("amx_bf16")
    autocast, x = Autocast("auto", "cpu", warmup_updates=3), torch.ones(2, 2)
    dtypes = []
    for update in range(5):
        with autocast.context(update):
            dtypes.append((x @ x).dtype)
    assert dtypes == [torch.float32] * 3 + [torch.bfloat16] * 2


def test_unknown_precision_is_named():
    with pytest.raises(UnknownNameError, match=r"unknown ppo\.precision 'fp61'.*did you mean 'fp16'"):
        Autocast("fp61", "cpu")


def learner_with(*, scaled):
    autocast = Autocast("fp32", "cpu")
    autocast.scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=512.0)
    return PPOLearner(ActorCritic(2, 1, 1, NetworkConfig(hidden=8)), PPOConfig(), autocast, seed=0)


def test_scaler_resumes_saved_scale():
    saved, other = learner_with(scaled=True), learner_with(scaled=True)
    saved.autocast.scaler.load_state_dict(saved.autocast.scaler.state_dict() | {"scale": 8.0})
    other.load_state_dict(saved.state_dict())
    assert other.autocast.scaler.get_scale() == 8.0


def test_state_without_scaler_starts_new_one():
    saved, other = learner_with(scaled=False), learner_with(scaled=True)
    other.load_state_dict(saved.state_dict())
    assert other.autocast.scaler.get_scale() == 512.0


def test_learner_without_scaler_ignores_saved_scaler():
    saved, other = learner_with(scaled=True), learner_with(scaled=False)
    other.load_state_dict(saved.state_dict())
    assert not other.autocast.scaler.is_enabled()
