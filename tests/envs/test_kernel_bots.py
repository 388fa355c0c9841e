"""Every scripted player of a kernel's table has a branch of its own there; otherwise the game does not load."""

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


def test_a_bot_that_only_an_else_or_an_order_plays_is_refused():
    with pytest.raises(ConfigError, match=r"bots=c: no branch in .*test_kernel_bots\.last_is_else; add one"):
        check_branches(("a", "b", "c"), last_is_else)
    with pytest.raises(ConfigError, match="bots=b, c: no branch"):
        check_branches(("a", "b", "c"), by_order)
    with pytest.raises(ConfigError, match=r"bots=d: no branch in .*last_is_else, .*the_third"):
        check_branches(("a", "b", "c", "d"), last_is_else, the_third)
    check_branches(("a", "b", "c"), last_is_else, the_third)


TABLES = {
    "sparring.envs.air_combat.batch": "from sparring.envs.air_combat import rules; table = rules.BOTS; "
    "rules.BOTS = {**{n: table[n] for n in list(table)[:AT]}, 'weaver': '', **{n: table[n] for n in list(table)[AT:]}}",
    "sparring.envs.dogfight.batch": "from sparring.envs.dogfight import rules; table = rules.BOTS; "
    "rules.BOTS = (*table[:AT], 'weaver', *table[AT:])",
    "sparring.envs.diplomacy.batch": "from sparring.envs.diplomacy.board import codes; table = codes.BOTS; "
    "codes.BOTS = (*table[:AT], 'weaver', *table[AT:])",
}


@pytest.mark.parametrize("at", ["1", "len(table) - 1", "len(table)"])
@pytest.mark.parametrize("module", TABLES)
def test_a_name_without_a_branch_keeps_a_game_from_loading(module, at):
    """Wherever it stands in the table: before, it flew as another bot or sat still."""
    script = f"{TABLES[module].replace('AT', at)}; import {module}"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "ConfigError: bots=weaver: no branch in " in ended.stderr.splitlines()[-1]
