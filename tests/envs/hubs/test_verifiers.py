"""The verifiers package with the hub's loader and command; replies come from a stub or a server."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import open_match
from tests.envs.hubs.chat_server import chat_server

OPTIONS = {"last_year": 1901, "reward": "centres"}
PACKAGE = Path(__file__).resolve().parents[3] / "envs" / "hubs" / "verifiers"


class Agent:
    """Reply to every prompt with one text, and record prompts and results."""

    def __init__(self, reply, finish_reason="stop"):
        self.reply, self.asked, self.traces = reply, [], []
        self.calls = [SimpleNamespace(error=None, finish_reason=finish_reason)]

    @asynccontextmanager
    async def interaction(self, task):
        assert task.data.prompt is None  # all prompts are turns
        self.traces.append(SimpleNamespace(rewards={}, metrics={}, calls=self.calls))
        trace = self.traces[-1]
        trace.record_reward = lambda name, value, weight: trace.rewards.update({name: value})
        trace.record_metric = lambda name, value: trace.metrics.update({name: value})
        yield SimpleNamespace(turn=self.turn, trace=trace)

    async def turn(self, prompt):
        self.asked.append(prompt)
        return SimpleNamespace(terminated=self.reply is None, last_reply=self.reply)

    async def run(self, task):
        async with self.interaction(task.with_data(prompt=None)) as opened:
            await self.turn(task.data.prompt)
        opened.trace.ok, opened.trace.last_reply = True, self.reply
        return opened.trace


@pytest.fixture
def loaded(monkeypatch):
    pytest.importorskip("verifiers.v1")
    monkeypatch.syspath_prepend(str(PACKAGE))
    from verifiers.v1.utils.loaders import environment_class, load_taskset, taskset_config_type

    def load(**options):
        config = taskset_config_type("sparring-games")(id="sparring-games", **options)
        return environment_class("sparring-games", ""), load_taskset(config)

    return load


def run(loaded, agents, **options):
    env, taskset = loaded(**options)
    task = list(taskset)[-1]
    asyncio.run(env.run(object.__new__(env), task, SimpleNamespace(**agents)))
    return task


def test_match_equals_core_match(loaded):
    player = Agent("A PAR - MOS\n</orders>")
    task = run(loaded, {"player": player}, options=OPTIONS, first_seed=3, matches=2)
    assert (task.data.seed, task.data.idx) == (4, 1)
    match = open_match("diplomacy", **OPTIONS)
    turns = [match.start(4)]
    while not turns[-1].done:
        turns.append(match.answer(player.reply))
    match.close()
    assert player.asked == [turn.prompt for turn in turns[:-1]]
    (trace,) = player.traces
    assert trace.rewards == {"match_reward": sum(turn.reward for turn in turns)}
    answers = {name: count for name, count in trace.metrics.items() if name.endswith("_answers")}
    assert sum(answers.values()) == len(turns) - 1
    assert answers["illegal_answers"] == sum(turn.answer == "illegal" for turn in turns) > 0
    assert (trace.metrics["finished"], trace.metrics["year"]) == (1.0, 1901.0)


def test_every_seat_has_own_conversation_and_reward(loaded):
    """Player 0 always bets and player 1 always folds: player 0 wins a chip with any cards."""
    agents = {"seat_0": Agent("Bet"), "seat_1": Agent("Pass")}
    run(loaded, agents, game="openspiel_text", options={"seat": "all"}, matches=1)
    assert [len(agent.asked) for agent in agents.values()] == [1, 1]
    assert [agent.traces[0].rewards for agent in agents.values()] == [{"match_reward": 1.0}, {"match_reward": -1.0}]
    assert all(agent.traces[0].metrics["read_answers"] == 1 for agent in agents.values())


def test_reply_at_token_limit_is_truncated(loaded):
    player = Agent("Bet", finish_reason="length")
    run(loaded, {"player": player}, game="openspiel_text", options={"seat": 0}, matches=1)
    assert player.traces[0].metrics["truncated_answers"] >= 1
    assert player.traces[0].metrics["read_answers"] == 0


def test_exploitability_is_metric_of_every_trace(loaded):
    """Always bet: a best response folds a Jack, calls with a King, and bets or calls with a Queen for nothing more.

    In seat 0 it meets a bet after its pass or its own bet is called; in seat 1 it meets a bet. With a King it wins 2,
    with a Jack it loses 1, and with a Queen a call wins 2 or loses 2: (2 - 1 + 0) / 3 = 1 / 3 from either seat.
    """
    agents = {"seat_0": Agent("Bet"), "seat_1": Agent("Bet")}
    options = {"id": "kuhn_poker", "samples": 2}
    run(loaded, agents, game="openspiel_exploitability", options=options, matches=1)
    for agent in agents.values():
        assert len(agent.traces) == 6 * 2
        assert len(set(agent.asked)) == 6
        for trace in agent.traces:
            assert trace.metrics["exploitability"] == pytest.approx(1 / 3)
            assert trace.rewards == {"match_reward": pytest.approx(-1 / 3)}
            assert (trace.metrics["exploitability_low"], trace.metrics["samples"]) == (pytest.approx(1 / 3), 2.0)


def test_unfinished_exchange_pays_random_play_value(loaded):
    """In seat 1 of Kuhn poker each of 24 matches is won or lost, never drawn."""
    player = Agent(None)
    for seed in range(24):
        options = {"game": "openspiel_text", "options": {"seat": 1}, "matches": 1, "first_seed": seed}
        run(loaded, {"player": player}, **options)
    rewards = [trace.rewards["match_reward"] for trace in player.traces]
    assert {abs(reward) for reward in rewards} == {1.0, 2.0}
    assert min(rewards) < 0 < max(rewards)
    assert {trace.metrics["finished"] for trace in player.traces} == {0.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"game": "go"}, "unknown game 'go': choose from diplomacy"),
        ({"game": "openspiel_text", "options": {"id": "tarok"}}, "id=tarok: draws chance in the middle of a turn"),
        ({"game": "openspiel_exploitability", "options": {"id": "chess"}}, "chess: has too many positions"),
    ],
)
def test_bad_options_give_one_line_error(loaded, options, message):
    _, taskset = loaded(**options)
    with pytest.raises(InputError, match=message) as error:
        list(taskset)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["openspiel_text", "openspiel_exploitability"])
def test_hub_command_evaluates_server(tmp_path, game):
    """`vf-eval` uses its own harness, a program prepared by uv."""
    pytest.importorskip("verifiers.v1")
    command = Path(sys.executable).with_name("vf-eval")
    if not (command.exists() and (shutil.which("uv") or command.with_name("uv").exists())):
        pytest.skip("needs vf-eval and uv beside this Python")
    options = {"seat": "all"} if game == "openspiel_text" else {"samples": 2}
    with chat_server(lambda text: "I think.\nBet") as (url, requests):
        words = [command, "sparring-games", "--env.taskset.matches", "1", "--env.taskset.game", game]
        words += ["--env.taskset.options", json.dumps(options), "--env.max-concurrent-agents", "4", "--model", "fake"]
        words += ["--client.base-url", url, "--client.api-key-var", "LOOPBACK_KEY", "--no-push", "--no-rich"]
        path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
        python = os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "LOOPBACK_KEY": "x", "PATH": path, "PYTHONPATH": python}
        subprocess.run([*map(str, words), "-o", str(tmp_path)], env=env, check=True, capture_output=True, timeout=900)
    (file,) = tmp_path.glob("*/traces.jsonl")
    (episode,) = map(json.loads, file.read_text().splitlines())
    assert episode["ok"]
    traces = episode["traces"]
    assert {trace["agent"]["name"] for trace in traces} == {"seat_0", "seat_1"}
    if game == "openspiel_text":
        assert sum(trace["rewards"]["match_reward"]["score"] for trace in traces) == 0.0
        assert len(requests) == 2
    else:
        assert len(requests) == len(traces) == 24
        assert {round(trace["metrics"]["exploitability"], 6) for trace in traces} == {round(1 / 3, 6)}
