"""The search player in evaluations, replays, training, the browser and the PettingZoo environment."""

import json
from dataclasses import fields

import pytest
import torch

from sparring.agents.opponents.players import find_player
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.browser.live_game import load_opponents
from sparring.envs.diplomacy.evaluation.lineup import new_lineup
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.search.settings import SearchSettings
from sparring.envs.diplomacy.training.opponents import PolicyOrders, SearchOrders, open_player
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.game import game_named
from sparring.eval import diplomacy_replay
from sparring.eval.options import pair_of, split_names
from sparring.eval.run import main

SMALL = "search:positions=100"
QUICK = ("--games", "7", "--last-year", "1901", "--threads", "1", "--device", "cpu")


def test_evaluation_accepts_search_on_both_sides(capsys, tmp_path):
    other, page = f"{SMALL},seed=2", tmp_path / "game.html"
    shown = ["--out", str(tmp_path), "--replay", str(page)]
    assert main(["--ckpt", SMALL, "--opponents", f"dumbbot,{other}", *QUICK, *shown]) == 0
    capsys.readouterr()
    records = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert [(record["one"], record["six"], record["games"]) for record in records] == [
        (SMALL, "dumbbot", 7),
        (SMALL, other, 7),
    ]
    assert all(f"{power} expects " in page.read_text() for power in POWERS)


def test_options_stay_with_name():
    assert split_names([f"random,{SMALL},seed=2,FRANCE={SMALL},seed=3,GERMANY=dumbbot"]) == [
        "random",
        f"{SMALL},seed=2",
        f"FRANCE={SMALL},seed=3",
        "GERMANY=dumbbot",
    ]
    searches = GAME.built_players[0]
    assert searches.keys == tuple(field.name for field in fields(SearchSettings))
    whole = "search:" + ",".join(f"{key}=1" for key in searches.keys)
    assert split_names([f"{whole},dumbbot"]) == [whole, "dumbbot"]
    assert pair_of(f"FRANCE={SMALL}") == ("FRANCE", SMALL)
    assert pair_of(SMALL) == ("", SMALL)
    assert find_player(SMALL, GAME) == find_player(SMALL) == SMALL
    with pytest.raises(InputError, match="no checkpoint"):
        find_player(SMALL, game_named("dogfight"))


def test_replay_shows_game_of_search(tmp_path, capsys):
    log = tmp_path / "game.txt"
    players = ["--players", f"FRANCE={SMALL},seed=1,dumbbot", "--last-year", "1901", "--log", str(log)]
    assert diplomacy_replay.main(players) == 0
    capsys.readouterr()
    assert f'[France "{SMALL},seed=1"]' in log.read_text()
    assert "FRANCE expects AUSTRIA: " in log.read_text()


def test_policy_proposes_candidates():
    policy = PolicyOrders(OrderNetwork(NetworkConfig(hidden=8, blocks=1), seed=1))
    batch = WatchedBatch(1, last_year=1902, threads=1)
    seats = torch.arange(7).unsqueeze(0) == POWERS.index("ITALY")
    SearchOrders(SearchSettings(positions=200, opponents="dumbbot"), policy).write(batch, seats)
    assert int((batch.orders > 0).sum()) == 3
    batch.close()
    player = open_player("search:positions=200,opponents=chaos")
    assert isinstance(player, SearchOrders)
    assert player.settings.opponents == "chaos"


def test_search_plays_in_browser_and_environment():
    lineup = new_lineup("FRANCE", (("ITALY", SMALL), ("", "dumbbot")), 0)
    assert lineup.names[POWERS.index("ITALY")] == SMALL
    opponents = load_opponents(lineup.players, temperature=None, settings={}, device="cpu")
    batch, waiting = WatchedBatch(1, last_year=1902, threads=1), []
    opponents.order(batch, 0, waiting.append)
    assert waiting == [f"{SMALL} orders for ITALY"]
    assert int((batch.orders > 0).sum()) == 22 - 3  # all units but those of the person
    batch.close()
    env = parallel_env(last_year=1901, opponents={"ITALY": SMALL})
    env.reset(seed=1)
    assert "ITALY" not in env.agents
    env.close()


def test_run_trains_against_search(tmp_path):
    small = ["+run=diplomacy_ppo", "env.num_envs=7", "env.last_year=1901", "ppo.rollout_steps=2", "network.hidden=8"]
    small += ["ppo.minibatch_size=14", "network.blocks=1", "device=cpu", "threads=1", "logger.progress=false"]
    small += ["evaluation.every=0", f"checkpoint_dir={tmp_path}", "name=trained", "max_updates=1"]
    train(load([*small, f"against='{SMALL},seed=1'"]))
    rows = (tmp_path / "trained" / "metrics.jsonl").read_text()
    assert "rollout/search/centres" in rows or "rollout/search/win_rate" in rows
