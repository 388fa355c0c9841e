"""Learning curves and heat maps."""

from importlib.util import find_spec

from sparring.configs.core.errors import InputError


def check_matplotlib() -> None:
    """Raise `InputError` if matplotlib is missing; call this before long work that ends in a picture."""
    if find_spec("matplotlib") is None:
        raise InputError('matplotlib is not installed; run pip install -e ".[plots]"')
