"""Exactness of a resumed run: reported differences, the fixed minibatch, other processors."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.start import actor_critic_sha256
from sparring.agents.run import fidelity
from sparring.agents.run.fidelity import fingerprint, inexact, machine
from sparring.agents.trainers import train
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from tests.agents.ppo.small_run import config

CPU = torch.device("cpu")
HERE = {"device": "cpu", "torch_threads": 1, "torch": "2.13", "minibatch": "a"}
HERE |= {"fingerprint": {"cpu": "X", "instruction_sets": "avx2 avx512f fma", "blas": "mkl 1", "settings": ""}}


def other(**changes):
    return HERE | {"fingerprint": HERE["fingerprint"] | changes}


def test_equal_machine_summaries_have_no_difference():
    made = [machine(CPU, deterministic=False, minibatch=lambda: "a") for _ in range(2)]
    assert inexact(*made, deterministic=False) == []


BEFORE = {key: value for key, value in HERE.items() if key not in ("fingerprint", "minibatch")}


@pytest.mark.parametrize(
    ("before", "now", "reasons"),
    [
        (HERE, dict(HERE), []),
        (
            HERE,
            other(cpu="Y", instruction_sets="avx2 fma") | {"minibatch": "b"},
            ["cpu was X and is Y", "the processor lacks avx512f", "a replayed minibatch differs bitwise"],
        ),
        (
            HERE,
            other(blas="mkl 2", settings="MKL_CBWR=AVX"),
            ["blas was mkl 1 and is mkl 2", "settings was not set and is MKL_CBWR=AVX",
             "a replayed minibatch is still bitwise equal"],
        ),
        (HERE, HERE | {"minibatch": "b"}, ["a replayed minibatch differs bitwise"]),
        (BEFORE, HERE, ["processor and libraries were not noted"]),
    ],
)  # fmt: skip
def test_every_machine_difference_is_reported(before, now, reasons):
    assert inexact(before, now, deterministic=False) == reasons


def test_accelerator_without_fixed_order_replays_no_minibatch():
    made = machine(torch.device("meta"), deterministic=False, minibatch=lambda: 1 / 0)
    assert "minibatch" not in made


def test_fingerprint_names_what_determines_bits(monkeypatch):
    settings = {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    found = fingerprint(CPU)
    assert {f"{name}={value}" for name, value in settings.items()} <= {*found["settings"].split()}
    assert found["torch_instruction_set"] == torch.backends.cpu.get_cpu_capability()
    assert found["cpu"]
    assert all(isinstance(value, str) for value in found.values())


SMALL = NetworkConfig(hidden=8, blocks=1)
NETWORKS = {
    "continuous and binary": lambda seed: ActorCritic(5, 2, 1, SMALL, seed=seed),
    "a choice": lambda seed: ActorCritic(5, 0, 0, SMALL, categorical=4, seed=seed),
    "orders": lambda seed: OrderNetwork(SMALL, seed=seed),
}


def actor_critic(network):
    return actor_critic_sha256(network, nullcontext())


@pytest.mark.parametrize("kind", NETWORKS)
def test_fingerprint_repeats_and_detects_last_bit_of_weight(kind):
    network = NETWORKS[kind](0)
    before = actor_critic(network)
    assert actor_critic(network) == before == actor_critic(NETWORKS[kind](0))
    with torch.no_grad():
        head = network.critic.head if kind == "orders" else network.critic[-1]
        head.weight.copy_(torch.nextafter(head.weight, torch.ones_like(head.weight)))
    assert actor_critic(network) != before


@pytest.mark.parametrize("kind", NETWORKS)
def test_fingerprint_keeps_gradients_and_generators(kind):
    network = NETWORKS[kind](0)
    for number, parameter in enumerate(network.parameters()):
        parameter.grad = torch.full_like(parameter, number)
    state = torch.get_rng_state()
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    actor_critic(network)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert all(bool((parameter.grad == number).all()) for number, parameter in enumerate(network.parameters()))


def test_language_model_fingerprint_disables_dropout_temporarily():
    pytest.importorskip("transformers")
    from sparring.agents.language.models.adapters import Adapters, LoraShape, language_model_sha256
    from tests.agents.language.toys import llama, word_tokenizer

    model = llama(word_tokenizer())
    model.config.attention_dropout = 0.5
    model.train()
    state = torch.get_rng_state()
    before = language_model_sha256(model, model.parameters())
    assert language_model_sha256(model, model.parameters()) == before
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())
    adapters = Adapters(llama(word_tokenizer()), LoraShape(2, 4.0))
    found = [language_model_sha256(adapters.model, adapters.parameters().values()) for _ in range(2)]
    assert found[0] == found[1] != before


ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Return a run with one update done on the current processor."""
    root = tmp_path_factory.mktemp("started")
    train(config(root, max_updates=1))
    return root


def test_same_processor_reports_nothing(started, tmp_path, capsys):
    shutil.copytree(started / "small", tmp_path / "small")
    train(config(tmp_path, max_updates=2))
    for text in (capsys.readouterr().out, (tmp_path / "small" / "events.jsonl").read_text()):
        assert "resumed after update 1" in text
        assert "inexact" not in text


ELSEWHERE = """
import json, torch
from contextlib import nullcontext
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.start import actor_critic_sha256
from sparring.agents.run.fidelity import fingerprint
from sparring.configs.schema import NetworkConfig
torch.set_num_threads(1)
network = ActorCritic(5, 2, 1, NetworkConfig(hidden=8, blocks=1), seed=0)
print(json.dumps([fingerprint(torch.device("cpu")), actor_critic_sha256(network, nullcontext())]))
"""


def test_other_instruction_set_is_named(started, tmp_path, monkeypatch, capsys):
    """A process with these variables reports its instruction set, which this process compares on resume."""
    settings = os.environ | {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
    command = [sys.executable, "-c", ELSEWHERE]
    ended = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True)
    fingerprint_there, minibatch_there = json.loads(ended.stdout)
    assert minibatch_there != actor_critic(NETWORKS["continuous and binary"](0))
    monkeypatch.setattr(fidelity, "fingerprint", lambda device: fingerprint_there)
    shutil.copytree(started / "small", tmp_path / "small")
    train(config(tmp_path, max_updates=2))
    for text in (capsys.readouterr().out, (tmp_path / "small" / "events.jsonl").read_text()):
        (line,) = (line for line in text.splitlines() if "inexact resume: " in line)
        assert "torch_instruction_set was " in line
        assert " and is DEFAULT" in line
        assert "ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE" in line
        assert "a replayed minibatch is still bitwise equal" in line
