"""The released student of the search performs as its card states, without a search."""

import re
from pathlib import Path

import torch

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.rewards.scoring import count_centres
from sparring.envs.diplomacy.rollouts.games import one_of_seven, play_to_end
from sparring.envs.diplomacy.training.opponents import SearchOrders, open_player
from sparring.envs.diplomacy.training.task import play_against

RELEASED = Path(__file__).resolve().parents[4] / "checkpoints" / "released" / "diplomacy_student.pt"
GAMES = 42


def test_student_reaches_mean_centres_on_card():
    """9.4 on average over 203 games, so 7.3 is four standard errors of 42 games below; an equal share is 4.86."""
    batch = DiplomacyBatch(GAMES, last_year=1910)
    play_against(batch, load_checkpoint(RELEASED).network, "dumbbot", seed=30)
    centres = count_centres(batch.owner.cpu())[torch.arange(GAMES), torch.arange(GAMES) % 7].double()
    batch.close()
    assert centres.mean() >= 7.3, f"{centres.mean():.2f} centres on average"
    assert (centres > 0).all()


def test_student_is_player_by_name():
    assert open_player("released/diplomacy_student").network.config.in_turn


CARD = Path(__file__).resolve().parents[4] / "checkpoints" / "released" / "diplomacy_search.md"


def test_searches_on_card_are_players():
    names = re.findall(r"search:[a-z0-9=.,]+", CARD.read_text(encoding="utf-8"))
    assert names[0] == "search:seconds=0.35,opponents=dumbbot,near=0"
    assert all(isinstance(open_player(name), SearchOrders) for name in names)
    assert open_player(f"released/{CARD.stem}").settings == open_player(names[0]).settings


def test_search_takes_centres_from_dumbbots():
    """With a quarter of the card's positions, to 1904; an equal share is 4.86 centres, a DumbBot gets about 5."""
    batch, own = DiplomacyBatch(7, last_year=1904, threads=1), one_of_seven(7)
    play_to_end(batch, [(open_player("search:positions=2000"), own), ("dumbbot", ~own)], seed=11)
    centres = count_centres(batch.owner)[own].double()
    batch.close()
    assert centres.mean() > 6.5
    assert torch.all(centres > 0)
