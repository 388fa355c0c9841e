"""Unread masks of Gymnasium environments are reported wherever they appear."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from sparring.envs.imported.training.copies import make_copies

PLAIN = Box(-1, 1, (2,), np.float32)
MASK = np.int8([1, 0])


class Game(gymnasium.Env):
    """Provide masks in `place` from step `start`."""

    action_space = Discrete(2)

    def __init__(self, place="infos", start=0, render_mode=None):
        self._place, self._start, self.render_mode = place, start, render_mode
        named = {"obs": "action_mask", "nested": "x", "fog": "fog", "legal": "legal_actions"}.get(place)
        inner = Dict(action_mask=Box(0, 1, (2,), np.int8)) if place == "nested" else Box(0, 1, (2,), np.int8)
        self.observation_space = Dict({"board": PLAIN, named: inner}) if named else PLAIN

    def _shown(self):
        values = {"obs": {"action_mask": MASK}, "nested": {"x": {"action_mask": MASK}}}
        values |= {"fog": {"fog": MASK}, "legal": {"legal_actions": MASK}}
        board = np.zeros(2, np.float32)
        return {"board": board, **values[self._place]} if self._place in values else board

    def _infos(self):
        return {"action_mask": MASK} if self._place == "infos" and self._t >= self._start else {"won": 1}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._shown(), self._infos()

    def step(self, action):
        self._t += 1
        return self._shown(), 0.0, self._t == 5, False, self._infos()


class WithMethod(Game):
    def action_masks(self):
        return MASK == 1


class WithOtherMethod(Game):
    def valid_action_mask(self):
        return MASK == 1


def copies_of(make, num_envs=2, **options):
    gymnasium.register("test/Unread-v0", entry_point=make, kwargs=options)
    try:
        copies = make_copies("test/Unread-v0", num_envs)
        copies.reset(0)
        return copies
    finally:
        del gymnasium.registry["test/Unread-v0"]


def limited(render_mode=None):
    return TimeLimit(OrderEnforcing(WithMethod("none")), 4)


@pytest.mark.parametrize(
    ("make", "options", "place"),
    [
        (Game, {"place": "infos"}, "infos['action_mask']"),
        (Game, {"place": "obs"}, "obs['action_mask']"),
        (Game, {"place": "nested"}, "obs['x.action_mask']"),
        (Game, {"place": "legal"}, "obs['legal_actions']"),
        (WithMethod, {"place": "none"}, "action_masks()"),
        (WithOtherMethod, {"place": "none"}, "valid_action_mask()"),
        (limited, {}, "action_masks()"),
    ],
)
def test_unread_masks_are_noted_at_start(make, options, place):
    (note,) = copies_of(make, **options).notes
    assert f"its masks of legal actions, {place}, are not read" in note


def test_taxi_notes_unread_masks():
    copies = make_copies("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3", 2)
    copies.reset(0)
    assert "its masks of legal actions, " in copies.notes[-1]


@pytest.mark.parametrize("start", [1, 3])
def test_late_masks_are_reported_once(start, capsys):
    copies = copies_of(Game, start=start)
    assert copies.notes == []
    said = []
    for _ in range(5):
        copies.step(np.zeros(2, np.int64))
        said.append(capsys.readouterr().err.count("infos['action_mask'], are not read"))
    assert said == [int(step == start) for step in range(1, 6)]


def test_rehearsal_leaves_late_masks_to_run(capsys):
    copies = copies_of(Game, start=2)
    copies.masks.muted = True
    for _ in range(5):
        copies.step(np.zeros(2, np.int64))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("place", ["none", "fog"])
def test_other_values_are_not_read_as_masks(place):
    assert copies_of(Game, place=place).notes == []
