"""Agents of sb3-contrib trained as in its tutorials: their board and their choices."""

from importlib import import_module

import numpy as np
import pytest

pyspiel = pytest.importorskip("pyspiel")
pytest.importorskip("pettingzoo.classic.connect_four_v3")
pytest.importorskip("stable_baselines3")

from benchmarks.exploited_agents import sb3_tutorials as tutorials  # noqa: E402
from sparring.eval.exploit import exploit_policy  # noqa: E402


def games(count):
    """Return positions of random games, in PettingZoo and in OpenSpiel."""
    draws, env = np.random.default_rng(0), import_module(tutorials.CONNECT_FOUR).env()
    for _ in range(count):
        env.reset(seed=0)
        state = pyspiel.load_game("connect_four").new_initial_state()
        while not state.is_terminal():
            yield env.observe(env.agent_selection), state
            action = int(draws.choice(state.legal_actions()))
            env.step(action)
            state.apply_action(action)
        assert [env.unwrapped.rewards[agent] for agent in env.possible_agents] == state.returns()


def test_openspiel_board_matches_pettingzoo():
    for seen, state in games(20):
        assert (tutorials.board_of(state, state.current_player()) == seen["observation"]).all()
        assert [*np.flatnonzero(seen["action_mask"])] == state.legal_actions()


def test_winning_move_is_rewarded_and_ends_match():
    game = tutorials.TutorialGame(import_module(tutorials.CONNECT_FOUR).env())
    game.reset(seed=0)
    steps = [game.step(column)[1:3] for column in (0, 1, 0, 1, 0, 1, 0)]
    assert steps == [(0, False)] * 6 + [(1, True)]


def test_agents_train_and_act_as_their_predict(monkeypatch, tmp_path):
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed; the dev extra has it")
    files = [tmp_path / name for name in ("board.zip", "maskable.zip", "recurrent.zip")]
    for name, file in zip(("BOARD", "MASKABLE", "RECURRENT"), files, strict=True):
        monkeypatch.setattr(tutorials, name, file)
    monkeypatch.setattr(tutorials, "STEPS", 64)
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    assert tutorials.main() == 0
    agent, model, likeliest = tutorials.ConnectFourMaskable(), contrib.MaskablePPO.load(files[0], device="cpu"), []
    for seen, state in games(5):
        chances = agent.action_probabilities(state, state.current_player())
        action = model.predict(seen["observation"], action_masks=seen["action_mask"], deterministic=True)[0]
        likeliest.append(max(chances, key=chances.__getitem__) == action)
    assert len(likeliest) > 50
    assert all(likeliest)
    for file in files[1:]:
        report = exploit_policy(str(file), env="openspiel", id="leduc_poker", moves=2000, out=tmp_path / file.stem)
        assert 0 < report.gain < report.exact + 0.5
