"""Text games of a plan: seats, seeds, rewards, fallbacks, and a whole GRPO run."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspiel")
pytest.importorskip("transformers")

from sparring.agents.language.backend import CUT, Decision
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.envs.openspiel_text.task import OpenSpielTask
from sparring.envs.text import GroupPlan, RolloutPlan
from sparring.eval.run import main

RUN = ("+run=openspiel_text_grpo", "device=cpu", "threads=1", "logger.progress=false")


def task_of(*options):
    return OpenSpielTask(load([*RUN, *options]))


def plan_of(*seeds, samples=2, players=("challenger", "challenger"), heroes=(0, 1)):
    groups = tuple(GroupPlan(players, heroes, (), (1000.0,) * len(players), 0, 1, seed) for seed in seeds)
    return RolloutPlan(0, 0, samples, groups)


def play(task, plan, choose):
    """Play a plan with `choose(prompt)`, which returns a decision; return all prompts by step."""
    task.reset(plan, None)
    steps = []
    while not task.over:
        prompts = task.prompts()
        task.apply([(prompt, choose(prompt)) for prompt in prompts])
        steps.append(prompts)
    return steps


def named(name):
    def choose(prompt):
        return Decision((next(option for option in prompt.menu.options if option.text == name),))

    return choose


def test_seats_of_several_games_decide_together_and_get_returns():
    task = task_of()
    steps = play(task, plan_of(5, 6, 7), named("Bet"))
    assert [[prompt.seat for prompt in prompts] for prompts in steps] == [[0] * 6, [1] * 6]
    assert [prompt.game for prompt in steps[0]] == [*range(6)]
    paid = task.rewards()
    assert paid.shape == (2, 6, 2)
    assert np.array_equal(np.abs(paid), np.full((2, 6, 2), 2.0))  # both put in two chips
    assert np.array_equal(paid.sum(2), np.zeros((2, 6)))
    assert [ending.finals for ending in task.endings()] == [tuple(row) for row in paid[0]]
    assert task.metrics() == {
        "answers/illegal": 0.0, "answers/cut": 0.0, "answers/missing": 0.0, "game/moves": 2.0,
        "game/return_0": paid[0, :, 0].mean(), "game/return_1": paid[0, :, 1].mean(),
    }  # fmt: skip


def test_group_shares_cards_and_groups_differ():
    task = task_of()
    texts = [prompt.text for prompt in play(task, plan_of(*range(30), samples=2), named("Bet"))[0]]
    assert texts[::2] == texts[1::2]
    assert len(set(texts)) == 3
    later = task_of("env.id=leduc_poker")
    steps = play(later, plan_of(3, samples=4), named("Call"))
    assert {prompt.text for prompt in steps[2]} == {steps[2][0].text}  # the public card as well
    assert "Public card: none yet" not in steps[2][0].text


def test_equal_seeds_give_equal_prompts_with_own_seeds():
    first, second = (play(task_of("env.id=liars_dice"), plan_of(1, 2), named_last) for _ in range(2))
    assert [(p.text, p.seed) for prompts in first for p in prompts] == [
        (p.text, p.seed) for prompts in second for p in prompts
    ]
    seeds = [prompt.seed for prompts in first for prompt in prompts]
    assert len(set(seeds)) == len(seeds)


def named_last(prompt):
    return Decision((prompt.menu.options[-1],))


@pytest.mark.parametrize(("game", "first"), [("kuhn_poker", "Pass"), ("leduc_poker", "Call")])
def test_state_groups_have_equal_prompts(game, first):
    """Three cards at each decision: Leduc poker has six, but prompts show no suits."""
    steps = play(task_of(f"env.id={game}"), plan_of(*range(60)), named(first))[:2]
    prompts = [prompt for step in steps for prompt in step]
    groups = {(prompt.facts.stratum, prompt.facts.seat) for prompt in prompts}
    assert len({prompt.text for prompt in prompts}) == len(groups) == 6


def test_random_players_move_unprompted_and_only_heroes_learn():
    task = task_of("env.id=tic_tac_toe")
    steps = play(task, plan_of(1, 2, players=("random", "challenger"), heroes=(1,)), named_last)
    prompts = [prompt for prompts in steps for prompt in prompts]
    assert {prompt.seat for prompt in prompts} == {1}
    assert all(prompt.facts for prompt in prompts)
    idle = play(task_of(), plan_of(1, heroes=(1,)), named("Bet"))
    assert [prompt.facts is None for prompt in idle[0]] == [True, True]


def test_illegal_answers_are_counted_and_replaced_randomly():
    task = task_of("env.answer.form=reasoning", "env.answer.max_tokens=5")
    says = {0: ("Bet", "stop"), 1: ("Fold", "stop"), 2: ("Bet", CUT), 3: ("", "stop")}

    def choose(prompt):
        text, reason = says[prompt.game % 4] if prompt.seat == 0 else ("I pass.\nPass", "stop")
        return Decision((), free_text=text, finish_reason=reason)

    steps = play(task, plan_of(*range(40), samples=4), choose)
    asked = Counter(prompt.seat for prompts in steps for prompt in prompts)
    third = steps[1]
    bets = Counter(("Moves so far: Bet" in prompt.text, prompt.game % 4) for prompt in third)
    assert bets[True, 0] == 40
    for kind in (1, 2, 3):
        assert 8 < bets[True, kind] < 32
    metrics, share = task.metrics(), 40 / asked.total()
    assert metrics["answers/illegal"] == metrics["answers/cut"] == metrics["answers/missing"] == pytest.approx(share)


def test_failed_games_are_dropped():
    task = task_of()
    task.reset(plan_of(1, 2), None)
    task.fail({0}, "no answer")
    assert [prompt.game for prompt in task.prompts()] == [1, 2, 3]
    task.fail({1, 2, 3}, "no answer")
    assert task.over
    assert task.endings() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["env.id=kuhn_pokr"], "env.id=kuhn_pokr: is not a game of OpenSpiel; did you mean 'kuhn_poker'?"),
        (["env.id=tarok"], "env.id=tarok: draws chance in the middle of a turn"),
    ],
)
def test_run_in_other_game_is_rejected_before_start(options, message):
    with pytest.raises(ConfigError) as refused:
        load([*RUN, *options]).check_game()
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["trainer=ppo"], "trainer=ppo: does not train env.package=openspiel_text; choose grpo"),
        (["grpo.play=league", "league.bots=original"], "league.bots=original: is an option of sparring/Diplomacy-v0"),
        (["env.last_year=1905"], "env.last_year"),
        (["model.compact=false"], "model.compact"),
        (["env.id=a b"], "env.id"),
    ],
)
def test_incompatible_options_are_rejected(options, message):
    with pytest.raises(ConfigError) as refused:
        load([*RUN, *options])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_grpo_steps_measure_exploitability_before_and_after(tmp_path):
    from sparring.agents.trainers import train

    sizes = ("grpo.steps=2", "grpo.groups=4", "grpo.samples_per_group=4", "model.lora_rank=2", "evaluation.every=1")
    config = load([*RUN, *sizes, "env.id=kuhn_poker", f"checkpoint_dir={tmp_path}", "name=kuhn"])
    final = train(config)
    rows = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "event" not in row]
    assert len(rows) == 2
    learner, base = (
        [row[f"eval/exact/{name}/exploitability"] for row in rows] for name in ("challenger", "base_model")
    )
    assert base[0] == base[1]
    assert learner[0] != base[0]
    assert all(row["eval/exact/uniform/exploitability"] == pytest.approx(0.458333, abs=1e-6) for row in rows)
    assert all(row["eval/exact/uniform/nash_conv"] == pytest.approx(0.916667, abs=1e-6) for row in rows)
    assert all(row["answers/illegal"] == 0.0 for row in rows)
    page = (Path(__file__).resolve().parents[3] / "docs" / "openspiel_text.md").read_text()
    own = {key for key in rows[-1] if key.startswith(("answers/", "game/return", "game/moves", "eval/exact/"))}
    assert {key for key in own if f"`{key}`" not in page} == set()
    assert main(["--ckpt", str(final), "--exact", "--device", "cpu", "--threads", "1"]) == 0  # in the run's game
    measured = json.loads((final.parent / "eval.json").read_text())
    assert (measured["game"], measured["temperature"]) == ("kuhn_poker", 1.0)
    assert measured["exploitability"] == pytest.approx(learner[-1], abs=1e-6)
