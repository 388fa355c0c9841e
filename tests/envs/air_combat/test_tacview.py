"""Recorded missiles and flares, and Tacview files; docs/results/air_combat_flight.md lists other readers."""

import re

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.recording import AirRecorder, AirRecording, Release
from sparring.envs.air_combat.tacview import acmi_text
from tests.envs.air_combat import flights
from tests.envs.air_combat.battle.test_armed import closer


def recording(hp=(1.0, 1.0), releases=(), names=("one, two", "b")):
    """Return three samples of two aircraft; `hp` is the second's in the last two."""
    planes = flights.level(2, heading=np.array([0.5, -0.5]), bank=np.array([0.3, -0.3]))
    planes["pos"][1] = (111_319.49, -111_319.49, -1234.5)
    rows = np.stack([planes] * 3)
    rows["hp"][1:, 1] = hp
    return AirRecording(names, "f16", "rounds", np.array([0, 30, 60]), rows, (), -1, releases=releases)


def release(kind, ticks, targets, **more):
    path = np.tile([0.0, 0.0, -1000.0, 100.0, 100.0, -141.42], (len(ticks), 1))
    return Release(kind, 1, more.pop("slot", 0), np.array(ticks), path, np.array(targets), **more)


def test_angles_and_end_of_aircraft():
    lines = acmi_text(recording((0.0, 0.0))).splitlines()
    assert lines[7].startswith("1,T=0.0000000|0.0000000|5000.00|17.19|0.00|28.65,Type=Air+FixedWing,Name=F-16C")
    assert "Pilot=one\\, two" in lines[7]
    assert lines[8].startswith("2,T=-1.0000000|1.0000000|1234.50|-17.19|0.00|331.35,")
    assert lines[-5:] == [lines[-5], "0,Event=Destroyed|2|", "-2", "#1.000", lines[-1]]
    assert lines[-1].startswith("1,")


def test_missiles_and_flares_are_objects_with_launch_and_end():
    """A missile follows the first aircraft, then a flare, and misses; another hits between two samples."""
    flown = (
        release("missile", [0, 30], [0, 2 + 9]),
        release("flare", [30], [-1], slot=9),
        release("missile", [0, 30, 47], [0, 0, 0], slot=1, hit=0),
    )
    lines = acmi_text(recording(releases=flown)).splitlines()
    launched = [line for line in lines if line.startswith("100,")]
    place = "T=0.0000000|0.0000000|1000.00|0.00|45.00|45.00"
    assert launched[0] == f"100,{place},Type=Weapon+Missile,Name=AIM-9,Parent=2,Color=Red,LockedTarget=1"
    assert launched[1] == f"100,{place},LockedTarget=101"
    assert [line for line in lines if line.startswith("101,")] == [
        f"101,{place},Type=Misc+Decoy+Flare,Name=Flare,Parent=2,Color=Red"
    ]
    assert [line for line in lines if line.startswith(("0,Event", "-", "#"))] == [
        *("#0.000", "0,Event=Message|2|100|launches a missile", "0,Event=Message|2|102|launches a missile"),
        *("#0.500", "#0.783", "0,Event=Destroyed|102|", "-102"),
        *("#1.000", "0,Event=Timeout|100|", "-100", "-101"),
    ]


@pytest.fixture(scope="module")
def flown():
    """Fly chasers 2 km behind a straight flyer and one that drops flares, on the point mass."""
    options = rules.CombatOptions(missiles=1, flares=12)
    batch = AirCombatBatch(2, threads=1, seed=2, max_ticks=600, options=options)
    batch.load({"planes": closer(batch.snapshot()["planes"])})
    batch.assign(torch.tensor([[rules.bot_id("chaser"), rules.bot_id(name)] for name in ("straight", "evader")]))
    recorder, states = AirRecorder(batch, 2), []
    while not recorder.done:
        batch.step(batch.actions)
        states.append(batch.snapshot())
        recorder(batch)
    batch.close()
    return recorder.recordings(("chaser", "target")), states


def test_missile_is_recorded_from_launch_to_hit(flown):
    (killed, _), states = flown
    (missile,) = killed.releases
    assert (missile.kind, missile.seat, missile.hit, killed.carried) == ("missile", 0, 1, (1, 12))
    assert killed.outcome == 1
    assert killed.ticks[-2] < missile.ticks[-1] <= killed.ticks[-1]
    first = next(index for index, state in enumerate(states) if state["missiles"]["age"][0, 0] > 0)
    assert missile.ticks[0] == 4 * (first + 1)
    for tick, path in zip(missile.ticks[:-1], missile.path, strict=False):
        seen = states[tick // 4 - 1]["missiles"][0, 0]
        np.testing.assert_array_equal(path, [*seen["pos"], *seen["vel"]])
    moved = np.linalg.norm(np.diff(missile.path[:, :3], axis=0), axis=1) / (np.diff(missile.ticks) / 60)
    np.testing.assert_allclose(moved, np.linalg.norm(missile.path[:-1, 3:], axis=1), rtol=0.12)
    target = killed.planes["pos"][-2:, 1].mean(axis=0)
    assert np.linalg.norm(missile.path[-1, :3] - target) < 40.0


def test_flares_are_own_objects_and_attract_missile(flown):
    (_, saved), states = flown
    flares = [one for one in saved.releases if one.kind == "flare"]
    assert len(flares) == 12 - states[-2]["stores"]["flares"][1, 1] > 0
    assert {one.seat for one in flares} == {1}
    assert all(np.ptp(one.ticks) <= 210 for one in flares)
    (missile,) = (one for one in saved.releases if one.kind == "missile")
    assert missile.hit == -1
    assert len(missile.decoys(2)) >= 1
    text = acmi_text(saved)
    assert text.count("Type=Misc+Decoy+Flare") == len(flares)
    assert re.search(r"^100,.*LockedTarget=10[1-9a-c]$", text, re.MULTILINE)


def test_unfinished_true_records_running_match():
    batch = AirCombatBatch(1, threads=1)
    recorder = AirRecorder(batch)
    (begun,) = recorder.recordings(("a", "b"), unfinished=True)
    assert (begun.outcome, begun.ticks.tolist()) == (-1, [0])
    batch.close()
