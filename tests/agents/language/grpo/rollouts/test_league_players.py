"""League players that are not language models: policies order their own seats without requests."""

import json

import pytest
import torch

from sparring.agents.language.backend import BotBackend
from sparring.agents.language.grpo.matchmaking import seat_draws
from sparring.agents.language.grpo.rollouts.rollout import Rollouts
from sparring.agents.language.grpo.sources import check_sources
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.session import NetworkConfig
from sparring.curriculum.league.file import read_league, write_league
from sparring.curriculum.league.league import CHALLENGER, Agent, enter, new_league
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.rollouts.task import DiplomacyTextTask, Lineup
from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.text import GroupPlan, RolloutPlan
from tests.agents.language.grpo.rollouts.small_games import small_config

STUDENT, SEARCH = "released/diplomacy_student", "search:positions=500"
OWN, HERO, FORKS = (0, 2, 5), 3, 4
PLAYERS = tuple(CHALLENGER if power == HERO else STUDENT if power in OWN else "chaos" for power in range(7))


class Asked(BotBackend):
    """A bot in place of a language model that records the seats it is asked for."""

    def __init__(self):
        super().__init__("random", game="diplomacy")
        self.seats = set()

    def decide(self, prompts):
        self.seats |= {prompt.seat for prompt in prompts}
        return super().decide(prompts)


def test_league_policy_orders_its_seats_without_requests(monkeypatch):
    found, process = [], DiplomacyBatch.process

    def process_and_record(batch):
        found.append((batch.snapshot(), batch.orders.clone(), batch.num_games))
        process(batch)

    monkeypatch.setattr(DiplomacyBatch, "process", process_and_record)
    config = small_config(
        "grpo.groups=1", f"grpo.samples_per_group={FORKS}", "grpo.rollout_warmup_player=players",
        f"league.players=[{STUDENT}]",
    )  # fmt: skip
    group = GroupPlan(PLAYERS, (HERO,), (), (1000.0,) * 7, 3, 1, 11)
    asked = Asked()
    rollouts = Rollouts(DiplomacyTextTask(config), lambda name: asked)
    batch = rollouts.play(RolloutPlan(0, 0, FORKS, (group,)))
    rollouts.close()
    moves = [one for one in found if int(one[0]["phase"][0]) in (codes.SPRING, codes.FALL)]
    assert {games for _, _, games in moves} == {1, FORKS}
    student = open_player(STUDENT)
    for position, orders, games in moves:
        alone = DiplomacyBatch(games, last_year=1910, threads=1)
        alone.load(position)
        seats = torch.tensor([[power in OWN for power in range(7)]]).expand(games, -1)
        student.write(alone, seats & (alone.done == 0).unsqueeze(1))
        mine = torch.isin(power_of(position["units"]), torch.tensor(OWN)) & (position["done"] == 0).unsqueeze(1)
        assert mine.any()
        assert torch.equal(alone.orders[mine], orders[mine])
        alone.close()
    assert asked.seats == {HERO}
    assert {ending.players for ending in batch.endings} == {PLAYERS}


def test_all_phase_policy_replaces_bot_orders():
    """Until both games end, play equals a game without the bot."""
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1, all_phases=True), seed=2).eval()
    with torch.no_grad():
        network.actor.ask.weight.mul_(300.0)
    player, phases = PolicyOrders(network), set()
    batch, alone = (DiplomacyBatch(7, threads=1, last_year=1905) for _ in range(2))
    seats = torch.eye(7, dtype=torch.bool)
    lineup = Lineup(batch, [["own" if own else "chaos" for own in game] for game in seats.tolist()], {"own": player})
    alone.players.copy_(torch.where(seats, codes.ACTIONS, codes.BOTS.index("chaos")))
    for phase in range(25):
        phases.add(int(batch.phase[0]))
        alone.draw_orders(phase)
        player.write(alone, seats & (alone.done == 0).unsqueeze(1))
        lineup.order(phase)
        assert torch.equal(batch.orders, alone.orders)
        for one in (batch, alone):
            one.process()
    assert bool(batch.done.all())
    assert phases >= {codes.SPRING, codes.FALL, codes.WINTER}
    for one in (batch, alone):
        one.close()


def test_league_players_take_bot_share_of_baseline():
    config = small_config("league.cold_start_steps=0", f'league.players=[{STUDENT},"{SEARCH}"]').league
    league = new_league(("random", "chaos", "territorial", "dumbbot"), "toy", players=config.players)
    draws = seat_draws(league, config, step=0, steps=10)
    share = {draw.name: draw.weight for draw in draws if draw.category == "baseline"}
    assert share == pytest.approx({STUDENT: config.baseline / 2, SEARCH: config.baseline / 2})


def test_league_round_trips_players_and_reserves_their_names():
    league = new_league(("chaos",), players=(STUDENT, SEARCH))
    assert read_league(json.loads(json.dumps(write_league(league)))) == league
    for name in (SEARCH, "../outside"):
        crafted = enter(new_league(("chaos",)), Agent(name, "checkpoint", "step.pt"))
        with pytest.raises(InputError, match=r"agents\.\d\.name"):
            read_league(json.loads(json.dumps(write_league(crafted))))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("dumbbot", r"league\.players=\[dumbbot\]: is a bot"),
        (f"{STUDENT},{STUDENT}", "has a name twice"),
        ("search:positions=0", "positions"),
        ("nobody", "nobody"),
    ],
)
def test_unplayable_opponent_is_rejected_before_folder_creation(named, message):
    with pytest.raises((ConfigError, InputError), match=message):
        check_sources(small_config(f'league.players=["{named}"]'.replace(",", '","')))
