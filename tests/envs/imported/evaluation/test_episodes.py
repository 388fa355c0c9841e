"""Policies of Gymnasium environments: played as trained, summarized, written, and rendered."""

import json

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from PIL import Image
from scipy import stats

from sparring.agents.opponents import players
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.envs.imported.evaluation.episodes import make_envs, play, write_video
from sparring.envs.imported.training.gymnasium import SOUND_STEPS
from sparring.eval.run import main
from tests.configs import messages

QUICK = ["--threads", "1", "--device", "cpu"]
SMALL = "env.num_envs=2 ppo.rollout_steps=32 ppo.minibatch_size=32 network.hidden=8 device=cpu threads=1"


class Countdown(gymnasium.Env):
    """Observe 1000 + step; the action is its reward; frames are gray and brighten."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 as Gymnasium has it

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = Box(0.0, 2000.0, (1,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now, self.length = 0, 3 + int(self.np_random.integers(3))
        return self._obs(), {}

    def step(self, action):
        self.now += 1
        return self._obs(), float(action[0]), self.now == self.length, False, {}

    def render(self):
        return np.full((20, 30, 3), 40 * self.now, dtype=np.uint8)

    def _obs(self):
        return np.array([1000 + self.now], dtype=np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return runs in CartPole, and in an environment that needs normalization."""
    gymnasium.register("Countdown-v0", Countdown)
    folder = tmp_path_factory.mktemp("checkpoints")
    for run, options in (("cart", []), ("count", ["env.id=Countdown-v0", "env.normalize_obs=true"])):
        place = [f"checkpoint_dir={folder}", f"name={run}", "phases.0.updates=2"]
        train(load(["+run=gymnasium", *SMALL.split(), *place, *options]))
    yield folder
    del gymnasium.registry["Countdown-v0"]


@pytest.fixture(autouse=True)
def checkpoints(folder, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", folder)
    monkeypatch.setattr(players, "ROOT", folder.parent)


def test_run_is_evaluated_without_naming_game(folder, capsys):
    assert main(["--ckpt", "cart", "--episodes", "13", "--seed", "3", *QUICK]) == 0
    out = capsys.readouterr().out
    content = json.loads((folder / "cart" / "eval.json").read_text())
    assert (folder / "cart" / "eval.md").read_text() in out
    assert (content["kind"], content["env"], content["run"]) == ("episodes", "CartPole-v1", "cart")
    assert content["command"].startswith("python eval/run.py --ckpt cart")
    returns, lengths = play(load_checkpoint(folder / "cart" / "final.pt"), 13, 3).T
    assert np.array_equal(returns, lengths)  # in CartPole every step is worth 1
    low, high = stats.t.interval(0.95, 12, loc=returns.mean(), scale=stats.sem(returns))
    found = content["return"]
    assert found == content["length"]
    assert found["interval"] == pytest.approx([low, high])
    assert (found["mean"], found["median"]) == (pytest.approx(returns.mean()), np.median(returns))
    assert (found["least"], found["most"]) == (returns.min(), returns.max())


def test_same_command_writes_same_bytes(folder, tmp_path):
    for _ in range(2):
        assert main(["--ckpt", "final.pt", "--episodes", "3", "--out", str(tmp_path), "--quiet", *QUICK]) == 0
        (tmp_path / "eval.json").rename(tmp_path / f"{len(list(tmp_path.glob('*.kept')))}.kept")
    first, second = (path.read_bytes() for path in sorted(tmp_path.glob("*.kept")))
    assert first == second


def test_observations_are_normalized_as_in_training(folder):
    """By hand: (obs - mean) / std through the network, its action within the bounds."""
    checkpoint = load_checkpoint(folder / "count" / "final.pt")
    statistics = checkpoint.contract["normalizer"]
    assert 1000 < statistics["mean"][0] < 1006
    env, (played,) = gymnasium.make("Countdown-v0"), play(checkpoint, 1, 5)
    obs, _ = env.reset(seed=5)
    total, over = 0.0, False
    while not over:
        shown = (obs.astype(np.float64) - statistics["mean"]) / np.sqrt(np.array(statistics["variance"]) + 1e-8)
        action = checkpoint.network.actor(torch.tensor(shown, dtype=torch.float32)[None]).detach().numpy()[0]
        obs, reward, over, _, _ = env.step(np.clip(action, -1.0, 1.0))
        total += reward
    assert played == pytest.approx([total, env.unwrapped.length], abs=1e-5)


def test_episode_is_written_as_gif(tmp_path, capsys):
    path = tmp_path / "new" / "episode.gif"
    assert main(["--ckpt", "count", "--episodes", "2", "--video", str(path), *QUICK]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Wrote {path}"
    picture = Image.open(path)
    assert picture.size == (30, 20)
    assert 3 <= picture.n_frames <= 5
    assert picture.info["duration"] == 100


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_episodes"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row)


def test_dissimilar_option_gets_no_suggestion(capsys):
    assert main(["--ckpt", "cart", "--games", "4", *QUICK]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_environment_that_cannot_render_is_reported(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Countdown, "metadata", {"render_modes": []})
    assert main(["--ckpt", "count", "--episodes", "2", "--video", str(tmp_path / "a.gif"), *QUICK]) == 2
    assert "--video: Countdown-v0 cannot be drawn" in capsys.readouterr().err


def test_evaluated_policy_does_not_sample(folder, tmp_path):
    """Episodes and pictures do not depend on torch's global generator."""
    cart, count = (load_checkpoint(folder / run / "final.pt") for run in ("cart", "count"))
    played, pictures = [], []
    for state in (0, 1):
        torch.manual_seed(state)
        played.append(play(cart, 4, 3).tolist())
        pictures.append(actions_of_the_picture(count, tmp_path))
    assert played[0] == played[1]
    assert pictures[0] == pictures[1] != []


def actions_of_the_picture(checkpoint, folder):
    """Return the actions of a picture's episode."""
    taken, step = [], Countdown.step
    try:
        Countdown.step = lambda env, action: (taken.append(float(action[0])), step(env, action))[1]
        write_video(folder / "count.gif", checkpoint, 3, "cpu")
    finally:
        Countdown.step = step
    return taken


def test_policy_statistics_are_constant_during_evaluation(folder):
    checkpoint = load_checkpoint(folder / "count" / "final.pt")
    envs = make_envs(checkpoint, 2, 0, "cpu")
    for _ in range(40):
        envs.step(torch.zeros(2, 1))
    assert envs.contract["normalizer"] == checkpoint.contract["normalizer"]
    envs.close()


@pytest.mark.parametrize(
    ("requirement", "code", "message"),
    [
        ("length>=3", 0, ""),
        ("length>=5.5", 1, "--require 'length>=5.5' failed: "),
        ("return>=-6", 0, ""),
        ("return>=6", 1, "--require 'return>=6' failed: "),
        ("ace>=0.5", 2, "--require 'ace>=0.5': write NAME>=NUMBER with return or length, as in return>=100"),
        ("return@full>=1", 2, "write NAME>=NUMBER"),
        ("score:return>=1", 2, "write NAME>=NUMBER"),
        ("return>=nan", 2, "write NAME>=NUMBER"),
    ],
)
def test_minimum_mean_can_be_required(requirement, code, message, tmp_path, capsys):
    """Episodes of three to five steps, each worth at most 1."""
    words = ["--ckpt", "count", "--episodes", "6", "--require", requirement, "--quiet", "--out", str(tmp_path)]
    assert main([*words, *QUICK]) == code
    assert message in capsys.readouterr().err


def test_never_finite_environment_ends_evaluation(folder, monkeypatch):
    """Episodes are long enough to count as valid, and the last reward is infinite."""

    def step(self, action):
        self.now += 1
        return self._obs(), np.inf if self.now == SOUND_STEPS + 1 else 0.0, False, False, {}

    monkeypatch.setattr(Countdown, "step", step)
    checkpoint = load_checkpoint(folder / "count" / "final.pt")
    with pytest.raises(InputError, match=r"2[1-9] episodes of Countdown-v0 were left out before 2 were played.*check"):
        play(checkpoint, 2, seed=0)
