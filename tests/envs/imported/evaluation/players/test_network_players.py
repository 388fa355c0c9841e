"""Policies and ONNX models as players of OpenSpiel states, combined with other players."""

import numpy as np
import pytest

pytest.importorskip("pyspiel")

import pyspiel
import torch

from sparring.agents.play.exploitability import probabilities
from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.players.network_states import network_choices, network_states
from sparring.envs.imported.evaluation.players.state_players import met_states, open_player
from sparring.envs.imported.evaluation.players.state_seats import seat_state
from sparring.envs.imported.evaluation.policy import load_policy
from sparring.eval.exploit import exploit_policy, main
from tests.envs.imported.evaluation.saved import DUEL, save_run

LEDUC = pyspiel.load_game("leduc_poker")


def model(folder, **options):
    """Return a matrix as a model, and its file."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from tests.eval.onnx_export.onnx_models import linear

    made = linear(**options)
    onnx.save(made, folder / "model.onnx")
    return onnx.numpy_helper.to_array(made.graph.initializer[0]), str(folder / "model.onnx")


def leduc_states():
    return [states[0] for states in met_states(LEDUC, 60).values()]


@pytest.mark.parametrize(("size", "tensor"), [(30, "information_state_tensor"), (16, "observation_tensor")])
def test_logit_model_acts_by_softmax_over_legal_actions(tmp_path, size, tensor):
    weights, path = model(tmp_path, size=size)
    states = leduc_states()
    for state, choices in zip(states, open_player(path, LEDUC)(states), strict=True):
        logits = np.array(getattr(state, tensor)(state.current_player())) @ weights
        odds = {action: np.exp(logits[action]) for action in state.legal_actions()}
        assert dict(choices) == pytest.approx({a: value / sum(odds.values()) for a, value in odds.items()}, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"size": 31}, "D of 30 (information state) or 16 (observation) in leduc_poker"),
        ({"size": 30, "outputs": 4}, "output float32 [1, 3] or [N, 3], a logit for each action"),
    ],
)
def test_model_of_other_sizes_gives_one_line_error(tmp_path, capsys, options, part):
    _, path = model(tmp_path, **options)
    assert main([path, "--id", "leduc_poker", "--out", str(tmp_path / "out")]) == 2
    assert part in capsys.readouterr().err.splitlines()[-1]


def test_run_policy_samples_as_in_own_matches(tmp_path):
    path = save_run(tmp_path / "leduc", "openspiel", "leduc_poker")
    player, game = load_policy(path, "cpu")
    match = game.match()
    states = leduc_states()
    expected = network_states(match, game.rows(match), player.network).policy(states)
    asked = open_player(str(path), LEDUC)(states)
    assert [dict(choices) for choices in asked] == [pytest.approx(dict(choices)) for choices in expected]
    assert any(len(choices) > 1 for choices in asked)


@torch.no_grad()
@pytest.mark.parametrize("memory", ["gru", "lstm"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(
    ("name", "kwargs"),
    [("leduc_poker", {}), ("goofspiel", {"imp_info": True, "num_cards": 4, "points_order": "descending"})],
)
def test_recurrent_policy_acts_as_in_own_matches(tmp_path, memory, deterministic, name, kwargs):
    """Its memory after a match's moves equals the match's own."""
    path = save_run(tmp_path / "run", "openspiel", name, kwargs, memory=memory)
    player, game = load_policy(path, "cpu")
    match, draws = game.match(), np.random.default_rng(0)
    rows = game.rows(match)
    policy, again = network_choices(match, rows, player.network, deterministic=deterministic), 0
    for seed in range(20):
        match.reset(seed)
        memories = torch.zeros(2, player.memory_size)
        while not match.over:
            actions = {}
            for seat in match.deciding():
                row = rows.blank[seat]
                rows.write(seat, match.observe(seat), row)
                rows.write_mask(seat, match.mask(seat), row)
                seen, before = torch.from_numpy(row)[None], memories[seat][None]
                legal = match.mask(seat)[None]
                expected = probabilities(player.network, seen, before, legal, deterministic=deterministic)
                state = match.state
                (choices,) = policy([seat_state(state, seat)])
                match.state = state
                assert dict(choices) == pytest.approx({k: p for k, p in enumerate(expected[0]) if p}, abs=1e-6)
                again += bool(memories[seat].any())
                memories[seat] = player.network.step(seen, before, deterministic=True)[2][0]
                actions[seat] = int(draws.choice(np.flatnonzero(legal[0])))
            match.step(actions)
    assert again > 10


def test_mixture_can_combine_run_and_openspiel_player(tmp_path):
    path = save_run(tmp_path / "kuhn", "openspiel", "kuhn_poker")
    values = [
        exploit_policy(players, id="kuhn_poker", moves=2000, out=tmp_path / str(number)).exact
        for number, players in enumerate(([path, "openspiel:cfr:100"], path, "openspiel:cfr:100"))
    ]
    mixture, run, solver = values
    assert solver < mixture < (run + solver) / 2 + 1e-9  # NashConv is convex in the mixture


@pytest.mark.parametrize(
    ("package", "game", "options", "message"),
    [
        ("openspiel", "kuhn_poker", {}, "plays openspiel:kuhn_poker, and the game is leduc_poker"),
        ("pettingzoo", DUEL, {}, "runs the code of the module"),
    ],
)
def test_unplayable_policy_gives_one_line_error(tmp_path, package, game, options, message):
    path = save_run(tmp_path / "run", package, game, **options)
    with pytest.raises(InputError, match=message):
        open_player(str(path), LEDUC)
