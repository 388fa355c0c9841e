"""Trap 16: groups depend on what was known before the move, and compare comparable decisions."""

import ast
import dataclasses
import inspect
import typing
from collections.abc import Hashable

import pytest
import torch

from sparring.agents.language.grpo.objective import advantages
from sparring.agents.language.grpo.objective.advantages import group_ids, mixed_share
from sparring.envs.diplomacy.rollouts.task import stratum
from sparring.envs.text import GroupFacts

BASE = GroupFacts(fork=4, seat=2, step=3, stratum=stratum(4, 1903), position=77)


def same_group(other, *, stratified):
    first, second = group_ids([BASE, other], stratified=stratified).tolist()
    return first == second


def changed(*, centres=4, year=1903, **facts):
    return dataclasses.replace(BASE, stratum=stratum(centres, year), **facts)


def test_trap_16_facts_are_exactly_those_before_move():
    """The type proves it: it has no field for consequences of a decision, and is frozen."""
    assert set(GroupFacts.__slots__) == {"fork", "seat", "step", "stratum", "position"}
    assert set(typing.get_type_hints(GroupFacts).values()) == {int, Hashable}
    assert stratum(4, 1903) == (1, 1)
    with pytest.raises(TypeError):
        GroupFacts(**dataclasses.asdict(BASE), reward=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        BASE.stratum = 9
    assert list(inspect.signature(group_ids).parameters) == ["decisions", "stratified"]
    assert typing.get_type_hints(group_ids)["decisions"].__args__ == (GroupFacts,)


def test_trap_16_groups_depend_on_facts_only():
    functions = (group_ids, advantages._same_fork, advantages._stratum)
    nodes = [node for function in functions for node in ast.walk(ast.parse(inspect.getsource(function)))]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)} - {"setdefault", "tensor", "int64"}
    assert read == {"fork", "seat", "step", "stratum"}


@pytest.mark.parametrize("stratified", [False, True])
def test_trap_16_permuting_outcomes_keeps_ids(stratified):
    """Games with equal decisions and different ends: centres won or lost by the move appear one step later."""
    generator = torch.Generator().manual_seed(0)
    before = [changed(fork=fork % 3, seat=fork % 7, centres=2 + fork % 6) for fork in range(40)]
    rewards = torch.randn(40, generator=generator)
    ids = group_ids(before, stratified=stratified)
    for _ in range(5):
        rewards = rewards[torch.randperm(40, generator=generator)]
        assert torch.equal(group_ids(before, stratified=stratified), ids)
    assert len(set(ids.tolist())) > 1


def test_trap_16_default_groups_by_fork_power_and_step():
    for facts in ({"fork": 5}, {"seat": 3}, {"step": 4}):
        assert not same_group(changed(**facts), stratified=False)
    for facts in ({"centres": 17}, {"year": 1910}, {"position": 78}):
        assert same_group(changed(**facts), stratified=False)


@pytest.mark.parametrize(
    ("facts", "same"),
    [
        ({"fork": 5}, True),
        ({"seat": 3}, False),
        ({"step": 4}, False),
        ({"centres": 3}, False),
        ({"centres": 5}, True),
        ({"centres": 6}, False),
        ({"year": 1902}, False),
        ({"year": 1905}, True),
        ({"year": 1906}, False),
    ],
)
def test_trap_16_strata_boundaries(facts, same):
    """Centres up to 3, 4 to 5, from 6 on; years to 1902, 1903 to 1905, from 1906 on."""
    assert same_group(changed(**facts), stratified=True) == same


def test_trap_16_zero_and_many_centres_use_outer_strata():
    ids = group_ids([changed(centres=centres) for centres in (0, 3, 6, 18)], stratified=True).tolist()
    assert ids == [0, 0, 1, 1]


def test_trap_16_groups_are_numbered_by_first_appearance():
    decisions = [changed(fork=fork) for fork in (9, 3, 9, 1, 3)]
    ids = group_ids(decisions, stratified=False)
    assert ids.tolist() == [0, 1, 0, 2, 1]
    assert ids.dtype == torch.int64
    assert group_ids([], stratified=False).shape == (0,)


def test_trap_16_mixed_share_counts_groups_of_several_positions():
    """Group 0 has one position, group 1 two, group 2 a single member and so no comparison."""
    decisions = [changed(position=position) for position in (1, 1, 2, 3, 4)]
    assert mixed_share(decisions, torch.tensor([0, 0, 1, 1, 2])) == 0.5
    assert mixed_share(decisions[:2], torch.tensor([0, 0])) == 0.0
    assert mixed_share(decisions[4:], torch.tensor([2])) == 0.0
