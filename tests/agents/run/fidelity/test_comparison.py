"""What is said of a state and this machine: every difference by name, and nothing where there is none."""

import torch

from sparring.agents.run.fidelity import fingerprint, inexact, machine

CPU = torch.device("cpu")
HERE = {"device": "cpu", "torch_threads": 1, "torch": "2.13", "minibatch": "a"}
HERE |= {"fingerprint": {"cpu": "X", "instruction_sets": "avx2 avx512f fma", "blas": "mkl 1", "settings": ""}}


def other(**changes):
    return HERE | {"fingerprint": HERE["fingerprint"] | changes}


def test_the_same_machine_has_no_reason():
    assert inexact(HERE, dict(HERE), deterministic=False) == []


def test_two_summaries_of_this_machine_have_none_either():
    made = [machine(CPU, deterministic=False, minibatch=lambda: "a") for _ in range(2)]
    assert inexact(*made, deterministic=False) == []


def test_a_processor_without_avx512_is_named_with_what_it_lacks():
    reasons = inexact(HERE, other(cpu="Y", instruction_sets="avx2 fma") | {"minibatch": "b"}, deterministic=False)
    assert reasons == [
        "cpu was X and is Y",
        "the processor lacks avx512f",
        "a replayed minibatch gives other bits",
    ]


def test_a_new_library_is_named_although_the_minibatch_is_equal():
    reasons = inexact(HERE, other(blas="mkl 2", settings="MKL_CBWR=AVX"), deterministic=False)
    assert reasons == [
        "blas was mkl 1 and is mkl 2",
        "settings was not set and is MKL_CBWR=AVX",
        "a replayed minibatch gives the same bits all the same",
    ]


def test_other_bits_alone_are_a_reason():
    assert inexact(HERE, HERE | {"minibatch": "b"}, deterministic=False) == ["a replayed minibatch gives other bits"]


def test_a_state_without_a_fingerprint_cannot_be_called_exact():
    before = {key: value for key, value in HERE.items() if key not in ("fingerprint", "minibatch")}
    assert inexact(before, HERE, deterministic=False) == ["processor and libraries were not noted"]


def test_an_accelerator_without_a_fixed_order_replays_nothing():
    made = machine(torch.device("meta"), deterministic=False, minibatch=lambda: 1 / 0)
    assert "minibatch" not in made


def test_the_fingerprint_names_what_decides_the_bits(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    found = fingerprint(CPU)
    assert "MKL_CBWR=COMPATIBLE" in found["settings"]
    assert found["torch_instruction_set"] == torch.backends.cpu.get_cpu_capability()
    assert found["cpu"]
    assert all(isinstance(value, str) for value in found.values())
