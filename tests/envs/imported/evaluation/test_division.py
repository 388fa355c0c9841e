"""A budget shared by several attacks: omitted attacks, interruption, mixtures and earlier responses."""

import itertools
import json
import os
import re
import signal
import sys

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.callbacks import CallbackDispatcher
from sparring.agents.play.exploitability import policy_table
from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.players.state_players import open_player, table_of
from sparring.envs.imported.evaluation.players.state_seats import StateSeats, mixed
from sparring.envs.imported.states import first_state
from sparring.envs.imported.tree import game_tree
from sparring.eval.exploit import main
from sparring.eval.exploitability import attacks, found
from sparring.eval.exploitability.responses.sampled_response import ResponseSearch
from sparring.eval.exploitability.sampling import StateArena
from sparring.eval.payoff import main as payoff
from tests.agents.faults import victims
from tests.envs.imported.evaluation.saved import DUEL, save_run

pyspiel = pytest.importorskip("pyspiel")
policy = pytest.importorskip("open_spiel.python.policy")
aggregator = pytest.importorskip("open_spiel.python.algorithms.policy_aggregator")
exploitability = pytest.importorskip("open_spiel.python.algorithms.exploitability")
SMALL = {"ppo.rollout_steps": 16, "ppo.minibatch_size": 256, "network.hidden": 16}
PASSIVE = """
class Passive:
    def action_probabilities(self, state, player):
        return {state.legal_actions()[0]: 1.0}
"""
KUHN = {"env": "openspiel", "id": "kuhn_poker", "device": "cpu", "threads": 1}


def division(report):
    (divided,) = report.data["divisions"]
    return [(each["round"], each["attack"], each["moves"]) for each in divided["rounds"]]


def test_budget_is_split_and_weightless_attacks_are_noted(tmp_path):
    """Six attacks share 16,384 moves in three rounds, halving their number each time."""
    report = sparring.exploit("openspiel:cfr:3", SMALL, start="all", moves=16_384, out=tmp_path, **KUHN)
    rows = division(report)
    assert [attack for _, attack, _ in rows[:6]] == ["sampling", "search", "value", "local", "cold", "clone"]
    assert [round_ for round_, _, _ in rows] == [1] * 6 + [2] * 3 + [3] * 2
    assert sum({attack: moves for _, attack, moves in rows}.values()) <= 16_384
    assert "--attacker warm: openspiel-cfr-3-in-kuhn_poker does not expose its weights" in report.markdown
    assert "**Best gain of 6 attacks: " in report.markdown
    assert report.interval[0] < report.exact == pytest.approx(7 / 36)
    final, rounds = report.data["maximum"]["gain_interval"], report.data["divisions"][0]["rounds"]
    assert all(final != each["interval"] for each in rounds)  # the final figure is of other games


WORDS = (
    *("openspiel:cfr:3", *(f"{key}={value}" for key, value in SMALL.items()), "--env", "openspiel", "--id"),
    *("kuhn_poker", "--moves", "12288", "--quiet", "--attacker", "cold", "sampling", "clone", "--device", "cpu"),
    *("--threads", "1", "--out"),
)


def divided(folder, updates=None):
    """Divide a budget like the command; the process is killed after this many updates."""
    after, count = CallbackDispatcher.after_update, itertools.count(1)

    def counted(*arguments):
        if next(count) == updates:
            os.kill(os.getpid(), signal.SIGKILL)
        return after(*arguments)

    CallbackDispatcher.after_update = counted
    found.FRESH_GAMES = attacks.ROUND_GAMES = 200
    sys.exit(main([*WORDS, str(folder)]))


def figures(folder):
    content = json.loads((folder / "exploit.json").read_text())
    kept = {key: content[key] for key in ("sampled", "curves", "divisions", "maximum")}
    return re.sub(r'"seconds": [0-9.e-]+', "", json.dumps(kept))


def test_twice_killed_division_ends_like_uninterrupted_one(tmp_path):
    """Two runs of two updates, then one or both continue: kills are in the first training and in round 2."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert [victims.finish(divided, folder, updates) for folder, updates in ((whole, None), (cut, 1), (cut, 5))] == [
        0,
        -9,
        -9,
    ]
    assert [*cut.glob("*/rounds.jsonl")]
    assert not (cut / "exploit.json").exists()
    assert victims.finish(divided, cut) == 0
    assert figures(cut) == figures(whole)


def test_earlier_response_is_measured_first_without_moves(tmp_path):
    game = KUHN | {"id": "kuhn_poker(players=2)"}  # a run of cold has the options of the name as env.kwargs
    sparring.exploit("openspiel:cfr:3", moves=4000, out=tmp_path, **game)
    (earlier,) = (tmp_path / "responses").glob("*.json")
    how = {"start": ["sampling", "cold"], "moves": 4096, "out": tmp_path, **game}
    report = sparring.exploit("openspiel:cfr:3", SMALL, **how)
    assert division(report)[0] == (0, f"earlier {earlier.stem}", 0)
    assert "**Best gain of 3 attacks: " in report.markdown
    assert division(sparring.exploit("openspiel:cfr:3", SMALL, **how)) == division(report)  # nothing is found anew


def test_responses_of_other_game_in_folder_are_ignored(tmp_path):
    sparring.exploit("openspiel:uniform", moves=4000, out=tmp_path, **KUHN)
    how = {"start": ["sampling", "search"], "moves": 4000, "out": tmp_path}
    report = sparring.exploit("openspiel:uniform", **how, **{**KUHN, "id": "kuhn_poker(players=3)"})
    assert {attack for _, attack, _ in division(report)} == {"sampling", "search"}
    assert "**Best gain of 2 attacks: " in report.markdown


def test_learned_value_is_rejected_in_game_without_tensors(tmp_path):
    message = "--id cribbage: does not offer a tensor of its information_state or observation; choose another game"
    with pytest.raises(InputError, match=message):
        sparring.exploit("openspiel:uniform", start="value", moves=4000, out=tmp_path, **{**KUHN, "id": "cribbage"})


@pytest.mark.parametrize("suffix", [".json", ".pt"])
def test_damaged_earlier_response_is_rejected_by_file(tmp_path, suffix):
    sparring.exploit("openspiel:uniform", moves=4000, out=tmp_path, **KUHN)
    (earlier,) = (tmp_path / "responses").glob("*.json")
    earlier = earlier.rename(earlier.with_suffix(suffix))
    earlier.write_text("{}")
    with pytest.raises(InputError, match=rf"responses.*\{suffix}: is damaged; delete it"):
        sparring.exploit("openspiel:uniform", start=["sampling", "search"], moves=4000, out=tmp_path, **KUHN)


def test_search_against_other_player_is_not_resumed(tmp_path, monkeypatch):
    """Python objects have no hash, so an unfinished search may be of a changed player."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mended.py").write_text(PASSIVE)
    how = {"moves": 8000, "out": tmp_path / "out", **KUHN}
    monkeypatch.setattr(StateArena, "measure", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sparring.exploit("mended:Passive", **how)
    left = [*(tmp_path / "out").glob("sampling-*/sampling/seat_0/update_*")]
    assert left
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ResponseSearch, "load_state_dict", lambda *_: pytest.fail("continues the search"))
    assert sparring.exploit("mended:Passive", **how).gain > 0.3


def test_steps_option_with_game_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"--steps 5000: requires a policy of this project; with --id use --moves"):
        sparring.exploit("openspiel:uniform", start="cold", steps=5000, out=tmp_path, **KUHN)


def test_mixture_matches_openspiel_aggregation(tmp_path):
    """OpenSpiel's aggregation and exact best response are the reference; a per-state mean differs."""
    game, names = pyspiel.load_game("leduc_poker"), ["openspiel:uniform", "openspiel:cfr:5"]
    solver = pyspiel.CFRSolver(game)
    for _ in range(5):
        solver.evaluate_and_update_policy()
    average = solver.tabular_average_policy()
    members = [
        policy.UniformRandomPolicy(game),
        policy.tabular_policy_from_callable(
            game, lambda state: dict(average.action_probabilities(state.information_state_string()))
        ),
    ]
    whole = aggregator.PolicyAggregator(game).aggregate([0, 1], [members] * 2, [[0.5, 0.5]] * 2)
    exact = exploitability.nash_conv(game, whole) / 2
    report = sparring.exploit(names, moves=20_000, out=tmp_path, **{**KUHN, "id": "leduc_poker"})
    assert report.exact == pytest.approx(exact)
    assert report.data["player"].startswith("mixture of 2 policies: ")
    assert report.interval[0] < exact


def test_simultaneous_mixture_follows_each_members_play():
    """One member bids 1 and the other 2, else the lowest card: after a bid of 1 only the first remains."""
    game = pyspiel.load_game("goofspiel(imp_info=True,num_cards=3,points_order=descending)")

    def always(card):
        def policy(states):
            return [[(card if card in state.legal_actions() else state.legal_actions()[0], 1.0)] for state in states]

        return policy

    policy, state = mixed([always(1), always(2)]), first_state(game)
    assert policy([state]) == [[(1, 0.5), (2, 0.5)]]
    assert policy([state.child(0)]) == [[(1, 0.5), (2, 0.5)]]  # the other seat, in the same move
    after = state.child(1).child(0)
    assert after.current_player() == 0
    assert policy([after]) == [[(0, 1.0)]]  # the member that bids 2 first is not here


def test_repeated_members_and_planners_are_rejected(tmp_path):
    path = save_run(tmp_path / "kuhn", "openspiel", "kuhn_poker")
    with pytest.raises(InputError, match="is named twice; all members of a mixture have equal shares"):
        sparring.exploit([path, path], device="cpu")
    with pytest.raises(InputError, match="plans only in the dogfight"):
        sparring.exploit("openspiel:uniform", start="planner", **KUHN)
    with pytest.raises(InputError, match="does not expose its weights"):
        sparring.exploit("openspiel:uniform", start="warm", out=tmp_path, **KUHN)
    with pytest.raises(InputError, match="replaces --moves"):
        sparring.exploit("openspiel:uniform", minutes=1, moves=5, **KUHN)


def test_game_without_copies_is_attacked_by_training_only(tmp_path):
    pytest.importorskip("matplotlib")
    path = save_run(tmp_path / "duel", "pettingzoo", DUEL)
    how = {"start": ["sampling", "cold", "warm"], "moves": 2048, "games": 20, "out": tmp_path / "out"}
    options = {key: value for key, value in SMALL.items() if key != "network.hidden"}
    report = sparring.exploit(path, options, **how, **{"import": [DUEL]}, device="cpu", threads=1)
    assert "--attacker sampling: pettingzoo:" in report.markdown
    assert "does not copy its states; remove it" in report.markdown
    assert [attack for _, attack, _ in division(report)] == ["cold", "warm"]
    assert len(report.data["curves"]) == 1


def test_minutes_are_divided(tmp_path):
    report = sparring.exploit("openspiel:cfr:3", minutes=0.02, out=tmp_path, **KUHN)
    assert 0 < report.moves < 20_000  # it met every history before it could go on by this
    assert "minutes" in report.data["command"]


def test_state_player_samples_from_its_generator():
    """A policy of 1/4 and 3/4: 2,000 draws are within four standard errors, 0.039."""
    game = pyspiel.load_game("kuhn_poker")
    seats = StateSeats(lambda states: [[(0, 0.25), (1, 0.75)] for _ in states], "mine", seed=3)
    states = [first_state(game).child(0).child(1)] * 2000
    kept = seats.generator.get_state()
    first = seats._draw(states)
    assert np.mean(first) == pytest.approx(0.75, abs=0.039)
    assert seats._draw(states) != first
    seats.generator.set_state(kept)
    assert seats._draw(states) == first
    assert isinstance(seats.generator, torch.Generator)


def test_saved_response_plays_in_evaluations_and_payoffs(tmp_path, capsys):
    """A fixed policy's mean reward against it, from exact values of the game tree."""
    response, path = tmp_path / "response.json", save_run(tmp_path / "kuhn", "openspiel", "kuhn_poker")
    sparring.exploit("openspiel:uniform", moves=5000, save=response, out=tmp_path, **KUHN)
    tree = game_tree("kuhn_poker", {})
    player, mine = open_player(str(response), pyspiel.load_game("kuhn_poker")), sparring.load(path)
    own, theirs = policy_table(mine.policy, tree, deterministic=True), table_of(tree, player)
    seats = [np.where((tree.owner == seat)[:, None], own, theirs) for seat in (0, 1)]
    exact = np.mean([tree.values(table)[seat] for seat, table in enumerate(seats)])
    played = sparring.evaluate(path, opponents=[str(response), "openspiel:uniform"], games=2000, device="cpu")
    record = played.data["records"][0]
    assert record["opponent"] == str(response)
    assert record["mean_reward"] == pytest.approx(exact, abs=0.15)
    words = ["--ckpt", str(path), "--opponents", str(response), "--games", "20", "--out", str(tmp_path / "payoff.png")]
    assert payoff([*words, "--device", "cpu"]) == 0
    assert main(["openspiel:uniform", "--id", "kuhn_poker", "--attacker", "nothing.pt", "--out", str(tmp_path)]) == 2
    assert "nothing.pt" in capsys.readouterr().err
