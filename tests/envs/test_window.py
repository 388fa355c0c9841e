"""The window of `render_mode="human"`, on SDL's dummy video driver (`tests/conftest.py`)."""

import sys
from contextlib import closing

import gymnasium as gym
import numpy as np
import pygame
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils.env_checker import check_env

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.drawing.render import draw_position
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env as diplomacy
from sparring.envs.dogfight.animation import human_fps
from sparring.envs.dogfight.interfaces.parallel_env import parallel_env as dogfight
from sparring.envs.dogfight.render import SEAT_COLORS

ID = "sparring/Dogfight-v1"
STRAIGHT = np.array([0, 0.5, -1], dtype=np.float32)


@pytest.fixture
def paces(monkeypatch):
    """Record the frame rates that windows request, without waiting."""
    asked = []

    class HurriedClock:
        def tick(self, fps):
            asked.append(fps)

    monkeypatch.setattr(pygame.time, "Clock", HurriedClock)
    yield asked
    pygame.display.quit()


def shown():
    return pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)


@pytest.mark.parametrize(
    ("rules", "action_repeat", "fps", "pictures"), [("classic", 10, 60, 5), ("challenge", 5, 72, 3)]
)
def test_window_shows_every_step_in_real_time(rules, action_repeat, fps, pictures, paces):
    with closing(gym.make(ID, render_mode="human", rules=rules, action_repeat=action_repeat, opponent="ace")) as env:
        env.reset(seed=3)
        assert (env.metadata["render_fps"], paces) == (fps, [fps])
        before = shown()
        assert env.step(STRAIGHT)[1] is not None
        assert paces == [fps] * (1 + pictures)
        assert env.render() is None
        picture = shown()
        assert picture.shape == (480, 720, 3)
        assert (picture != before).any()
        for color in SEAT_COLORS:
            assert (picture[48:] == color).all(axis=-1).any()
        env.reset(seed=4)
        assert len(paces) == 2 + pictures
    assert not pygame.display.get_init()


def test_frame_rate_matches_match():
    assert [human_fps(ticks) for ticks in (1, 2, 4, 10, 120)] == [120, 60, 60, 60, 60]


def test_closed_window_ends_drawing_only(paces):
    with closing(gym.make(ID, render_mode="human")) as env:
        env.reset(seed=1)
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        env.step(STRAIGHT)
        assert not pygame.display.get_init()
        shown_before = len(paces)
        for _ in range(3):
            env.step(STRAIGHT)
        env.reset()
        assert len(paces) == shown_before
        env.close()


def test_gymnasium_checker_passes(paces):
    with closing(gym.make(ID, render_mode="human")) as env:
        check_env(env.unwrapped)
    assert paces


def test_both_multi_agent_games_open_windows(paces):
    with closing(dogfight(render_mode="human")) as env:
        env.reset(seed=1)
        env.step(dict.fromkeys(env.agents, STRAIGHT))
        assert paces == [60] * 6
        assert env.render() is None
    with closing(diplomacy(render_mode="human", last_year=1901)) as env:
        obs, _ = env.reset(seed=1)
        row = env.row()
        full = draw_position(row["units"], row["owner"], dislodged=row["dislodged"])
        seen = shown()
        assert seen.shape[0] <= full.shape[0]
        assert seen.shape[1] / seen.shape[0] == pytest.approx(full.shape[1] / full.shape[0], rel=0.01)
        assert np.abs(seen.mean(axis=(0, 1)) - full.mean(axis=(0, 1))).max() < 3
        env.step({agent: env.action_space(agent).sample(obs[agent]["action_mask"]) for agent in env.agents})
        assert paces[6:] == [2, 2]
        assert env.render() is None


def test_missing_pygame_prints_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    for make in (lambda: gym.make(ID, render_mode="human"), lambda: diplomacy(render_mode="human")):
        with pytest.raises(DependencyNotInstalled) as raised:
            make()
        assert str(raised.value) == 'render_mode="human" needs pygame: `sparring install human`'


def test_missing_screen_gives_one_line_advice(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "none_such")
    with (
        closing(gym.make(ID, render_mode="human")) as env,
        pytest.raises(InputError, match=r'human".*none_such.*rgb_array'),
    ):
        env.reset(seed=1)


def test_batch_of_matches_has_no_window():
    with pytest.raises(ValueError, match="unknown render_mode 'human'"):
        gym.make_vec(ID, num_envs=2, render_mode="human")
