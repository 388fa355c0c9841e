"""The code on docs/diplomacy_batch.md runs as printed with the stated results."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "diplomacy_batch.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    """Return the names after each consecutive example, with copies of the batch's tensors."""
    found, names, states = [], {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for block in BLOCKS:
            exec(compile(block, "diplomacy_batch.md", "exec"), names)
            found.append(dict(names))
            states.append(names["batch"].snapshot() | {"orders": names["batch"].orders.clone()})
        saved = Path("game.json").read_text()
    return found, states, saved


def test_games_are_played_to_end(after):
    names, states, _ = after
    assert states[0]["done"].all()
    assert names[0]["centres"].shape == (64, 7)
    assert names[0]["centres"].sum(dim=1).max() <= 34
    assert 0 <= int(names[0]["solos"]) <= 64


def test_custom_orders_are_played(after):
    names, states, _ = after
    assert (states[1]["orders"][:, names[1]["paris"]] > 0).all()
    assert {"A PAR H", "A PAR - BUR", "A PAR S MAR - BUR"} <= set(names[1]["choices"])
    assert "A PAR - LON" not in names[1]["choices"]
    assert torch.equal(names[1]["first"] > 0, states[1]["units"] > 0)


def test_forks_start_equal_and_game_5_continues(after):
    _, states, _ = after
    assert torch.equal(states[2]["units"][0], states[2]["units"][3])
    assert states[2]["phase"].tolist()[:5] == [0] * 5
    assert int(states[2]["phase"][5]) > 0


def test_game_is_saved_and_drawn(after):
    names, states, saved = after
    assert saved.count('"name"') == 4
    assert torch.equal(states[3]["units"][0], states[3]["units"][5])
    assert (names[3]["picture"].dtype, names[3]["picture"].ndim) == (np.uint8, 3)


def test_links_lead_to_files():
    docs = Path(__file__).resolve().parents[3] / "docs"
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert targets
    assert [target for target in targets if not (docs / target).exists()] == []
