"""Small tensors on one thread: a test run shares the machine, and threads that wait for each other are slow."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
