"""Opponents in OpenSpiel text games: PPO policies, OpenSpiel players, random players and snapshots."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
import torch

pytest.importorskip("pyspiel")
pytest.importorskip("transformers")

import pyspiel

from sparring.agents.language.grpo.sources import check_sources
from sparring.agents.language.models.adapters import load_adapter
from sparring.agents.run.states import StateFolder
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.curriculum.league.file import LeagueFile
from sparring.envs.imported.evaluation.players.state_players import open_player
from sparring.envs.openspiel_text.task import OpenSpielTask
from tests.envs.imported.evaluation.saved import save_run
from tests.envs.openspiel_text.test_task import RUN, named, named_last, plan_of, play, task_of

LEAGUE = (*RUN, "grpo.play=league")
SMALL = ("grpo.groups=4", "grpo.samples_per_group=4", "model.lora_rank=2", "evaluation.every=0", "checkpoint_every=1")


def shares_of_bets(task, name, games):
    """Return seat 0's share of bets, played by `name`, by card; seat 1 is the learner."""
    bets, dealt = Counter(), Counter()
    plan = plan_of(*range(games), samples=1, players=(name, "challenger"), heroes=(1,))
    for prompts in play(task, plan, named("Pass")):
        for prompt in prompts:
            history = prompt.position.history()
            dealt[history[0]] += 1
            bets[history[0]] += history[2]
    return {card: bets[card] / dealt[card] for card in dealt}


def test_ppo_policy_samples_in_its_seat(tmp_path):
    path = str(save_run(tmp_path / "kuhn", "openspiel", "kuhn_poker"))
    task = task_of("grpo.play=league", f"league.players=[{path}]")
    game = pyspiel.load_game("kuhn_poker")
    states = [game.new_initial_state().child(card).child((card + 1) % 3) for card in range(3)]
    expected = {card: dict(choices)[1] for card, choices in enumerate(open_player(path, game)(states))}
    assert shares_of_bets(task, path, 900) == pytest.approx(expected, abs=0.1)
    assert shares_of_bets(task, "random", 900) == pytest.approx(dict.fromkeys(range(3), 0.5), abs=0.1)


def test_other_players_move_unprompted_and_all_seats_are_paid():
    cautious = "openspiel:cfr:10"
    task = task_of("env.id=leduc_poker", "grpo.play=league", f'league.players=["{cautious}"]')
    plan = plan_of(*range(20), players=("challenger", cautious), heroes=(0,))
    prompts = [prompt for step in play(task, plan, named_last) for prompt in step]
    assert {prompt.seat for prompt in prompts} == {0}
    assert all(prompt.facts for prompt in prompts)
    assert len(task.endings()) == 40
    assert np.abs(task.rewards().sum(2)).max() == 0.0
    again = task_of("env.id=leduc_poker", "grpo.play=league", f'league.players=["{cautious}"]')
    assert [p.text for step in play(again, plan, named_last) for p in step] == [p.text for p in prompts]


def test_simultaneous_players_choose_for_their_seat():
    options = ("env.id=goofspiel", "env.kwargs={num_cards: 3, imp_info: true}", "grpo.play=league")
    task = task_of(*options, "league.players=[openspiel:uniform]")
    plan = plan_of(1, 2, players=("openspiel:uniform", "challenger"), heroes=(1,))
    assert {prompt.seat for step in play(task, plan, named_last) for prompt in step} == {1}
    assert len(task.endings()) == 4


@pytest.mark.parametrize(
    ("named_players", "message"),
    [
        ("random", r"league\.players=\[random\]: is a bot, and the bots are in the league; leave it out"),
        ("bot:random", r"league\.players=\[bot:random\]: is a bot"),
        ("json:tool", r"league\.players=\[json:tool\]: is code, which a league cannot keep"),
        ("openspiel:uniform,openspiel:uniform", "has a name twice"),
        ("openspiel:cfr:0", "expected openspiel:cfr:N"),
        ("nobody", "nobody: expected openspiel:uniform"),
        ("released/dogfight_quickstart", "dogfight"),
    ],
)
def test_unplayable_opponent_is_rejected_before_folder_creation(named_players, message):
    players = ",".join(f'"{name}"' for name in named_players.split(","))
    with pytest.raises((ConfigError, InputError), match=message) as refused:
        check_sources(load([*LEAGUE, f"league.players=[{players}]"]))
    assert "\n" not in str(refused.value)


def test_code_in_stored_configuration_is_not_run():
    config = load([*LEAGUE, "league.players=[this:Player]"])
    with pytest.raises(ConfigError, match="is code"):
        OpenSpielTask(config)
    assert "this" not in sys.modules


@pytest.mark.parametrize(("players", "drawn"), [(2, {1}), (3, {2})], ids=["of two players", "of three players"])
def test_run_opponents_fill_other_seats(tmp_path, players, drawn, monkeypatch):
    plans, reset = [], OpenSpielTask.reset

    def reset_and_note(task, plan, decide):
        plans.append(plan)
        reset(task, plan, decide)

    monkeypatch.setattr(OpenSpielTask, "reset", reset_and_note)
    options = ["league.cold_start_steps=0", "league.checkpoint_every=1", "league.self_play=0", "league.peer=0.5"]
    options += ["league.exploitable=0", "league.baseline=0.5", 'league.players=["openspiel:uniform"]']
    places = [f"checkpoint_dir={tmp_path}", "name=kuhn", f"env.kwargs.players={players}", "grpo.steps=3"]
    final = train(load([*LEAGUE, *SMALL, *options, *places]))
    groups = [group for plan in plans for group in plan.groups]
    assert {len(group.players) - 1 for group in groups} == drawn
    assert {len(group.heroes) for group in groups} == {1}
    assert {group.heroes[0] for group in groups} == set(range(players))
    met = {name for group in groups for name in group.players} - {"challenger"}
    assert "openspiel:uniform" in met
    assert any(name.startswith("checkpoint_") for name in met)
    league = LeagueFile(final.parent).read()
    assert league["openspiel:uniform"].games > 0


def test_cold_start_plays_random_players(tmp_path):
    places = [f"checkpoint_dir={tmp_path}", "name=cold", "grpo.steps=1"]
    final = train(load([*LEAGUE, *SMALL, *places]))
    assert LeagueFile(final.parent).read()["random"].games == 16


def test_run_with_seat_baseline_resumes_bit_for_bit(tmp_path):
    options = [*RUN, *SMALL, "grpo.baseline=role", "grpo.steps=2"]
    options.append("grpo.use_state_stratified_groups=false")
    whole, cut = ([*options, f"checkpoint_dir={tmp_path}", f"name={name}"] for name in ("whole", "cut"))
    train(load([*cut, "max_updates=1"]))
    whole, cut = train(load(whole)), train(load(cut))
    weights = [load_adapter(final).weights for final in (whole, cut)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    states = [StateFolder(final.parent / "state", 3, alert=pytest.fail).latest().content for final in (whole, cut)]
    baselines = [state["learner"]["role_baseline"].tolist() for state in states]
    assert baselines[0] == baselines[1]
    rows = [json.loads(line) for line in (whole.parent / "metrics.jsonl").read_text().splitlines()]
    first, second = ([row[f"game/return_{seat}"] for row in rows if "game/moves" in row] for seat in (0, 1))
    for returns, baseline, seat in ((first, baselines[0][0], 0), (second, baselines[0][1], 1)):
        by_hand = 0.95 * (0.05 * returns[0]) + 0.05 * returns[1]
        assert baseline == pytest.approx(by_hand, abs=1e-12)
        assert rows[-1][f"advantage/baseline_{seat}"] == pytest.approx(by_hand, abs=1e-6)
