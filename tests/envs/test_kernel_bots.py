"""Every scripted player in a kernel's table has its own branch; otherwise the game does not load."""

import subprocess
import sys

import pytest
import warp as wp

from sparring.configs.core.errors import ConfigError
from sparring.envs.kernel_bots import check_branches

FIRST, SECOND, THIRD = (wp.constant(number) for number in range(3))


@wp.func
def last_is_else(bot: int) -> float:
    if bot == FIRST:
        return 1.0
    elif bot == SECOND:  # noqa: RET505
        return 2.0
    else:
        return 3.0


@wp.func
def by_order(bot: int) -> float:
    if bot != FIRST and bot >= SECOND:
        return 1.0
    return 0.0


@wp.func
def the_third(bot: int, other: int) -> bool:
    return bot == THIRD and other == FIRST


def test_bot_without_own_branch_is_rejected():
    with pytest.raises(ConfigError, match=r"bots=c: no branch in .*test_kernel_bots\.last_is_else; add one"):
        check_branches(("a", "b", "c"), last_is_else)
    with pytest.raises(ConfigError, match="bots=b, c: no branch"):
        check_branches(("a", "b", "c"), by_order)
    with pytest.raises(ConfigError, match=r"bots=d: no branch in .*last_is_else, .*the_third"):
        check_branches(("a", "b", "c", "d"), last_is_else, the_third)
    check_branches(("a", "b", "c"), last_is_else, the_third)


TABLES = {
    "air_combat.batch": ("air_combat.rules", "lambda names: {name: BOTS.get(name, '') for name in names}"),
    "dogfight.batch": ("dogfight.rules", "tuple"),
    "diplomacy.batch": ("diplomacy.board.codes", "tuple"),
}
"""The module that builds a game's kernels: that of its table, and the type of the table."""
DRIFTER = """\
import importlib, os, torch, warp
from sparring.configs.core.errors import ConfigError
def error_of(game, rules, kind, at):
    module = importlib.import_module(f"sparring.envs.{rules}")
    names = list(BOTS := module.BOTS)
    names.insert(at % (len(names) + 1), "drifter")
    module.BOTS = eval(kind, {"BOTS": BOTS})(names)
    try:
        importlib.import_module(f"sparring.envs.{game}")
    except ConfigError as error:
        return error
for (game, table), at in zip(TABLES.items(), (1, -2, -1)):
    if not os.fork():
        print(game, error_of(game, *table, at), flush=True)
        os._exit(0)
for _ in TABLES:
    os.wait()
"""
"""Load every game with one more name in its table, in processes forked from one that has loaded torch and Warp."""


def test_name_without_branch_prevents_game_from_loading():
    """Second, last but one or last in the table: unchecked, it flies as another bot or idles."""
    script = f"TABLES = {TABLES}\n{DRIFTER}"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(TABLES)
    assert [line for line in lines if "bots=drifter: no branch in " not in line] == []
