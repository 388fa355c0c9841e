"""SB3 zips as players of OpenSpiel games: probabilities equal SB3's own policy."""

import io
import json
import pickle
import random
import zipfile

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

pytest.importorskip("stable_baselines3")
pytest.importorskip("pyspiel")

import pyspiel
import torch
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.players.state_players import met_states, open_player
from sparring.envs.imported.states import first_state, whole
from sparring.envs.imported.training.opponents import load_seat_policy, open_seat_player
from sparring.eval.exploit import exploit_policy, main
from sparring.eval.run import main as evaluate
from tests.agents.policies.sb3_data import by_name, encoded
from tests.envs.imported.evaluation.saved import save_run

RECURRENT = "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy"
MASKABLE = "sb3_contrib.common.maskable.policies.MaskableActorCriticPolicy"


class Still(gym.Env):
    """The spaces of a game's observations, without play."""

    def __init__(self, name):
        game = pyspiel.load_game(name)
        self.observation_space = Box(-np.inf, np.inf, (game.observation_tensor_size(),), np.float32)
        self.action_space = Discrete(game.num_distinct_actions())


class Turns(gym.Env):
    """The first seat against random play; illegal actions are replaced by legal ones."""

    def __init__(self, name, tensor="information_state"):
        self.game, self.tensor = pyspiel.load_game(name), f"{tensor}_tensor"
        size = getattr(self.game, f"{self.tensor}_size")()
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = Discrete(self.game.num_distinct_actions())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.game.new_initial_state()
        return self.observed(), {}

    def step(self, action):
        legal = self.state.legal_actions()
        self.state.apply_action(int(action) if action in legal else legal[0])
        observation, over = self.observed(), self.state.is_terminal()
        return observation, self.state.returns()[0] if over else 0.0, over, False, {}

    def observed(self):
        while not self.state.is_terminal() and self.state.current_player() != 0:
            self.state.apply_action(int(self.np_random.choice(self.state.legal_actions())))
        return np.float32(getattr(self.state, self.tensor)(0))


def saved(folder, game="kuhn_poker", tensor="information_state", kind=PPO, steps=256, **options):
    sizes = {"n_steps": 64, "batch_size": 64} if kind is PPO else {}
    env = Turns(game, tensor)
    model = kind("MlpPolicy", env, learning_rate=0.01, seed=1, device="cpu", **sizes, **options).learn(steps)
    model.save(folder / "model.zip")
    return model, folder / "model.zip"


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory):
    """Return a zip of a Kuhn poker policy, which tests must not change."""
    return saved(tmp_path_factory.mktemp("kuhn"))[1]


def rewritten(path, to, weights=None, **values):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data"] = json.dumps(json.loads(members["data"]) | values).encode()
    if weights:
        state = torch.load(io.BytesIO(members["policy.pth"]), weights_only=True)
        torch.save(weights(state), file := io.BytesIO())
        members["policy.pth"] = file.getvalue()
    with zipfile.ZipFile(to, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return to


def asked(path, name):
    """Return the player's probabilities and the game's states."""
    game = pyspiel.load_game(name)
    states = [states[0] for states in met_states(game, 60).values()]
    player = open_player(str(path), game)
    player.replay(game)
    return player(states), states


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"tensor": "observation"},
        {"kind": A2C},
        {"policy_kwargs": {"net_arch": [32, 16, 8]}},
        {"policy_kwargs": {"net_arch": []}},
        {"game": "leduc_poker"},
        {"game": "leduc_poker", "tensor": "observation", "policy_kwargs": {"net_arch": {"pi": [20], "vf": [30, 10]}}},
    ],
    ids=str,
)
def test_probabilities_and_likeliest_actions_match_sb3(case, tmp_path):
    model, path = saved(tmp_path, **case)
    answers, states = asked(path, case.get("game", "kuhn_poker"))
    spread = []
    for choices, state in zip(answers, states, strict=True):
        row = getattr(state, f"{case.get('tensor', 'information_state')}_tensor")(state.current_player())
        observation = np.float32([row])
        with torch.no_grad():
            expected = model.policy.get_distribution(torch.from_numpy(observation)).distribution.probs[0].double()
        legal = state.legal_actions()
        masked = expected[legal] / expected[legal].sum()
        np.testing.assert_allclose([dict(choices)[action] for action in legal], masked, atol=1e-6)
        spread.append(masked.max().item() - 1 / len(legal))
        if len(legal) == len(expected):
            likeliest = max(choices, key=lambda choice: choice[1])[0]
            assert likeliest == model.predict(observation, deterministic=True)[0][0]
    assert max(spread) > 0.1  # it has learned something


def test_maskable_ppo_is_read_and_acts_like_its_predict(tmp_path):
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed; the dev extra has it")
    model = contrib.MaskablePPO("MlpPolicy", Turns("leduc_poker"), n_steps=64, batch_size=64, seed=1, device="cpu")
    model.save(tmp_path / "model.zip")
    answers, states = asked(tmp_path / "model.zip", "leduc_poker")
    for choices, state in zip(answers, states, strict=True):
        mask = np.isin(np.arange(3), state.legal_actions())
        row = np.float32(state.information_state_tensor(state.current_player()))
        action = model.predict(row, action_masks=mask, deterministic=True)[0]
        assert max(choices, key=lambda choice: choice[1])[0] == action


def test_maskable_ppo_class_need_not_be_installed(tmp_path):
    _, path = saved(tmp_path, game="leduc_poker", steps=64)
    plain, _ = asked(path, "leduc_poker")
    masked, _ = asked(rewritten(path, path, policy_class=by_name(MASKABLE)), "leduc_poker")
    assert plain == masked


def games_followed(path, name, expected):
    """Compare the player with `expected(tensor, memory) -> (probabilities, memory)` over games."""
    draws, game = random.Random(0), pyspiel.load_game(name)
    player = open_player(str(path), game)
    player.replay(game)
    again = 0
    for _ in range(20):
        state, memories = first_state(game), {}
        while not state.is_terminal():
            action = draws.choice(state.legal_actions())
            if not state.is_chance_node():
                played, seat = whole(state)
                shown, legal = torch.tensor([played.observation_tensor(seat)]), state.legal_actions()
                again += seat in memories
                with torch.no_grad():
                    chances, memories[seat] = expected(shown, memories.get(seat))
                chances = chances[0, legal].double()
                found = dict(player([state])[0])
                np.testing.assert_allclose([found[k] for k in legal], chances / chances.sum(), atol=1e-6)
            state = state.child(action)
    assert again > 10  # decisions before which there is something to remember


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_lstm_layers": 2, "lstm_hidden_size": 32},
        {"shared_lstm": True, "enable_critic_lstm": False, "lstm_hidden_size": 16},
        {"enable_critic_lstm": False, "net_arch": [], "lstm_hidden_size": 16},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["leduc_poker", "goofspiel(imp_info=True,num_cards=3,points_order=descending)"])
def test_recurrent_ppo_acts_like_its_policy_along_games(name, options, tmp_path):
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed; the dev extra has it")
    env = Still(name)
    model = contrib.RecurrentPPO("MlpLstmPolicy", env, seed=1, device="cpu", policy_kwargs=options)
    with torch.no_grad():
        for weight in model.policy.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(weight))))
    model.save(tmp_path / "model.zip")
    zeros = torch.zeros(model.policy.lstm_hidden_state_shape)

    def expected(shown, memory):
        chances, memory = model.policy.get_distribution(shown, memory or (zeros, zeros), torch.zeros(1))
        return chances.distribution.probs, memory

    games_followed(tmp_path / "model.zip", name, expected)


def with_lstm(state, hidden=8, inputs=16, **more):
    """Return the weights with an LSTM in front, named as in RecurrentPPO; the first layer takes its output."""
    generator = torch.Generator().manual_seed(3)
    shapes = {"weight_ih_l0": (4 * hidden, inputs), "weight_hh_l0": (4 * hidden, hidden), "bias_ih_l0": (4 * hidden,)}
    shapes |= {"bias_hh_l0": (4 * hidden,), **more}
    added = {f"lstm_actor.{name}": torch.randn(shape, generator=generator) for name, shape in shapes.items() if shape}
    first = {"mlp_extractor.policy_net.0.weight": torch.randn(64, hidden, generator=generator)}
    return {**state, **added, **first}


def test_recurrent_ppo_class_need_not_be_installed(tmp_path):
    """The gates by hand, in the order i, f, g, o."""
    _, path = saved(tmp_path, game="leduc_poker", tensor="observation", steps=64)
    kept = {}
    rewritten(path, path, lambda state: kept.setdefault("state", with_lstm(state)), policy_class=by_name(RECURRENT))
    state = kept["state"]
    cell = [state[f"lstm_actor.{name}"] for name in ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")]

    def expected(shown, memory):
        hidden, inner = memory or (torch.zeros(1, 8), torch.zeros(1, 8))
        i, f, g, o = (shown @ cell[0].T + cell[1] + hidden @ cell[2].T + cell[3]).split(8, dim=1)
        inner = f.sigmoid() * inner + i.sigmoid() * g.tanh()
        rows = hidden = o.sigmoid() * inner.tanh()
        for name in ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2"):
            rows = (rows @ state[f"{name}.weight"].T + state[f"{name}.bias"]).tanh()
        return (rows @ state["action_net.weight"].T + state["action_net.bias"]).softmax(1), (hidden, inner)

    games_followed(path, "leduc_poker", expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_hr_l0": (4, 8)}, "its lstm_actor is not a plain LSTM; train it without policy_kwargs.lstm_kwargs"),
        ({"bias_hh_l0": None}, "its lstm_actor is not a plain LSTM"),
        ({"inputs": 15}, "its lstm_actor is not a plain LSTM"),
        ({"weight_hh_l0": (1, 10**6), "weight_ih_l0": (1, 16)}, "its lstm_actor is not a plain LSTM"),
    ],
)
def test_lstm_with_other_options_is_rejected_in_one_line(options, message, tmp_path):
    _, path = saved(tmp_path, game="leduc_poker", tensor="observation", steps=64)
    rewritten(path, path, lambda state: with_lstm(state, **options), policy_class=by_name(RECURRENT))
    with pytest.raises(InputError, match=message):
        open_player(str(path), pyspiel.load_game("leduc_poker"))


def test_full_attack_runs_on_zip(kuhn, tmp_path):
    report = exploit_policy(kuhn, env="openspiel", id="kuhn_poker", moves=20_000, out=tmp_path / "out")
    assert report.interval[0] < report.exact < report.interval[1]


def test_vec_normalize_is_applied_or_reported_missing(tmp_path):
    env = VecNormalize(DummyVecEnv([lambda: Turns("kuhn_poker")]))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, seed=1, device="cpu", learning_rate=0.01).learn(256)
    model.save(tmp_path / "model.zip")
    with pytest.raises(InputError, match=r"VecNormalize; save its statistics as model_vecnormalize\.pkl"):
        asked(tmp_path / "model.zip", "kuhn_poker")
    env.save(tmp_path / "model_vecnormalize.pkl")
    answers, states = asked(tmp_path / "model.zip", "kuhn_poker")
    for choices, state in zip(answers, states, strict=True):
        row = env.normalize_obs(np.float32([state.information_state_tensor(state.current_player())]))
        with torch.no_grad():
            expected = model.policy.get_distribution(torch.from_numpy(np.float32(row))).distribution.probs[0]
        np.testing.assert_allclose([dict(choices)[action] for action in (0, 1)], expected, atol=1e-5)


def space(value):
    return encoded(pickle.dumps(value))


@pytest.mark.parametrize(
    ("game", "values", "message"),
    [
        ("leduc_poker", {}, "observes 11 numbers, and leduc_poker() gives 30 (information state) or 16 (observation)"),
        ("kuhn_poker(players=3)", {}, "observes 11 numbers, and kuhn_poker(players=3) gives 17"),
        ("kuhn_poker", {"action_space": space(Discrete(3))}, "has layers"),
        ("kuhn_poker", {"action_space": space(Discrete(2, start=1))}, "action_space: starts above 0"),
        (
            "kuhn_poker",
            {"action_space": space(Box(-1, 1, (2,)))},
            "action_space=gymnasium.spaces.box.Box: expected a Disc",
        ),
        ("kuhn_poker", {"observation_space": space(Discrete(11))}, "Discrete: expected a Box"),
        ("kuhn_poker", {"observation_space": space(Dict({"x": Discrete(3)}))}, "Dict: expected a Box"),
        ("kuhn_poker", {"observation_space": space(Box(0, 255, (11,), np.uint8))}, "Box: expected a Box of numbers"),
        ("kuhn_poker", {"policy_class": by_name("sb3_contrib.x.RecurrentPolicy")}, "only stable_baselines3.common"),
    ],
)
def test_zip_of_other_spaces_is_rejected_in_one_line(game, values, message, kuhn, tmp_path, capsys):
    path = rewritten(kuhn, tmp_path / "model.zip", **values)
    assert main([str(path), "--id", game, "--moves", "100", "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_missing_and_damaged_zips_are_rejected(kuhn, tmp_path):
    path = tmp_path / "model.zip"
    with pytest.raises(InputError, match="no such file"):
        open_player(str(tmp_path / "none.zip"), pyspiel.load_game("kuhn_poker"))
    path.write_bytes(kuhn.read_bytes()[:100])
    with pytest.raises(InputError, match="is damaged, or not a model saved by Stable-Baselines3"):
        open_player(str(path), pyspiel.load_game("kuhn_poker"))


def test_zip_of_other_algorithm_is_rejected(tmp_path):
    SAC("MlpPolicy", gym.make("Pendulum-v1"), device="cpu").save(tmp_path / "model.zip")
    with pytest.raises(InputError, match=r"SACPolicy: only .* the MlpPolicy of PPO, A2C and MaskablePPO"):
        open_player(str(tmp_path / "model.zip"), pyspiel.load_game("kuhn_poker"))


def test_zip_opponent_takes_likeliest_legal_action(tmp_path):
    model, path = saved(tmp_path)
    run = save_run(tmp_path / "run", "openspiel", "kuhn_poker")
    words = ["--ckpt", str(run), "--opponents", f"{path},stochastic:{path}", "--games", "40", "--threads", "1"]
    assert evaluate([*words, "--quiet", "--out", str(tmp_path)]) == 0
    records = json.loads(next(tmp_path.glob("eval*.json")).read_text())["records"]
    assert [record["opponent"] for record in records] == [str(path), f"stochastic:{path}"]
    game, contract = pyspiel.load_game("kuhn_poker"), load_seat_policy(run).contract
    sure = open_seat_player(str(path), contract)
    for states in met_states(game, 100).values():
        shown = np.float32(states[0].information_state_tensor(states[0].current_player()))
        legal = states[0].legal_actions()
        logits = model.policy.get_distribution(model.policy.obs_to_tensor(shown)[0]).distribution.logits[0]
        assert sure._draw([states[0]]) == [max(legal, key=lambda action: float(logits.detach()[action]))]
    drawn = open_seat_player(f"stochastic:{path}", contract)
    assert set(drawn._draw([first_state(game).child(0).child(2)] * 200)) == {0, 1}
