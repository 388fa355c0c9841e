"""Reference runs shared by the training tests."""

import pytest


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Folder of a run of PPO, `long` of `tests.agents.ppo.small_run`, that was never cut; nothing may change it."""
    from sparring.agents.trainers import train
    from tests.agents.ppo.small_run import long

    root = tmp_path_factory.mktemp("undisturbed")
    train(long(root))
    return root
