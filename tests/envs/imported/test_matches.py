"""Matches against the same games stepped through their own interfaces."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, flatten

from sparring.configs.core.errors import ConfigError
from sparring.envs.imported.match import make_match
from sparring.envs.imported.openspiel import seat_rows
from tests.envs.imported.games import Fading, Shuffled, legal, play

CLASSIC = {"connect_four_v3": "pygame", "tictactoe_v3": "pygame", "leduc_holdem_v4": "rlcard"}
TOYS = "tests.envs.imported.games"


def check_by_agent_iter(env, seats, moves, seed):
    """Step `env` through PettingZoo's loop with the actions of `moves`; every turn must match."""
    env.reset(seed=seed)
    moves, paid, done = list(moves), np.zeros(len(seats)), 0
    for agent in env.agent_iter():
        obs, reward, terminated, truncated, info = env.last()
        seat = seats.index(agent)
        assert reward == pytest.approx(paid[seat], abs=1e-12)
        move = moves[done] if done < len(moves) else None
        if terminated or truncated:
            before = moves[done - 1]
            assert (before.terminated[seat], before.truncated[seat]) == (terminated, truncated and not terminated)
            env.step(None)
            continue
        masked = isinstance(obs, dict)
        mask = obs["action_mask"] if masked else info["action_mask"]
        space = env.observation_space(agent)
        seen = flatten(space["observation"], obs["observation"]) if masked else flatten(space, obs)
        assert move.turn == [seat]
        np.testing.assert_array_equal(move.observed[seat][0], seen.astype(np.float32))
        assert move.observed[seat][1] == list(mask)
        paid[seat] = 0.0
        paid += move.rewards
        done += 1
        env.step(move.actions[seat])
    assert done == len(moves)


@pytest.mark.parametrize("name", CLASSIC)
def test_turns_rewards_and_observations_match_agent_iter(name):
    pytest.importorskip(CLASSIC[name])
    module = pytest.importorskip(f"pettingzoo.classic.{name}")
    match = make_match("pettingzoo", f"pettingzoo.classic.{name}", {})
    for seed in range(4):
        moves = play(match, seed)
        assert moves[-1].terminated.all()
        assert sum(move.rewards for move in moves).sum() == 0
        check_by_agent_iter(module.env(), match.seats, moves, seed)


def test_varying_order_with_early_endings_matches_agent_iter():
    match = make_match("pettingzoo", f"{TOYS}:Shuffled", {})
    assert match.masked
    orders = set()
    for seed in range(6):
        moves = play(match, seed)
        check_by_agent_iter(Shuffled(), match.seats, moves, seed)
        orders.add(tuple(move.turn[0] for move in moves))
        assert moves[-1].truncated.tolist() == [False, True, False]
        cut = next(move for move in moves if move.truncated[1])
        (final,) = cut.final.values()
        assert final[:3].tolist() == [1.0, 3.0, float(np.sum(cut.actions[1]))]
    assert len(orders) > 3


def check_by_parallel_steps(env, seats, moves, seed):
    shown, _ = env.reset(seed=seed)
    for move in moves:
        assert [seats[seat] for seat in move.turn] == env.agents
        for seat in move.turn:
            agent = seats[seat]
            seen = flatten(env.observation_space(agent), shown[agent])
            np.testing.assert_array_equal(move.observed[seat][0], seen.astype(np.float32))
        actions = {seats[seat]: action for seat, action in move.actions.items()}
        shown, rewards, terminated, truncated, _ = env.step(actions)
        assert move.rewards.tolist() == [rewards.get(agent, 0.0) for agent in seats]
        for seat, agent in enumerate(seats):
            if agent in rewards:
                assert (move.terminated[seat], move.truncated[seat]) == (terminated[agent], truncated[agent])
        for seat, seen in move.final.items():
            last = flatten(env.observation_space(seats[seat]), shown[seats[seat]])
            np.testing.assert_array_equal(seen, last.astype(np.float32))
    assert not env.agents


@pytest.mark.parametrize("continuous", [False, True])
def test_parallel_game_with_roles_matches_its_steps(continuous):
    module = pytest.importorskip("mpe2.simple_tag_v3")
    kwargs = {"max_cycles": 8, "continuous_actions": continuous}
    match = make_match("pettingzoo", "mpe2.simple_tag_v3", kwargs)
    moves = play(match, 5)
    assert len(moves) == 8
    assert moves[-1].truncated.all()
    assert len(moves[-1].final) == 4
    assert any(move.rewards.any() for move in moves)
    check_by_parallel_steps(module.parallel_env(**kwargs), match.seats, moves, 5)


def test_parallel_agents_can_end_at_different_times():
    match = make_match("pettingzoo", f"{TOYS}:Fading", {})
    for seed in range(3):
        moves = play(match, seed)
        assert [move.turn for move in moves] == [[0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3], [2, 3]]
        assert [list(move.final) for move in moves] == [[], [], [], [2]]
        check_by_parallel_steps(Fading(), match.seats, moves, seed)


SPIEL = {
    "kuhn_poker": {},
    "leduc_poker": {"players": 3},
    "dark_hex": {"board_size": 3},
    "goofspiel": {"num_cards": 4, "points_order": "random"},
    "matrix_rps": {},
    "pig": {"winscore": 12},
    "markov_soccer": {},
    "hex(board_size=8)": {},
    "2048": {},
    "python_kuhn_poker": {},
    "python_tic_tac_toe": {},
}


@pytest.mark.parametrize("name", SPIEL)
def test_openspiel_matches_equal_its_states(name):
    """Another state replays the history; tensors, masks, players and rewards are read from it."""
    pyspiel = pytest.importorskip("pyspiel")
    match = make_match("openspiel", name, SPIEL[name])
    game = match.game
    has = game.get_type().provides_information_state_tensor
    for seed in range(3):
        rng = np.random.default_rng(seed)
        match.reset(seed)
        total, moves = np.zeros(len(match.seats)), 0
        while not match.over and moves < 60:
            state = game.new_initial_state()
            for player, action in by_move(match.state):
                state.apply_actions(action) if player == pyspiel.PlayerId.SIMULTANEOUS else state.apply_action(action)
            together = state.is_simultaneous_node()
            assert match.deciding() == (list(range(len(match.seats))) if together else [state.current_player()])
            for seat in match.deciding():
                seen = state.information_state_tensor(seat) if has else state.observation_tensor(seat)
                np.testing.assert_array_equal(match.observe(seat).ravel(), np.array(seen, np.float32))
                assert match.mask(seat).tolist() == [bool(one) for one in state.legal_actions_mask(seat)]
                rows, masks = seat_rows([(match, 0), (match, seat)] if together else [(match, seat)])
                np.testing.assert_array_equal(rows[-1], np.array(seen, np.float32))
                assert masks[-1].tolist() == [bool(one) for one in state.legal_actions_mask(seat)]
            match.step(legal(match, rng))
            total += match.rewards
            moves += 1
            np.testing.assert_allclose(total if match.over or game_pays(game) else 0.0, match.state.returns())
        assert match.terminated.all() == match.over == match.state.is_terminal()


def by_move(state):
    """Return player and action of each move, with all actions for simultaneous moves."""
    pyspiel = pytest.importorskip("pyspiel")
    history, together = [(one.player, one.action) for one in state.full_history()], []
    for player, action in history:
        if state.get_game().get_type().dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL or player < 0:
            yield player, action
            continue
        together.append(action)
        if len(together) == state.num_players():
            yield pyspiel.PlayerId.SIMULTANEOUS, together
            together = []


def game_pays(game):
    return game.get_type().reward_model.name == "REWARDS"


def test_openspiel_chance_follows_probabilities_and_seed():
    pytest.importorskip("pyspiel")
    match = make_match("openspiel", "kuhn_poker", {})
    deals = []
    for seed in range(1800):
        match.reset(seed)
        deals.append(tuple(match.state.history()))
    counts = np.array([deals.count(deal) for deal in sorted(set(deals))])
    assert len(counts) == 6
    assert ((counts - 300.0) ** 2 / 300.0).sum() < 20.5  # chi-squared of 5 degrees of freedom at 0.001
    match.reset(7)
    assert tuple(match.state.history()) == deals[7]


def test_openspiel_observes_choices_and_boards_keep_shape():
    pytest.importorskip("pyspiel")
    chosen = make_match("openspiel", "leduc_poker", {}, observation="observation")
    assert chosen.observation_spaces[0].shape == (16,)
    assert make_match("openspiel", "leduc_poker", {}).observation_spaces[0].shape == (30,)
    board = make_match("openspiel", "hex", {"board_size": 5}, "ansi")
    board.reset(0)
    assert board.observation_spaces[0].shape == board.observe(0).shape == (9, 5, 5)
    assert board.longest == 25
    assert isinstance(board.render(), str)


def test_masks_are_removed_from_observation_and_frames_rendered():
    pytest.importorskip("pygame")
    match = make_match("pettingzoo", "pettingzoo.classic.tictactoe_v3", {}, "rgb_array")
    assert match.observation_spaces[0] == Dict({"observation": Box(0, 1, (3, 3, 2), np.int8)})
    match.reset(0)
    assert match.render().ndim == 3
    match.close()


@pytest.mark.parametrize(
    ("package", "name", "kwargs", "text"),
    [
        ("rlcard", "leduc", {}, "env.package=rlcard: is unknown; choose from pettingzoo, openspiel"),
        ("pettingzoo", "pettingzoo.classic.connect_for_v3", {}, "did you mean 'pettingzoo.classic.connect_four_v3'?"),
        ("pettingzoo", "no_such_package.game", {}, "no_such_package.game cannot be imported: ModuleNotFoundError"),
        ("pettingzoo", "", {}, "env.id=: it cannot be imported"),
        ("pettingzoo", "json", {}, "json does not define parallel_env or env or raw_env; name a module of a game"),
        ("pettingzoo", "no_such_package.game", {}, "; install it, or put its folder on PYTHONPATH"),
        ("pettingzoo", TOYS, {}, f"{TOYS} does not define parallel_env or env or raw_env, but Fading and "),
        ("pettingzoo", "json:dumps", {}, "cannot be made with no options: TypeError: dumps() missing"),
        ("pettingzoo", f"{TOYS}:Fading", {"size": 3}, "cannot be made with {'size': 3}: TypeError"),
        ("pettingzoo", "collections:Counter", {}, "makes a Counter; name a function that returns an AECEnv or a"),
        ("pettingzoo", "pettingzoo:ParallelEnv", {}, "lists no possible_agents; a game must name its players"),
        ("openspiel", "leduc_pokr", {}, "is not a game of OpenSpiel; did you mean 'leduc_poker'?"),
        ("openspiel", "leduc_poker", {"playerz": 3}, "cannot be made with {'playerz': 3}: SpielError: Unknown param"),
        ("openspiel", "leduc_poker(players=", {}, "env.id=leduc_poker(players=: "),
        ("openspiel", "mfg_crowd_modelling", {}, "is a mean field game"),
        ("openspiel", "crossword", {}, "does not show its observation: SpielError: "),
    ],
)
def test_invalid_game_is_rejected_in_one_line(package, name, kwargs, text):
    if package == "openspiel":
        pytest.importorskip("pyspiel")
    with pytest.raises(ConfigError) as refusal:
        make_match(package, name, kwargs)
    assert text in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_missing_package_names_install_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyspiel", None)
    with pytest.raises(ConfigError, match=r"needs open_spiel: run `sparring install open-spiel`"):
        make_match("openspiel", "kuhn_poker", {})
    monkeypatch.setitem(__import__("sys").modules, "rlcard", None)
    for module in [name for name in __import__("sys").modules if name.startswith("pettingzoo.classic")]:
        monkeypatch.delitem(__import__("sys").modules, module)
    with pytest.raises(ConfigError, match=r"pip install 'pettingzoo\[classic\]'"):
        make_match("pettingzoo", "pettingzoo.classic.leduc_holdem_v4", {})


@pytest.mark.parametrize(
    ("package", "name", "render_mode", "observation", "text"),
    [
        ("openspiel", "kuhn_poker", None, "tensor", "env.observation=tensor: is unknown; choose from auto, info"),
        (
            "openspiel",
            "hex",
            None,
            "information_state",
            "does not offer a tensor of its information_state; give env.observation=",
        ),
        ("openspiel", "kuhn_poker", "human", "auto", "render_mode=human: OpenSpiel's games are rendered as text"),
        ("pettingzoo", f"{TOYS}:Fading", None, "observation", "env.observation=observation: PettingZoo's games have"),
    ],
)
def test_wrong_match_options_are_rejected(package, name, render_mode, observation, text):
    if package == "openspiel":
        pytest.importorskip("pyspiel")
    with pytest.raises(ConfigError) as refusal:
        make_match(package, name, {}, render_mode, observation=observation)
    assert text in str(refusal.value)
