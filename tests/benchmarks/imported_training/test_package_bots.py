"""Players of the packages choose legal actions of a match, and those that draw repeat from their seed."""

import pytest

from benchmarks.imported_training import package_bots
from sparring.envs.imported.match import make_match

GAMES = {
    "LeducRules": ("rlcard", "pettingzoo", "pettingzoo.classic.leduc_holdem_v4", {}),
    "LeducCfr": ("rlcard", "pettingzoo", "pettingzoo.classic.leduc_holdem_v4", {}),
    "TexasRules": ("rlcard", "pettingzoo", "pettingzoo.classic.texas_holdem_v4", {}),
    "Mcts100": ("pyspiel", "openspiel", "tic_tac_toe", {}),
}


@pytest.mark.parametrize("name", GAMES)
def test_a_match_against_itself(name):
    needed, package, game_id, kwargs = GAMES[name]
    pytest.importorskip(needed)
    match, played = make_match(package, game_id, kwargs), []
    for _ in range(2):
        bot = getattr(package_bots, name)()
        if hasattr(bot, "reseed"):
            bot.reseed(3)
        match.reset(7)
        moves = []
        while not match.over:
            (seat,) = match.deciding()
            moves.append(bot.choose(match, seat))
            assert match.mask(seat)[moves[-1]]
            match.step({seat: moves[-1]})
        played.append(moves)
    match.close()
    assert played[0] == played[1]
    if name == "Mcts100":
        assert played[0][0] == 4
