"""The verifiers package, loaded by the hub's own loader; replies come from a stand-in for its model loop."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import open_match

OPTIONS = {"last_year": 1901, "reward": "centres"}


class Model:
    """Replies to every prompt with one text, and keeps the prompts and what is recorded."""

    def __init__(self, reply):
        self.reply, self.asked, self.rewards, self.metrics = reply, [], {}, {}
        self.player, self.trace = self, self

    @asynccontextmanager
    async def interaction(self, task):
        self.asked.append(task.data.prompt)
        yield self

    async def turn(self, prompt=None):
        self.asked += [prompt] if prompt else []
        return SimpleNamespace(terminated=False, last_reply=self.reply)

    def record_reward(self, name, value, weight):
        self.rewards[name] = value

    def record_metric(self, name, value):
        self.metrics[name] = value


@pytest.fixture
def loaded(monkeypatch):
    pytest.importorskip("verifiers.v1")
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "envs" / "hubs" / "verifiers"))
    from verifiers.v1.utils.loaders import environment_class, load_taskset, taskset_config_type

    def load(**options):
        config = taskset_config_type("sparring-games")(id="sparring-games", **options)
        return environment_class("sparring-games", ""), load_taskset(config)

    return load


def test_a_match_is_that_of_the_core(loaded):
    env, taskset = loaded(options=OPTIONS, first_seed=3, matches=2)
    tasks = list(taskset)
    assert [(task.data.seed, task.data.idx) for task in tasks] == [(3, 0), (4, 1)]
    model = Model("A PAR - MOS\n</orders>")
    asyncio.run(env.run(SimpleNamespace(), tasks[1], model))
    match = open_match("diplomacy", **OPTIONS)
    turns = [match.start(4)]
    while not turns[-1].done:
        turns.append(match.answer(model.reply))
    match.close()
    assert model.asked == [turn.prompt for turn in turns[:-1]]
    assert model.rewards == {"match_reward": sum(turn.reward for turn in turns)}
    assert sum(model.metrics.values()) == len(turns) - 1
    assert model.metrics["illegal_answers"] == sum(turn.answer == "illegal" for turn in turns) > 0


def test_an_unknown_game_is_one_line(loaded):
    _, taskset = loaded(game="go")
    with pytest.raises(InputError, match="unknown game 'go': choose from diplomacy"):
        list(taskset)
