"""The TextArena interface with its own loop; numbers equal the match itself."""

import subprocess
import sys

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.map_file import POWERS
from sparring.envs.hubs.matches import open_match
from tests.envs.hubs.test_matches import first_orders, played

OPTIONS = {"last_year": 1901, "reward": "centres"}


def test_missing_package_prints_install_command():
    code = (
        "import sys; sys.modules['textarena'] = None\n"
        "try:\n    import sparring.envs.hubs.textarena_env\nexcept ValueError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "`sparring install textarena`" in told
    assert len(told.splitlines()) == 1


@pytest.fixture
def make():
    ta = pytest.importorskip("textarena")
    from sparring.envs.hubs import textarena_env

    textarena_env.register()
    textarena_env.register()  # a second time is allowed
    return ta.make


@pytest.mark.parametrize(("players", "options"), [(7, {}), (1, {"power": "FRANCE"})])
def test_match_equals_core_match(make, players, options):
    match = open_match("diplomacy", **OPTIONS, **({"power": "all"} if players == 7 else options))
    turns = played(match, 4)
    match.close()
    env = make("Sparring-Diplomacy-v0", **OPTIONS, **options)
    for _ in range(2):
        env.reset(num_players=players, seed=4)
        done, said = False, {}
        for turn in turns[:-1]:
            player, observation = env.get_observation()
            assert (player, observation) == (turn.seat if players == 7 else 0, turn.prompt)
            assert not done
            done, said = env.step(action=first_orders(turn))
        assert done
        assert (said["answer"], said["centres"]) == ("read", turns[-1].facts["centres"])
    rewards, info = env.close()
    assert list(rewards.values()) == pytest.approx(list(turns[-1].rewards.values()))
    assert [info[player]["role"] for player in rewards] == (list(POWERS) if players == 7 else ["FRANCE"])
    assert sum(one["turn_count"] for one in info.values()) == len(turns) - 1
    assert not any(one["invalid_move"] for one in info.values())


def test_illegal_answer_is_counted(make):
    env = make("Sparring-Diplomacy-v0", power="FRANCE", **OPTIONS)
    env.reset(num_players=1, seed=1)
    done, said = env.step(action="A PAR - MOS\n</orders>")
    assert not done
    assert said["problems"][0].startswith("A PAR - MOS: ")
    rewards, info = env.close()
    assert rewards is None
    assert (info[0]["invalid_move"], info[0]["answers"]) == (True, {"illegal": 1})


def test_bad_input_gives_one_line_error(make):
    with pytest.raises(InputError, match="num_players=2: diplomacy has 1 or 7"):
        make("Sparring-Diplomacy-v0").reset(num_players=2)
    with pytest.raises(InputError, match="num_players=7: chess_arbiter has 1"):
        make("Sparring-ChessArbiter-v0").reset(num_players=7)
    with pytest.raises(InputError, match="no match is running: call reset"):
        make("Sparring-Diplomacy-v0").step("")
