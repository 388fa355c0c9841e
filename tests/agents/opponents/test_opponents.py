"""Opponents of every kind in every interface: bots, checkpoints, ONNX files and Python objects."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import onnx
import pytest
import torch

import sparring
from sparring.agents.opponents import players as named
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.policy import Policy
from sparring.configs import opponents as registry
from sparring.configs.core.errors import InputError
from sparring.configs.load import load_named
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.interfaces.parallel_env import parallel_env
from sparring.envs.dogfight.rules import BOTS
from sparring.envs.dogfight.training.matches import MatchSettings, play
from sparring.envs.dogfight.training.opponents.load import open_player
from sparring.eval.run import main
from tests.agents.opponents import players
from tests.eval.onnx_export.onnx_models import linear

ROOT = Path(__file__).resolve().parents[3]
RELEASED = "released/dogfight_bots_only"
ID = "sparring/Dogfight-v1"
DIVER = "tests.agents.opponents.players:Diver"


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    players.calls.clear()


@pytest.fixture
def onnx_file(tmp_path):
    path = tmp_path / "linear.onnx"
    onnx.save(linear(), path)
    return path


def flown(opponent, *, steps=40, **options):
    """Return the learner's observations against `opponent`, over some steps of one match."""
    env = gymnasium.make(ID, opponent=opponent, **options).unwrapped
    rows = [env.reset(seed=3)[0]]
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(np.array([0.3, 1.0, -1.0], np.float32))
        rows.append(obs)
        if terminated or truncated:
            break
    env.close()
    return np.stack(rows)


def test_gymnasium_accepts_name_path_policy_and_object_equally():
    """The same weights fly the same match by any name; the numbers are those of `Policy.act`."""
    path = ROOT / "checkpoints" / "released" / "dogfight_bots_only.pt"
    policy = Policy.load(path)

    class Wrapped:
        def act(self, obs: "torch.Tensor"):
            return policy.act(obs)

    by_name = flown(RELEASED)
    for other in (str(path), path, policy, Wrapped(), Wrapped):
        assert np.array_equal(by_name, flown(other))
    assert not np.array_equal(by_name[: len(flown("ace"))][5:], flown("ace")[5 : len(by_name)])


def test_opponent_acts_from_its_own_seat(onnx_file):
    """In the two-seat environment, the same actions on the other seat give the same match."""
    policy = open_player(str(onnx_file)).contestant
    env, alone = parallel_env(), parallel_env(opponent=onnx_file)
    assert alone.possible_agents == ["player_0"]
    both, one = env.reset(seed=5)[0], alone.reset(seed=5)[0]
    for _ in range(60):
        own = np.array([0.2, 1.0, 1.0], np.float32)
        theirs = policy.act(torch.from_numpy(both["player_1"])[None])[0].numpy()
        both, rewards, ended, cut, _ = env.step({"player_0": own, "player_1": theirs})
        one, alone_rewards, alone_ended, _, _ = alone.step({"player_0": own})
        assert np.array_equal(both["player_0"], one["player_0"])
        assert rewards["player_0"] == alone_rewards["player_0"]
        assert ended["player_0"] == alone_ended["player_0"]
        if ended["player_0"] or cut["player_0"]:
            break


def test_several_opponents_cycle_over_vector_matches(onnx_file):
    env = gymnasium.make_vec(ID, num_envs=8, opponent=["ace", RELEASED, onnx_file, players.Diver()], rules="classic")
    obs, _ = env.reset(seed=1)
    actions = np.tile(np.array([0.0, 1.0, -1.0], np.float32), (8, 1))
    for _ in range(30):
        obs, *_ = env.step(actions)
    assert [call.shape for call in players.calls] == [(2, 59)] * 30  # one call a step for both of its matches
    assert 0.0 < env.opponent_share < 1.0
    alone = flown(RELEASED, steps=1)
    assert alone.shape[1] == obs.shape[1]
    env.close()


def test_losing_opponent_shows_in_win_rate():
    """A fighter that dives into deadly ground loses to one that does nothing but fly on."""
    diver = open_player(players.Diver).contestant
    results = play("ace", diver, games=40, seed=1, setting=MatchSettings(rules="challenge", bot_rate="agent"))
    assert results.win_rate == 1.0
    assert play(diver, "ace", games=40, seed=1, setting=MatchSettings(rules="challenge", bot_rate="agent")).wins == 0


def test_registered_name_and_reference_are_equivalent(capsys):
    sparring.register_opponent("mine")(players.Diver)
    assert open_player("mine").name == open_player(DIVER).name == open_player(players.Diver).name == "mine"
    assert np.array_equal(flown("mine", steps=5), flown(DIVER, steps=5))
    with pytest.raises(InputError, match=r"register_opponent\('ace'\): is a bot's name"):
        sparring.register_opponent("ace")
    with pytest.raises(InputError, match=r"register_opponent\('a b'\): must be letters"):
        sparring.register_opponent("a b")


def test_evaluate_record_and_runs_accept_objects(tmp_path):
    """The record has the class name, a number for a second one, or the registered name."""
    sparring.register_opponent("kamikaze")(players.tensors)
    one, two = players.Diver(), players.Diver()
    data = sparring.evaluate(one, opponents=[two, one, players.tensors], games=2, threads=1, rules="challenge").data
    assert data["player"] == "Diver"
    assert [record["opponent"] for record in data["records"]] == ["Diver-2", "Diver", "kamikaze"]
    page = sparring.record(one, tmp_path / "match.html", opponents="ace", rules="challenge", threads=1)
    assert "Diver" in page.read_text(encoding="utf-8")
    config = load_named("quickstart", {"opponents": [two, "ace"], "max_updates": 1})
    assert config.opponents == ["Diver-2", "ace"]

    with pytest.raises(InputError, match=r"opponents.0=gone: choose from .*; an opponent registered by a script"):
        load_named("quickstart", {"opponents": ["gone"]})

    def brawler(obs):
        return obs[:, :3]

    with pytest.raises(InputError, match=r"register_opponent\('brawler'\): is a bot's name"):
        sparring.evaluate(RELEASED, opponents=brawler)


def test_observations_arrive_as_declared_type():
    flown(players.tensors, steps=1)
    flown(players.Diver(), steps=1)
    assert [type(call) for call in players.calls] == [torch.Tensor, np.ndarray]


@pytest.mark.parametrize(
    ("opponent", "message"),
    [
        ("brawlr", r"unknown opponent 'brawlr': no bot .*did you mean 'brawler'"),
        ("mien", r"unknown opponent 'mien': no bot .*mine; did you mean 'mine'"),
        ("released/dogfight_quickstrat", r"no checkpoint .*did you mean 'released/dogfight_quickstart'"),
        ("no_such.onnx", r"no checkpoint 'no_such.onnx'"),
        ("no_such_module:Mine", r"opponent no_such_module:Mine: cannot find the module no_such_module; install it"),
        ("tests.agents.opponents.players:Dver", r"has no Dver; did you mean 'Diver'"),
        (7, r"opponent int: a int cannot act; pass a function or an object with act\(obs\)"),
        ("tests.agents.opponents.players:NUMBER", r"a int cannot act"),
    ],
)
def test_unknown_opponent_suggests_nearest_name_in_one_line(opponent, message):
    sparring.register_opponent("mine")(players.Diver)
    with pytest.raises(InputError, match=message) as error:
        gymnasium.make(ID, opponent=opponent)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("opponent", "found"),
    [(players.narrow, r"returned shape \(4, 2\)"), (players.words, "returned a str, not an array of numbers")],
)
def test_wrong_action_shape_names_expected_shape(opponent, found):
    env = gymnasium.make_vec(ID, num_envs=4, opponent=opponent)
    env.reset(seed=1)
    expected = r"expected shape \(4, 3\), a row of 3 numbers"
    with pytest.raises(InputError, match=f"{opponent.__name__}: act\\(obs of shape \\(4, 59\\)\\) {found}; {expected}"):
        env.step(np.zeros((4, 3), np.float32))


def test_policy_of_other_rules_is_rejected_when_seated():
    with pytest.raises(InputError, match="trained with rules=classic and cannot play with rules=challenge"):
        gymnasium.make(ID, opponent=RELEASED, rules="challenge")


def test_evaluation_accepts_same_names(tmp_path, onnx_file, capsys):
    opponents = ["ace", RELEASED, str(onnx_file), DIVER]
    options = ["--games", "4", "--device", "cpu", "--threads", "1", "--quiet", "--out", str(tmp_path)]
    assert main(["--ckpt", "bot:brawler", "--opponents", *opponents, *options]) == 0
    table = (tmp_path / "eval.md").read_text()
    assert all(re.search(rf"\| {name}", table) for name in ("ace", RELEASED, DIVER))
    assert main(["--ckpt", "bot:ace", "--opponents", "no_module:Mine", *options]) == 2
    assert "cannot find the module no_module" in capsys.readouterr().err
    assert main(["--ckpt", DIVER, "--opponents", "do_nothing", *options]) == 0


def test_named_players_act_in_their_own_matches_only():
    """In a training batch, one call per step covers all matches of a player, on rows of its seat."""
    batch = DogfightBatch(6, threads=1, seed=2)
    player = open_player(players.Diver).contestant
    env = LearnerEnv(batch, bots=BOTS, players={"Diver": player}, seed=0)
    assert env.bots == (*BOTS, "Diver")
    env.assign(np.array([5, 0, 5, 1, 2, 5]))
    seen = batch.obs.flatten(0, 1)[[1, 5, 10]].clone()  # the other seat of matches 0, 2 and 5
    env.step(torch.zeros(6, 3))
    assert len(players.calls) == 1
    assert np.array_equal(players.calls[0], seen.numpy())
    assert env.opponent_seats.player_seconds > 0.0
    env.close()


def test_released_policy_results_are_not_written_to_package(tmp_path, monkeypatch):
    policy = named.SHIPPED / "released" / "dogfight_strong.pt"
    assert named.results_place(policy) == (policy.parent, "eval.dogfight_strong")  # in a checkout, beside it
    monkeypatch.setattr(named, "ROOT", tmp_path)
    assert named.results_place(policy) == (tmp_path, "eval.dogfight_strong")
    assert named.results_place(tmp_path / "run" / "final.pt", "sprt") == (tmp_path / "run", "sprt")
