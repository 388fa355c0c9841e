"""Silence library logging while endpoints are tested."""

import io
import logging

import pytest


@pytest.fixture
def logged():
    """Return a stream of everything logged during a test, from DEBUG on."""
    root, stream = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(stream), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)
