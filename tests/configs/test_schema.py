"""Schema consistency: every option states its allowed values, and names match their owners."""

import re
import sys
from dataclasses import MISSING, fields, is_dataclass

import pytest

from sparring.configs import games, schema
from sparring.configs.core.allowed import complaint
from sparring.configs.kinds import run_kinds
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.config import DogfightRunConfig

CLASSES = {
    kind: None
    for module in [schema, games, *(sys.modules[kind.__module__] for kind in run_kinds())]
    for kind in vars(module).values()
    if isinstance(kind, type) and is_dataclass(kind) and kind.__name__.endswith("Config")
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_number_and_text_option_states_allowed_values(kind):
    for option in fields(kind):
        plain = re.search(r"\b(int|float|str)\b", option.type) is not None  # EndpointConfig holds no int
        assert not plain or "allowed" in option.metadata, f"{kind.__name__}.{option.name}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_default_is_allowed(kind):
    for option in fields(kind):
        value, allowed = option.default, option.metadata.get("allowed")
        if allowed and value not in (None, "", MISSING):
            assert complaint(value, allowed) is None, option.name


def test_defaults_are_not_shared_between_objects():
    schema.StageConfig().bots.append("ace")
    DogfightRunConfig().phases[0].stages[0].bots.clear()
    assert schema.StageConfig().bots == []
    assert DogfightRunConfig().phases[0].stages[0].bots == list(schema.BOTS)


def test_schema_regimes_match_rules():
    assert tuple(rules.REGIMES) == schema.REGIMES
