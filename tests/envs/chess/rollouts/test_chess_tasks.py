"""Chess tasks for language models: prompts, rewards, schedule, evaluation, imitation and dry run."""

from functools import cache

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.configs.validate import validate
from sparring.envs.chess.analysis import write_analysis
from sparring.envs.chess.arbiter import score_transition
from sparring.envs.chess.config import ChessTasksConfig
from sparring.envs.chess.data.positions import SPLITS
from sparring.envs.chess.data.samples import arbiter_sample, label
from sparring.envs.chess.engines.engine import Engine
from sparring.envs.chess.rollouts.demonstrations import PIECES
from sparring.envs.chess.rollouts.evaluation import arbiter_facts
from sparring.envs.chess.rollouts.sources import engine_of, phases, positions_of, task_of_group
from sparring.envs.chess.rollouts.task import CHESS, reward_of
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig
from sparring.envs.text import GroupPlan, RolloutPlan

DATA = ("env.data.train=8", "env.data.validation=2", "env.data.held_out=5", "env.engine.path=builtin")
HOSTILE = ("", " ", "+" * 50, "é" * 300 + "\x00\n", "N+" * 9, "M: E: B:", "a" * 1_000_000, "M: " + "e2e4 " * 4000)


class Said:
    """A free-text answer."""

    chosen = ()

    def __init__(self, text):
        self.text = text


class Parrot:
    """A model that answers every prompt with `answers(prompt)`."""

    def __init__(self, answers):
        self.answers = answers

    def decide(self, prompts):
        return [Said(self.answers(prompt.text)) for prompt in prompts]


def grpo(*options):
    return load(["+run=rookworld_overfit_r1", *DATA, "grpo.steps=10", "overfit.enabled=false", *options])


@cache
def overfit_env():
    """Return the game's options, composed once, because Hypothesis requests them for every example."""
    return grpo().env


def plan(step, groups, samples=2):
    made = [GroupPlan(("challenger",), (0,), (), (0.0,), 0, 1, 11 * number + step) for number in range(groups)]
    return RolloutPlan(step, 0, samples, tuple(made))


def rules(prompt):
    """Return the right answer to any prompt of these positions."""
    env = overfit_env()
    for record in (record for split in SPLITS for record in positions_of(env).positions[split]):
        sample = arbiter_sample(record)
        if sample.prompt == prompt:
            return sample.answer
        if prompt.startswith("P: ") and record.fen in prompt:
            return write_analysis(label([record], engine_of(env), seed=1)[0])
    raise AssertionError(prompt)


def played(config, answers, *, step=0, groups=4):
    task = CHESS.task(config)
    task.reset(plan(step, groups), None)
    prompts = task.prompts()
    task.apply([(prompt, Said(answers(prompt.text))) for prompt in prompts])
    assert task.over
    return task, prompts


def test_group_prompts_are_equal_and_groups_differ():
    config = grpo("tasks.mixed=true", "tasks.analysis_share=0.5")
    _task, prompts = played(config, rules)
    texts = [prompt.text for prompt in prompts]
    assert texts[::2] == texts[1::2]
    assert len({*texts}) == 4
    assert [text[0] for text in texts[::2]] == ["P", "P", "A", "A"]
    assert len({prompt.seed for prompt in prompts}) == 8
    assert [(p.menu.temperature, p.menu.top_p) for p in prompts[::4]] == [(0.5, 0.9), (0.95, 0.95)]
    again = CHESS.task(config)
    again.reset(plan(3, 4), None)
    assert {prompt.seed for prompt in again.prompts()}.isdisjoint({prompt.seed for prompt in prompts})


def test_reference_answers_are_rewarded_and_engine_is_named():
    task, _ = played(grpo("tasks.mixed=true", "tasks.analysis_share=0.5"), rules)
    paid = task.rewards()[0, :, 0]
    assert paid[4:] == pytest.approx(0.54)
    assert min(paid[:4]) > 0.5  # the engine's value after a move is not exactly that of its line
    assert task.metrics()["chess/engine_stand_in"] == 1.0
    assert task.metrics()["chess/arbiter_reward"] == pytest.approx(0.54)
    assert [ending.group for ending in task.endings()] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_get_floor_and_never_raise(text):
    task, _ = played(grpo("tasks.mixed=true", "tasks.analysis_share=0.5"), lambda prompt: text)
    paid = task.rewards()[0, :, 0]
    assert not task.failed
    assert max(paid[:4]) <= -0.3
    assert max(paid[4:]) <= -0.85


@given(st.text(max_size=200))
def test_any_text_has_reward_in_range(text):
    env = overfit_env()
    record = positions_of(env).positions["train"][0]
    for prompt in (arbiter_sample(record).prompt, f"P: {record.fen}"):
        assert -1 <= reward_of((prompt[0], prompt, text), engine_of(env)) <= 1
    assert 0 <= arbiter_facts(arbiter_sample(record).prompt, text)["arbiter_similarity"] <= 1


@pytest.mark.parametrize("placement", range(8))
def test_trap_25_reward_and_evaluation_agree(placement):
    """The right answer with one field changed, with extra spaces, or with a seventh field."""
    sample = arbiter_sample(positions_of(overfit_env()).positions["train"][placement])
    fen, *results = sample.answer.split("+")
    fields = fen.split()
    wrong = [[*fields[:place], "x", *fields[place + 1 :]] for place in range(6)]
    texts = [fen, "  ".join(fields), fen + " x", fen[:-2], *(" ".join(one) for one in wrong)]
    agreed = []
    for text in ("+".join([one, *results]) for one in texts):
        right = arbiter_facts(sample.prompt, text)["arbiter_exact"] == 1.0
        assert right == (score_transition(sample.prompt, text).position == 0.5)
        agreed.append(right)
    assert agreed == [True, True, True, *[False] * 7]


def test_failing_engine_fails_games_and_names_position(monkeypatch):
    def broken(self, board, count):
        raise InputError(f"position {board.fen()!r}: the engine failed twice")

    monkeypatch.setattr(Engine, "top_moves", broken)
    task, _ = played(grpo("tasks.mixed=true", "tasks.analysis_share=0.5"), rules)
    assert {*task.failed} == {0, 1, 2, 3}
    assert "position '" in task.failed[0]
    assert len(task.endings()) == 4


def test_analysis_steps_precede_arbiter_steps():
    tasks = ChessTasksConfig(analysis_share=0.3)
    assert [(phase.tasks, phase.steps) for phase in phases(tasks, 10)] == [("P", 3), ("A", 7)]
    asked = [task_of_group(tasks, step=step, steps=10, group=0, groups=4) for step in range(10)]
    assert "".join(asked) == "PPPAAAAAAA"
    assert [phase.tasks for phase in phases(ChessTasksConfig(analysis_share=1.0), 10)] == ["P"]
    assert [phase.steps for phase in phases(ChessTasksConfig(analysis_share=0.001), 10)] == [1, 9]


def test_held_out_evaluation_separates_informed_model():
    config = grpo("tasks.mixed=true", "tasks.analysis_share=0.5", "evaluation.games=5")
    models = {"knows": Parrot(rules), "silent": Parrot(lambda prompt: "")}
    table = CHESS.references(config, models, learner="knows", base="silent", threads=1)
    found = table.found
    assert table.columns["analysis_reward"] == f"reward of P ({engine_of(config.env).name})"
    assert "built-in search" in table.columns["analysis_reward"]
    whole = ("arbiter_exact", "arbiter_legal", "arbiter_similarity", "arbiter_reward_text", "analysis_best_equal")
    assert [found["knows"][name] for name in (*whole, "analysis_top_five")] == [1.0] * 6
    assert found["knows"]["arbiter_reward_error"] == 0.0
    assert [found["silent"][name] for name in whole] == [0.0] * 5
    assert found["silent"]["arbiter_invalid"] == found["silent"]["analysis_invalid"] == 1.0
    assert "arbiter_reward_error" not in found["silent"]


def test_demonstrations_resume_from_state():
    config = load(["+run=rookworld_sft", *DATA, "tasks.analysis_share=0.5"])
    games = CHESS.demonstrations(config, games=4, seed=5)
    games.next()
    state = games.state_dict()
    later = [one.text + one.answer for _ in range(4) for group in games.next() for one in group]
    other = CHESS.demonstrations(config, games=4, seed=5)
    other.load_state_dict(state)
    assert [one.text + one.answer for _ in range(4) for group in other.next() for one in group] == later
    assert [text[0] for text in later[:4]] == ["P", "P", "A", "A"]


def test_one_pass_shows_every_position_once():
    config = load(["+run=rookworld_sft", *DATA])
    games = CHESS.demonstrations(config, games=8, seed=5)
    assert {group[0].sample.record for group in games.next()} == {*positions_of(config.env).positions["train"]}


def test_tokenizer_pieces_are_lossless():
    import regex

    record = positions_of(overfit_env()).positions["held_out"][0]
    for text in (arbiter_sample(record).prompt, arbiter_sample(record).answer, f"P: {chess.STARTING_FEN}   "):
        assert "".join(regex.findall(PIECES, text)) == text


def test_dry_run_needs_no_engine(monkeypatch):
    monkeypatch.setattr("sparring.envs.chess.rollouts.sources.open_engine", lambda *a, **b: 1 / 0)
    lines = list(CHESS.preview(grpo("tasks.analysis_share=0.4", "tasks.mixed=false"), len))
    assert lines[0].startswith("train: 8 positions of ")
    assert "phase 1: P, 4 steps of 4 prompts x 4; P: temperature 0.5, top-p 0.9" in lines[3]
    assert lines[4].startswith("phase 2: A, 6 steps")
    assert "reward 0.5400 (0.5400 to 0.5400)" in lines[5]
    assert lines[6].startswith("P: no reference answers;")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["tasks.analysis_share=0.3", "overfit.enabled=true", "tasks.mixed=false"], "its task would change"),
        (["grpo.win_bonus=3"], "is an option of sparring/Diplomacy-v0, not of sparring/Chess-v0"),
        (["league.peer=0.3"], "is an option of sparring/Diplomacy-v0 and .*, not of sparring/Chess-v0"),
        (["trainer=ppo"], "is an option of grpo and clone with sparring/Chess-v0, not of trainer=ppo"),
    ],
)
def test_impossible_options_are_rejected_in_one_line(options, why):
    with pytest.raises(ConfigError, match=why):
        load(["+run=rookworld_overfit_r1", *options])


def test_ppo_rejects_chess():
    with pytest.raises(
        ConfigError, match=r"trainer=ppo: does not train env\.id=sparring/Chess-v0; choose grpo or clone"
    ):
        validate(DogfightRunConfig(env=DogfightEnvConfig(id="sparring/Chess-v0")))


def test_missing_model_is_named_with_fix():
    from sparring.agents.language.models.load import load_model

    with pytest.raises(InputError, match=r"model\.name=rookworld_base.*a run that cloned"):
        load_model(grpo().model)


def test_rewards_match_plan_as_float64():
    task, prompts = played(grpo(), rules, groups=2)
    assert task.rewards().dtype == np.float64
    assert task.rewards().shape == (1, len(prompts), 1)
