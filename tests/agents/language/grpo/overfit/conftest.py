"""The model of the overfit checks, trained once, without plotting."""

import pytest


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    from tests.agents.language.grpo.overfit.small_check import (
        make_model,  # where transformers and python-chess are installed
    )

    return make_model(tmp_path_factory.mktemp("small"))


@pytest.fixture
def no_picture(monkeypatch):
    """Skip Matplotlib, which takes as long as the check itself."""
    monkeypatch.setattr("sparring.agents.language.grpo.overfit._plot", lambda path, *_: path)
