"""Games between bots as training data: legal answers, reproducible by seed, all years at the same time."""

import numpy as np
import pytest

from sparring.configs.core.errors import ConfigError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, FALL, NUM_PROVINCES, SPRING
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.rollouts.demonstrations import BotGames


def games(seed=3, number=4):
    return BotGames(number, bot="dumbbot", last_year=1905, seed=seed)


def told(decisions):
    return [
        (one.game, int(one.row["year"]), int(one.row["phase"]), one.menu.power, [o.text for o in one.chosen])
        for game in decisions
        for one in game
    ]


def test_answers_match_bot_orders():
    playing = games()
    for _ in range(12):
        before = playing.batch.snapshot()
        found, ordered = playing.next(), np.zeros((4, NUM_PROVINCES), dtype=np.int32)
        for one in (one for game in found for one in game):
            one.menu.write(one.chosen, ordered[one.game])
            assert len(one.chosen) == one.menu.lines
        again = DiplomacyBatch(4, last_year=1905, threads=1)
        again.load(before)
        again.players.fill_(BOTS.index("dumbbot"))
        again.draw_orders((3 + 1_000_003 * (playing.phases - 1)) % 2**31)
        assert np.array_equal(again.orders.numpy(), ordered)
        again.close()
    playing.close()


def test_seed_determines_games_and_state_resumes():
    one, same, other = games(), games(), games(seed=4)
    seen = [told(one.next()) for _ in range(30)]
    state_at = 10
    again = [told(same.next()) for _ in range(state_at)]
    state = same.state_dict()
    again += [told(same.next()) for _ in range(5)]
    other.load_state_dict(state)
    other.seed = same.seed
    assert seen[:15] == again
    assert [told(other.next()) for _ in range(20)] == seen[state_at:]
    assert [told(games(seed=4).next())] != seen[:1]


def test_games_start_staggered_and_continue_endlessly():
    playing = games(number=20)
    years = {int(one.row["year"]) for game in playing.next() for one in game}
    assert years == set(range(1901, 1906))
    for _ in range(45):  # longer than a game
        assert len(playing.next()) >= 10
    playing.close()


class Holds:
    """Orders every unit of its powers to hold."""

    bot = "dumbbot"

    def write(self, batch, seats):
        moving = ((batch.phase == SPRING) | (batch.phase == FALL)).unsqueeze(1)
        owner = power_of(batch.units)
        mine = (owner >= 0) & seats.gather(1, owner.long().clamp_min(0)) & moving
        batch.orders.masked_fill_(mine, 0)  # 0: holds


def test_teacher_labels_all_powers_and_plays_one_per_game():
    playing = BotGames(8, bot="dumbbot", last_year=1905, seed=3, teacher=Holds(), taught_by="holds")
    assert playing.source == "holds among dumbbots in 8 games"
    process, played, movements = playing.batch.process, [], 0
    playing.batch.process = lambda: played.append(playing.batch.orders.clone()) or process()
    for _ in range(6):
        before = playing.batch.snapshot()
        decisions, orders = [one for game in playing.next() for one in game], played[-1]
        plain = DiplomacyBatch(8, last_year=1905, threads=1)
        plain.load(before)
        plain.players.fill_(BOTS.index("dumbbot"))
        plain.draw_orders((3 + 1_000_003 * (playing.phases - 1)) % 2**31)
        owner = power_of(before["units"])
        for game in range(8):
            if int(before["phase"][game]) not in (SPRING, FALL):
                assert (orders[game] == plain.orders[game]).all()
                continue
            movements += 1
            own = owner[game] == game % 7
            assert not orders[game][own].any()
            assert (orders[game][~own] == plain.orders[game][~own]).all()
            assert all(option.text.endswith(" H") for one in decisions if one.game == game for option in one.chosen)
        plain.close()
    assert movements > 20
    playing.close()


def test_bot_is_rejected_as_teacher():
    from sparring.configs.load import load
    from sparring.envs.diplomacy.rollouts.task import demonstrations

    config = load(["+run=diplomacy_clone", "clone.teacher=chaos"])
    with pytest.raises(ConfigError, match=r"clone\.teacher=chaos: is a bot; set clone.bot=chaos"):
        demonstrations(config, games=2, seed=1)
