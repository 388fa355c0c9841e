"""Machine properties, also where the operating system does not report them."""

import os

import pytest

from sparring.configs.core.device import choose_device, usable_cores
from sparring.configs.core.errors import ConfigError


def test_core_count_is_process_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("count", "cores"), [(8, 8), (None, 1)])
def test_all_cores_count_without_affinity(monkeypatch, count, cores):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_cores() == cores


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gpu", "cuda"), ("GPU", "cuda"), ("CPU", "cpu"), ("cud", "cuda"), ("gpu:0", "cuda:0"), ("mps", "")],
)
def test_misspelled_device_suggests_nearest(name, hint):
    with pytest.raises(ConfigError, match=f"device={name}: must be auto, cpu, cuda or cuda:N such as cuda:1") as error:
        choose_device(name)
    assert str(error.value).endswith(f"; did you mean {hint!r}?" if hint else "cuda:1")
