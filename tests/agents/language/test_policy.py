"""A language model plays whole games in the environment, and its actions are the orders it wrote."""

import numpy as np
import pytest

from sparring.agents.language.backend import Decision
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.policy import ModelSeat, ParallelEnvPlayer
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.toys import bytes_tokenizer, llama


@pytest.fixture(scope="module")
def backend():
    model = llama(bytes_tokenizer(), max_position_embeddings=4096)
    return TransformersBackend(
        model, bytes_tokenizer(), constraint=Constraint(bytes_tokenizer(), DIPLOMACY_TEXT), max_prompt_tokens=4000
    )


def finish(env, player):
    """Play a game to its end; return the decisions and their number per phase."""
    decisions, phases = [], set()
    env.reset(seed=1)
    while env.agents:
        seats = [ModelSeat(env, agent) for agent in env.agents]
        phases.add(int(env.row()["phase"]))
        moves = player.move(seats)
        decisions += [decision for _, decision in moves]
        env.step({seat.agent: action for seat, (action, _) in zip(seats, moves, strict=True)})
    return decisions, phases


def test_model_plays_game_to_end(backend):
    env = parallel_env(last_year=1902)
    decisions, phases = finish(env, ParallelEnvPlayer(backend))
    env.close()
    assert {0, 2} <= phases
    assert len(decisions) >= 7 * 4
    assert all(decision.exact for decision in decisions)


def test_equal_seed_repeats_game_and_other_differs(backend):
    env, games = parallel_env(last_year=1901), []
    for seed in (1, 1, 2):
        games.append([decision.text for decision in finish(env, ParallelEnvPlayer(backend, seed=seed))[0]])
    env.close()
    assert games[0] == games[1] != games[2]


def test_actions_are_written_orders(backend):
    env = parallel_env()
    _, infos = env.reset(seed=1)
    player = ParallelEnvPlayer(backend)
    for agent, (action, decision) in zip(
        env.agents, player.move([ModelSeat(env, agent) for agent in env.agents]), strict=True
    ):
        orders = [int(listed[at]) for listed, at in zip(infos[agent]["orders"], action, strict=False)]
        assert orders == [option.value for option in decision.chosen]
    env.close()


def test_seats_of_several_games_form_one_batch(backend):
    envs = [parallel_env(), parallel_env()]
    for env in envs:
        env.reset(seed=1)
    batches = backend.counts.batches
    moves = ParallelEnvPlayer(backend).move([ModelSeat(env, agent) for env in envs for agent in env.agents])
    assert backend.counts.batches == batches + 1
    assert len(moves) == 14
    assert len({decision.text for _, decision in moves[:1] + moves[7:8]}) == 2
    for env in envs:
        env.close()


def test_backend_answering_for_other_power_is_detected(backend):
    class Wrong:
        name, exact = "wrong", False

        def decide(self, requests):
            return [Decision(requests[0].menu.options and (requests[0].menu.options[0][0],)) for _ in requests]

    env = parallel_env()
    env.reset(seed=1)
    with pytest.raises(InputError, match="ENGLAND"):
        ParallelEnvPlayer(Wrong()).act(env, ["AUSTRIA", "ENGLAND"])
    env.close()


def test_environment_choices_match_action_space():
    """In every phase: as many options as listed orders, and none for an eliminated power."""
    env = parallel_env(last_year=1903)
    _, infos = env.reset(seed=1)
    rng = np.random.default_rng(1)
    while env.agents:
        winter = int(env.row()["phase"]) == 4
        for agent in env.agents:
            listed = [len(orders) - winter for orders in infos[agent]["orders"]]
            asked = env.choices(agent)
            if asked.lines or not winter:
                assert [len(options) for options in asked.options] == listed
        actions = {}
        for agent in env.agents:
            sizes = [len(orders) for orders in infos[agent]["orders"]]
            actions[agent] = np.array([*(rng.integers(size) for size in sizes), *[0] * (17 - len(sizes))])
        *_, infos = env.step(actions)
    assert env.choices("FRANCE").lines == 0
    env.close()
