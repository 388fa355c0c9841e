"""Labelled positions: games, labels, resuming, and damaged files."""

import json
from dataclasses import replace

import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.rollouts import labelled
from sparring.envs.diplomacy.rollouts.labelled import (
    CARD,
    Labeller,
    LabelSettings,
    read_card,
    read_labels,
    write_labels,
)

MOVEMENTS = (codes.SPRING, codes.FALL)
SETTINGS = LabelSettings("holds", games=14, seed=5, last_year=1901)


class Holds:
    """Order every unit to hold, and count calls."""

    bot = "dumbbot"
    calls = 0

    def write(self, batch, seats):
        self.calls += 1
        own = seats.gather(1, power_of(batch.units).clamp_min(0).long()) & (batch.units > 0)
        batch.orders.masked_fill_(own, codes.HOLD)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(labelled, "GAMES_OF_A_PART", 7)


def holding(missing, settings=SETTINGS):
    return ((number, Labeller(settings, Holds()).part(number)) for number in missing)


def made(folder, settings=SETTINGS):
    return list(write_labels(folder, settings, lambda missing: holding(missing, settings), about={"a": 1}))


def test_one_power_per_game_is_labelled_each_movement_phase(tmp_path):
    parts = made(tmp_path / "data")
    assert [number for number, _ in parts] == [0, 1]
    rows = read_labels([tmp_path / "data"])
    assert len(rows["power"]) == 2 * 14  # spring and fall
    assert torch.equal(rows["power"].long(), rows["game"].long() % 7)
    mine = power_of(rows["units"]) == rows["power"].unsqueeze(1)
    assert (rows["orders"][mine] == codes.HOLD).all()
    assert not rows["orders"][~mine].any()
    card = read_card(tmp_path / "data")
    assert (card["teacher"], card["games"], card["parts"], card["a"]) == ("holds", 14, 2, 1)
    spring, fall = (rows["phase"] == phase for phase in (codes.SPRING, codes.FALL))
    still = (power_of(rows["units"][fall]) == rows["power"][fall].unsqueeze(1)) & mine[spring]
    assert torch.equal(still.sum(1), mine[spring].sum(1))  # the teacher's orders were played, and nobody was dislodged
    assert ((rows["share"] >= 0) & (rows["share"] < 0.5)).all()


def test_bot_as_teacher_and_player():
    """A bot's labels are its orders; with slips only, the teacher labels the bot's positions."""
    bot = Labeller(SETTINGS, None).part(0)
    assert (bot["orders"][bot["orders"] > 0] & codes.KIND_MASK != codes.HOLD).any()
    slipping = Labeller(replace(SETTINGS, slips=1.0), Holds()).part(0)
    assert torch.equal(slipping["units"], bot["units"])
    assert set(slipping["orders"].unique().tolist()) == {0, codes.HOLD}


def test_teacher_labels_games_of_other_player():
    class Moves(Holds):
        def write(self, batch, seats):
            self.calls += 1

    player, teacher = Moves(), Holds()
    rows = Labeller(SETTINGS, teacher, player).part(0)
    assert player.calls == teacher.calls == 2
    bot = Labeller(SETTINGS, None).part(0)
    assert torch.equal(rows["units"], bot["units"])  # what the player leaves open is the bot's
    assert set(rows["orders"].unique().tolist()) == {0, codes.HOLD}


def test_opponents_take_other_powers_in_turn():
    """Austria of game 0 meets powers that hold, England first, and DumbBots, who move in spring 1901."""
    settings, others = replace(SETTINGS, opponents=("holds", "dumbbot")), Holds()
    rows = Labeller(settings, None, opponents=(others, "dumbbot")).part(0)
    spring, fall = (rows["units"][(rows["game"] == 0) & (rows["phase"] == season)][0] for season in MOVEMENTS)
    stay = [torch.equal(*(power_of(units) == power for units in (spring, fall))) for power in range(1, 7)]
    assert stay == [True, False] * 3
    assert others.calls >= 2


def test_interrupted_call_resumes(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    made(whole)
    first = write_labels(cut, SETTINGS, lambda missing: holding(missing[::-1]), about={})
    next(first)
    first.close()
    assert read_card(cut)["parts"] == 1
    assert [number for number, _ in made(cut)] == [0]  # the other way round, as from several processes
    assert made(cut) == []
    for name in ("part_0000.pt", "part_0001.pt"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()
    both = read_labels([whole, cut])
    assert len(both["game"].unique()) == 28


def test_other_settings_and_damage_are_rejected(tmp_path):
    folder = tmp_path / "data"
    made(folder)
    with pytest.raises(InputError, match=r"data: was created with slips=0.0, not 0.5"):
        made(folder, replace(SETTINGS, slips=0.5))
    with pytest.raises(InputError, match=r"nowhere: card.json missing"):
        read_labels([tmp_path / "nowhere"])
    part = folder / "part_0001.pt"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"part_0001.pt.*; remove it and run the command again"):
        read_labels([folder])
    part.unlink()
    (folder / CARD).write_text(json.dumps({"schema": "other"}))
    with pytest.raises(InputError, match="is not a card of"):
        read_labels([folder])
