"""A generator goes on from a state of its own kind to the bit, and from another kind's always alike."""

import torch

from sparring.agents.distributed.processes import restore_generator


def draws(generator):
    return torch.rand(5, generator=generator).tolist()


def test_a_state_of_its_own_kind_is_taken_over():
    generator = torch.Generator().manual_seed(3)
    state, wanted = generator.get_state(), draws(generator)
    other = torch.Generator().manual_seed(4)
    restore_generator(other, state, "shuffle")
    assert draws(other) == wanted


def test_a_state_of_another_kind_seeds_it():
    ours, same, unlike = (torch.Generator() for _ in range(3))
    restore_generator(ours, torch.arange(16, dtype=torch.uint8), "shuffle")
    restore_generator(same, torch.arange(16, dtype=torch.uint8), "shuffle")
    restore_generator(unlike, torch.arange(1, 17, dtype=torch.uint8), "shuffle")
    first = draws(ours)
    assert first == draws(same)
    assert first != draws(unlike)
