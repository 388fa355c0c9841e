"""PettingZoo games for people: what the page shows and hides, and how seats decide together."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from sparring.configs.core.errors import InputError
from sparring.envs.imported.browser.match_table import MatchTable, text_of
from sparring.envs.imported.evaluation.policy import ImportedGame
from tests.envs.imported.browser.pages import act, hosted, last_game, talk
from tests.eval.browser.browser import browser, needs_chromium

DUEL, GAMES = "tests.envs.imported.own_game:Duel", "tests.envs.imported.games"
CONNECT_FOUR = "pettingzoo.classic.connect_four_v3"


class Lowest:
    """Plays the lowest legal action."""

    def act(self, obs, mask):
        return mask.argmax(1)


class Failing:
    """Fails."""

    def act(self, obs, mask):
        raise InputError("no engine")


def table_of(game, opponent="random", seat=0, *, open_game=False, **kwargs):
    return MatchTable(ImportedGame("pettingzoo", game, kwargs), opponent, seat, seed=3, open_game=open_game)


def image_of(game):
    kind, _, data = game["picture"].partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).astype(int)


def test_connect_four_is_shown_as_its_picture():
    """A red piece falls to the bottom of the first column: that corner changes on the picture, the top does not."""
    told = talk(table_of(CONNECT_FOUR, f"{__name__}:Lowest"), act("6"))
    first, last = (image_of(game) for game in (told[0], last_game(told)))
    assert [name for _, name in told[0]["legal"]] == list("0123456")
    assert last_game(told)["played"] == [["you", "6"], ["seat 1", "0"]]
    height, width = first.shape[0] // 6, first.shape[1] // 7
    changed = np.abs(first - last).sum(-1) > 60
    assert changed[-height:, -width:].mean() > 0.2
    assert changed[-height:, :width].mean() > 0.2
    assert not changed[: 4 * height].any()


def test_cards_of_others_are_hidden_until_end():
    """Both seats choose at once; 3, 0 and 1 against 0, 1 and 2 win one point and lose two."""
    told = talk(table_of(DUEL, f"{__name__}:Lowest", render_mode="ansi"), act("3"), act("0"), act("1"))
    games = [one for one in told if one["kind"] == "game"]
    assert all(["seat 1", "0"] not in game["played"] for game in games if not game["returns"])
    last = last_game(told)
    assert last["returns"] == [-1.0, 1.0]
    assert [action for _, action in last["played"]] == ["3", "0", "0", "1", "1", "2"]
    shown = [game["shown"] for game in games if not game["returns"]]
    assert all(text.startswith("[") for text in shown), "the observation, not the text of the whole game"


def test_open_game_shows_everything():
    told = talk(table_of(DUEL, "tests.envs.imported.own_game:FirstLeft", open_game=True), act("3"))
    assert last_game(told)["played"] == [["you", "3"], ["seat 1", "0"]]
    assert "round" in last_game(told)["shown"]


def test_action_names_begin_where_space_begins():
    """The boss of this game has two actions, 1 and 2; its seat plays with three others, which end one by one."""
    told = talk(table_of(f"{GAMES}:Fading", seat=3), *[act("1")] * 4)
    assert [name for _, name in told[0]["legal"]] == ["1", "2"]
    assert len(last_game(told)["returns"]) == 4


def test_failing_player_and_game_are_one_line():
    told = talk(table_of(DUEL, f"{__name__}:Failing"), act("3"))
    assert "no engine" in told[-1]["problem"]
    told = talk(table_of(DUEL, f"{__name__}:Lowest", fault="mask"), act("3"))
    assert "ValueError: card 3 is played already" in told[-1]["problem"]


def test_replay_shows_actions_at_end():
    table = table_of(DUEL, f"{__name__}:Lowest")
    talk(table, act("3"))
    assert "<details" not in table.replay()
    talk(table, act("0"), act("1"))
    assert table.replay().count("<details") == 6


@pytest.mark.parametrize(
    ("game", "opponent", "words"),
    [
        (f"{GAMES}:Shuffled", "random", "do not choose one of numbered actions"),
        (CONNECT_FOUR, "nobody", "unknown player 'nobody'"),
        (CONNECT_FOUR, "openspiel:uniform", "plays only OpenSpiel games"),
    ],
)
def test_unplayable_game_or_player_is_refused(game, opponent, words):
    with pytest.raises(InputError, match=words):
        table_of(game, opponent)


def test_planes_are_written_one_below_the_other():
    planes = np.zeros((2, 3, 2), dtype=bool)
    planes[0, 1, 1] = True
    assert text_of({"observation": planes, "action_mask": np.ones(3)}) == "[[0 0 0]\n [0 0 0]]\n\n[[0 1 0]\n [0 0 0]]"
    assert text_of({"own": np.arange(2), "far": np.float32(0.5)}) == "own:\n[0 1]\nfar:\n0.5"


@needs_chromium
def test_picture_fits_small_screen(tmp_path):
    with hosted(table_of(CONNECT_FOUR)) as address, browser(tmp_path / "profile") as page:
        page.open(address, width=400, height=800)
        page.until("window.play && play.state()?.legal.length === 7 && document.querySelector('#picture').naturalWidth")
        page.key("4")
        page.until("play.state().count === 2")
        assert page.value("document.documentElement.scrollWidth") <= 400
        assert page.console == []
