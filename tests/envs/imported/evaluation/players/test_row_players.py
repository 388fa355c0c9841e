"""Third-party players in PettingZoo games: views, answers, and attacks on them."""

import numpy as np
import pytest
import torch
from gymnasium import Env
from gymnasium.spaces import Box, Discrete

import sparring
from sparring.agents.opponents.players import content_of
from sparring.configs.core.errors import InputError
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.evaluation.players.row_players import open_row_player
from sparring.envs.imported.evaluation.players.row_states import RowGame
from sparring.envs.imported.evaluation.players.state_players import open_player
from sparring.eval.exploit import main
from tests.configs import messages
from tests.envs.imported.evaluation.players.test_http_player import first, serve  # noqa: F401
from tests.envs.imported.evaluation.saved import DUEL, save_run
from tests.eval.exploitability.schema import check_schema

TICTACTOE = "pettingzoo.classic.tictactoe_v3"
SMALL = {"env.num_envs": 8, "ppo.rollout_steps": 32, "ppo.minibatch_size": 64}
MINE = "tests.envs.imported.evaluation.players.row_objects"


class Still(Env):
    """The spaces of tic-tac-toe in the tutorial's wrapper, without play."""

    observation_space = Box(0, 1, (3, 3, 2), np.int8)
    action_space = Discrete(9)


def decisions(count=40):
    """Return decision rows of random games, with PettingZoo's own observation and mask."""
    batch, random = make_batch("pettingzoo", TICTACTOE, {}, 2, 0), np.random.default_rng(0)
    for _ in range(count):
        rows = batch.deciding.flatten().nonzero().squeeze(1)
        seen = [batch.match(row // 2).env.last()[0] for row in rows.tolist()]
        yield batch, rows, seen
        actions = torch.zeros(2, 2, 1)
        for row, observation in zip(rows.tolist(), seen, strict=True):
            actions[row // 2, row % 2] = int(random.choice(np.flatnonzero(observation["action_mask"])))
        batch.step(actions)


def check_zip(model, path):
    """Compare the zip's choices with SB3's own probabilities of the legal actions."""
    model.save(path)
    player = game = None
    spread = []
    for batch, rows, seen in decisions():
        game = game or RowGame(batch.contract)
        player = player or open_player(str(path), game)
        for choices, state, observation in zip(
            player(game.states(batch, rows)), game.states(batch, rows), seen, strict=True
        ):
            legal = np.flatnonzero(observation["action_mask"]).tolist()
            assert state.legal_actions() == legal
            shown = torch.from_numpy(observation["observation"][None]).float()
            with torch.no_grad():
                expected = model.policy.get_distribution(shown).distribution.probs[0].double()[legal]
            np.testing.assert_allclose([dict(choices)[k] for k in legal], expected / expected.sum(), atol=1e-6)
            spread.append((expected / expected.sum()).max().item() - 1 / len(legal))
    assert max(spread) > 0.02


@pytest.mark.parametrize("kind", ["PPO", "MaskablePPO"])
def test_zip_has_its_own_probabilities_over_legal_actions(kind, tmp_path):
    sb3 = pytest.importorskip("stable_baselines3" if kind == "PPO" else "sb3_contrib")
    model = getattr(sb3, kind)("MlpPolicy", Still(), seed=1, device="cpu")
    with torch.no_grad():
        model.policy.action_net.weight.mul_(100.0)
    check_zip(model, tmp_path / "model.zip")


def test_server_receives_observation_legal_actions_and_seat(serve):  # noqa: F811
    address, requests = serve(first)
    for batch, rows, seen in decisions(3):
        player = open_row_player(address, batch.contract).seats(True)
        chosen = player.choose_rows(batch, rows)[:, 0].tolist()
        request = requests[-1]
        assert request["game"] == f"pettingzoo:{TICTACTOE}"
        for asked, row, observation, action in zip(request["decisions"], rows.tolist(), seen, chosen, strict=True):
            assert asked["player"] == row % 2
            assert asked["observation"] == observation["observation"].ravel().tolist()
            assert asked["legal_actions"] == np.flatnonzero(observation["action_mask"]).tolist()
            assert action == asked["legal_actions"][0]


def attack(player, tmp_path, options=None, **more):
    how = {"env": "pettingzoo", "id": DUEL, "moves": 256, "games": 4, "device": "cpu", "threads": 1}
    return sparring.exploit(player, SMALL | (options or {}), out=tmp_path / "out", **how, **more)


@pytest.mark.parametrize(("seat", "score"), [(0, 1.0), (1, 0.0)])
def test_winning_seat_is_attacked_alone(seat, score, tmp_path):
    """In this variant the first seat always wins."""
    pytest.importorskip("matplotlib")
    report = attack(f"{MINE}:Highest", tmp_path, {"env.kwargs.fault": "seats"}, seat=seat)
    check_schema(report.data)
    assert report.data["seat"] == seat
    assert report.score == score
    assert report.data["env"] == f"pettingzoo:{DUEL}"
    (response,) = (tmp_path / "out" / "responses").glob("*.pt")
    assert content_of(response)["training"]["config"]["env"]["seat"] == seat  # all its moves were there
    (point,) = report.data["curves"][0]["points"]
    assert point["score"] == score


def test_mixture_of_policy_and_object_is_attacked_by_allowed_means(tmp_path):
    pytest.importorskip("matplotlib")
    path = save_run(tmp_path / "duel", "pettingzoo", DUEL)
    report = attack([path, f"{MINE}:Choosing"], tmp_path, start=["cold", "warm", "clone", "sampling"])
    assert report.attack == "cold, against stochastic play"
    for word in ("clone", "sampling"):
        assert f"--attacker {word}: pettingzoo:{DUEL} does not copy its states; remove it" in report.markdown
    assert "--attacker warm: " in report.markdown
    assert "does not expose its weights" in report.markdown


def test_changing_or_failing_object_is_rejected_in_one_line(tmp_path):
    """Each of four moves in 16 two-seat matches is requested twice; the seventh request is the fourth move."""
    for name, message in (
        ("Changing", r"32 of 128 answers changed when asked again; fix its seed, or give the object reseed\(seed\)"),
        ("Raising", "raised RuntimeError: no model, in line"),
        ("Illegal", "which mask forbids; legal are"),
    ):
        with pytest.raises(InputError, match=message):
            attack(f"{MINE}:{name}", tmp_path)


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_pettingzoo"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row)
