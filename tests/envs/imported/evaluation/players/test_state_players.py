"""Attacks on third-party players, against OpenSpiel's values and hand calculation."""

import json

import numpy as np
import pytest

import sparring
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import forget_opponent, register_opponent
from sparring.envs.imported.evaluation.players.rlcard_player import REFUSED, RULES
from sparring.envs.imported.evaluation.players.state_players import open_player, read_object, table_of
from sparring.envs.imported.states import first_state
from sparring.envs.imported.tree import game_tree
from sparring.eval.exploit import exploit_policy, main
from tests.configs import messages

pyspiel = pytest.importorskip("pyspiel")
LIMIT = (
    "universal_poker(betting=limit,numPlayers=2,numRounds=4,blind=1 2,firstPlayer=1 1 1 1,raiseSize=2 2 4 4,"
    "maxRaises=4 4 4 4,numSuits=4,numRanks=13,numHoleCards=2,numBoardCards=0 3 1 1)"
)
MINE = "tests.envs.imported.evaluation.players.foreign_players"


def exploited(text, game, tmp_path, moves=20_000, **options):
    return exploit_policy(text, env="openspiel", id=game, moves=moves, out=tmp_path, **options).data


@pytest.mark.parametrize(("solver", "name"), [("CFRSolver", "cfr"), ("CFRPlusSolver", "cfr+")])
@pytest.mark.parametrize(("game_id", "iterations"), [("kuhn_poker", 5), ("leduc_poker", 10)])
def test_exact_exploitability_of_cfr_matches_openspiel(game_id, iterations, solver, name):
    game = pyspiel.load_game(game_id)
    reference = getattr(pyspiel, solver)(game)
    for _ in range(iterations):
        reference.evaluate_and_update_policy()
    expected = pyspiel.exploitability(game, reference.tabular_average_policy())
    tree, player = game_tree(game_id, {}), open_player(f"openspiel:{name}:{iterations}", game)
    assert tree.exploitability(table_of(tree, player)) == pytest.approx(expected, abs=1e-9)


def test_always_passing_python_player_loses_every_ante(tmp_path):
    """Kuhn poker. The attacker bets, the player folds: +1 in each seat."""
    data = exploited(f"{MINE}:Fold", "kuhn_poker", tmp_path, moves=4000)
    assert data["sampled"][0]["returns"] == [1.0, 1.0]
    assert data["exploitability"]["sampled"] == pytest.approx(1.0)


def test_always_betting_python_player_loses_expected_value(tmp_path):
    """Kuhn poker. Folding costs 1 and calling wins or loses 2: with jack -1, with queen 0, with king +2; mean 1/3."""
    data = exploited(f"{MINE}:Stepping", "kuhn_poker", tmp_path, moves=4000)
    assert data["exploitability"]["sampled"] == pytest.approx(1 / 3)
    assert data["sampled"][0]["player"] == "sampling, against stochastic play"


def test_simultaneous_players_answer_by_seat(tmp_path):
    data = exploited(f"{MINE}:Fold", "matrix_rps", tmp_path, moves=500)
    assert data["sampled"][0]["returns"] == [1.0, 1.0]


def test_tree_search_is_deterministic_and_loses_to_response(tmp_path):
    """Each position has its own seed, so the response replays one won game."""
    data = exploited("openspiel:mcts:3", "tic_tac_toe", tmp_path)
    assert data["sampled"][0]["gain"] > 0.4
    assert "exploitability" in data or game_tree("tic_tac_toe", {}) is None


def test_information_set_search_answers_with_probabilities():
    game = pyspiel.load_game("kuhn_poker")
    player = open_player("openspiel:ismcts:60", game)
    player.replay(game)
    state = first_state(game).child(0).child(1)
    ((action, share), *others) = player([state])[0]
    assert share + sum(p for _, p in others) == pytest.approx(1.0)
    assert share > 0.0
    assert action in (0, 1)


def test_game_without_information_state_strings_is_attacked(tmp_path):
    data = exploited(f"{MINE}:Fold", "breakthrough(rows=4,columns=3)", tmp_path, moves=4000)
    assert data["sampled"][0]["returns"] == [1.0, 1.0]


def test_likeliest_actions_are_separate_player(tmp_path):
    data = exploited("openspiel:cfr:3", "kuhn_poker", tmp_path, moves=4000, target="all")
    assert [record["player"] for record in data["sampled"]] == ["sampling", "sampling, against stochastic play"]
    assert data["exploitability"]["deterministic"] != pytest.approx(data["exploitability"]["sampled"])


def test_results_of_changeable_player_are_not_reused(tmp_path, monkeypatch):
    from tests.envs.imported.evaluation.players import foreign_players

    first = exploited(f"{MINE}:Fold", "kuhn_poker", tmp_path, moves=4000)
    monkeypatch.setattr(foreign_players, "Fold", foreign_players.Stepping)
    second = exploited(f"{MINE}:Fold", "kuhn_poker", tmp_path, moves=4000)
    assert first["sampled"][0]["gain"] == 1.0
    assert second["sampled"][0]["gain"] < 0.6


def test_budget_is_alias_of_shared_moves(tmp_path):
    by_name = [
        sparring.exploit("openspiel:uniform", id="kuhn_poker", out=tmp_path / name, **{name: 2000})
        for name in ("moves", "budget")
    ]
    assert by_name[0].data["sampled"][0]["moves"] == by_name[1].data["sampled"][0]["moves"] == by_name[1].moves
    with pytest.raises(InputError, match="budget=1: replaces moves=2; leave one out"):
        sparring.exploit("openspiel:uniform", id="kuhn_poker", budget=1, moves=2)


def test_slow_player_gets_time_estimate(tmp_path):
    report = exploit_policy(f"{MINE}:Slow", id="kuhn_poker", moves=200, out=tmp_path)
    assert "Slow is slow: 0.02" in report.markdown
    assert "seconds a decision" in report.markdown


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Raising", ("Raising", "RuntimeError: no", "line 24 of foreign_players.py")),
        ("Short", ("sum to 0.7, not to 1",)),
        ("Negative", ("1.5 is not in [0, 1]",)),
        ("NotNumbers", ("nan is not in [0, 1]",)),
        ("Illegal", ("action 7 is not legal ([0, 1])",)),
        ("Listing", ("expected probabilities by action, got [0.5, 0.5]",)),
        ("Exiting", ("Exiting: raised", "SystemExit")),
        ("ExitingWhenMade", ("SystemExit", "when made")),
        ("Fraction", ("expected probabilities by action, got {0.9: 1.0}",)),
        ("TextAction", ("expected probabilities by action, got {'1': 1.0}",)),
        ("TextProbability", ("expected probabilities by action, got {0: '0.5', 1: '0.5'}",)),
        ("SteppingByFlags", ("expected probabilities by action, got {True: 1.0}",)),
        ("Changing", ("answers changed when asked again", "fix its seed")),
        ("Learning", ("12 of 12 answers changed during the attack", "fix its seed")),
        ("Peeking", ("answers changed when asked again", "information state alone")),
        ("Empty", ("neither action_probabilities(state, player) nor step(state)",)),
        ("NUMBER", ("got int",)),
        ("Fould", ("has no Fould", "did you mean 'Fold'?")),
    ],
)
def test_wrong_player_gives_one_line_error(name, parts, tmp_path, capsys):
    words = [f"{MINE}:{name}", "--env", "openspiel", "--id", "kuhn_poker", "--moves", "100", "--out", str(tmp_path)]
    assert main(words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    for part in parts:
        assert part in error


def test_player_that_modifies_state_equals_one_that_does_not(tmp_path):
    """Both always take the first legal action, so betting wins every game."""
    moving, fold = (
        exploit_policy(f"{MINE}:{name}", id="kuhn_poker", moves=2000, out=tmp_path / name)
        for name in ("Moving", "Fold")
    )
    assert moving.exact == fold.exact
    assert moving.gain == fold.gain


def test_one_player_game_is_rejected_before_search(tmp_path, capsys):
    assert main(["openspiel:uniform", "--env", "openspiel", "--id", "catch", "--out", str(tmp_path)]) == 2
    assert "catch(): the game has one player" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_exploit"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row)


def test_custom_game_is_registered_by_its_import(tmp_path, capsys):
    where = ["--id", "kuhn_poker_of_a_user", "--out", str(tmp_path)]
    small = ("ppo.rollout_steps=16", "ppo.minibatch_size=256", "network.hidden=16")
    words = ["openspiel:uniform", *small, *where, "--attacker", "cold", "--moves", "1024", "--threads", "1"]
    assert main(words) == 2
    assert "is not a game of OpenSpiel" in capsys.readouterr().err
    assert main([*words, "--import", "tests.envs.imported.foreign_game", "--quiet"]) == 0
    exact = json.loads((tmp_path / "exploit.json").read_text())["exploitability"]["sampled"]
    assert exact == pytest.approx(11 / 24)


def test_saved_results_of_openspiel_players_are_reused(tmp_path):
    first = exploited("openspiel:cfr:2", "kuhn_poker", tmp_path, moves=2000)
    (kept,) = tmp_path.glob("sampling-stochastic-*/result.jsonl")
    content = json.loads(kept.read_text())
    content["result"]["moves"] = 12345
    kept.write_text(json.dumps(content))
    again = exploited("openspiel:cfr:2", "kuhn_poker", tmp_path, moves=2000)
    assert (first["sampled"][0]["moves"] != 12345, again["sampled"][0]["moves"]) == (True, 12345)
    assert np.isfinite(first["sampled"][0]["gain"])


@pytest.mark.parametrize(
    ("theirs", "ours", "chips", "starts"),
    [
        (["call", "check"], [1, 1], (2, 1), (0, 0)),
        (["raise", "call"], [2, 1], (4, 3), (0, 0)),
        (["call", "raise", "call"], [1, 2, 1], (4, 3), (1, 0)),
    ],
)
def test_rlcard_leduc_differs_in_stakes_and_turns(theirs, ours, chips, starts):
    """Chips after equal betting have no common ratio, and another player may start the second round."""
    game = pytest.importorskip("rlcard").make("leduc-holdem", config={"seed": 1}).game
    state = pyspiel.load_game("leduc_poker").new_initial_state().child(0).child(2)
    _, first = game.init_game()
    assert ("fold" in game.get_legal_actions(), 0 in state.legal_actions()) == (True, False)
    for mine, action in zip(theirs, ours, strict=True):
        _, turn = game.step(mine)
        state = state.child(action)
    assert [player.in_chips for player in game.players] == [chips[0]] * 2
    assert f"Money (player_0 player_1): {100 - chips[1]} {100 - chips[1]}\n" in str(state)
    assert ((turn - first) % 2, state.child(4).current_player()) == starts


def test_single_seat_bot_is_rejected_before_crash():
    """OpenSpiel's C++ random bot aborts the process when asked in the other seat."""
    register_opponent("one_seat")(pyspiel.make_uniform_random_bot(0, 1))
    try:
        with pytest.raises(InputError, match=r"one_seat: a bot of OpenSpiel plays one seat; name a function \(game, s"):
            read_object("one_seat", pyspiel.load_game("kuhn_poker"))
    finally:
        forget_opponent("one_seat")


@pytest.mark.parametrize("name", ["bots_in_c", "bots_in_python", "policy_in_c"])
def test_openspiel_bots_per_seat_and_c_policies_are_players(name):
    """Uniform play in Kuhn poker loses 11/24; a bot with probabilities does not sample."""
    game = pyspiel.load_game("kuhn_poker")
    player = open_player(f"{MINE}:{name}", game)
    player.replay(game)
    assert game_tree("kuhn_poker", {}).exploitability(table_of(game_tree("kuhn_poker", {}), player)) == pytest.approx(
        11 / 24
    )


def test_openspiel_bot_without_probabilities_steps_in_its_seat():
    """It bets as first player and passes as second."""
    state = first_state(game := pyspiel.load_game("kuhn_poker")).child(0).child(1)
    player = open_player(f"{MINE}:stubborn", game)
    assert [player([each])[0] for each in (state, state.child(0))] == [[(1, 1.0)], [(0, 1.0)]]


@pytest.mark.parametrize(
    ("model", "game_id", "actions", "expected"),
    [
        ("leduc-holdem-rule-v1", "leduc_poker", (0, 2), 2),  # it raises
        ("leduc-holdem-rule-v1", "leduc_poker", (0, 2, 2, 2), 1),  # the two raises of a round are made
        ("leduc-holdem-rule-v2", "leduc_poker", (4, 0), 1),  # rlcard folds for free, which is a check here
        ("leduc-holdem-rule-v2", "leduc_poker", (0, 4, 2), 0),
        ("leduc-holdem-rule-v2", "leduc_poker", (4, 0, 1, 1, 5), 2),  # a pair of kings
        ("limit-holdem-rule-v1", LIMIT, (0, 1, 2, 7), 2),  # 2c2d against 2h3s: a pair raises
        ("limit-holdem-rule-v1", LIMIT, (0, 21, 2, 7), 0),  # 2c7d
        ("limit-holdem-rule-v1", LIMIT, (48, 20, 2, 7), 2),  # Ac7c
    ],
)
def test_rlcard_rule_models_act_by_cards(model, game_id, actions, expected):
    pytest.importorskip("rlcard")
    state = first_state(game := pyspiel.load_game(game_id))
    for action in actions:
        state = state.child(action)
    assert open_player(f"rlcard:{model}", game)([state]) == [[(expected, 1.0)]]


def test_every_rlcard_model_plays_or_is_rejected_with_reason():
    models = pytest.importorskip("rlcard.models.registration").model_registry.model_specs
    assert {*models} == {*RULES, *REFUSED}
