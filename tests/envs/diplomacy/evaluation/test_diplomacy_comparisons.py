"""Ladders, sequential tests and sampling policies against games played by hand."""

import json
import re
from functools import partial

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.evaluation.matches import DiplomacyMatches
from sparring.envs.diplomacy.rollouts.games import one_of_seven, play_to_end
from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player
from sparring.eval.run import main as run_main
from tests.envs.diplomacy.evaluation.test_diplomacy import untrained
from tests.envs.diplomacy.evaluation.test_diplomacy_payoff import shares
from tests.envs.diplomacy.evaluation.test_diplomacy_rivals import runs  # noqa: F401 - a fixture

main = partial(run_main, env="diplomacy")

QUICK = ["--last-year", "1902", "--threads", "1", "--device", "cpu", "--quiet"]
PLAYERS = ("random", "dumbbot", "chaos")


def pairs(player, opponent, games, seed=0):
    """Return how many pairs the player lost, drew and won, in the format of `pairs`."""
    ours, theirs = (np.array(shares(*names, games, 1902, seed)) for names in ((player, opponent), (opponent, player)))
    return [int((ours < theirs).sum()), 0, int((ours == theirs).sum()), 0, int((ours > theirs).sum())]


def test_ladder_rates_pairs_of_games(tmp_path):
    words = ["--ladder", "--opponents", ",".join(PLAYERS), "--games", "14", "--anchor", "chaos=100", *QUICK]
    assert main([*words, "--out", str(tmp_path)]) == 0
    content, table = json.loads((tmp_path / "diplomacy.json").read_text()), (tmp_path / "diplomacy.md").read_text()
    assert len(content["records"]) == 9  # one power against six, as without ratings
    for pair in content["pairs"]:
        assert pair["pairs"] == pairs(pair["player"], pair["opponent"], 14)
    assert [(pair["player"], pair["opponent"]) for pair in content["pairs"]] == [
        ("random", "dumbbot"), ("random", "chaos"), ("dumbbot", "chaos"),
    ]  # fmt: skip
    elo = {rating["player"]: rating["elo"] for rating in content["ratings"]}
    assert elo["chaos"] == 100.0
    assert elo["dumbbot"] > 100.0 > elo["random"]
    # A payoff matrix plays the same pairs of games.
    matrix = sparring.payoff(
        env="diplomacy", opponents=PLAYERS, games=28, last_year=1902, threads=1, anchor="chaos=100"
    ).data
    assert {rating["player"]: rating["elo"] for rating in matrix["ratings"]} == pytest.approx(elo)
    assert re.search(rf"^\| random +\| +\{elo['random']:+.0f}\*? \| ", table, re.MULTILINE)
    assert "28 games each in seat-swapped pairs" in table


def test_interrupted_ladder_has_no_ratings(tmp_path, monkeypatch):
    played, play = [], DiplomacyMatches.play

    def cut(matches, cell, bar):
        played.append(cell)
        if len(played) == 3:
            raise KeyboardInterrupt
        return play(matches, cell, bar)

    monkeypatch.setattr(DiplomacyMatches, "play", cut)
    words = ["--ladder", "--opponents", "random,dumbbot", "--games", "7", *QUICK, "--out", str(tmp_path)]
    assert main(words) == 130
    content = json.loads((tmp_path / "diplomacy.partial.json").read_text())
    assert len(content["records"]) == 2
    assert "ratings" not in content
    assert "Elo" not in (tmp_path / "diplomacy.partial.md").read_text()


def test_sequential_test_counts_pairs_of_new_games(tmp_path):
    """LLR = n (s1 - s0) (2 m - s0 - s1) / (2 v), with half a pair of each score added."""
    words = ["--bot", "chaos", "--opponents", "random", "--sprt", "elo1=50", "--games", "14", "--max-games", "28"]
    assert main([*words, "--seed", "3", *QUICK, "--out", str(tmp_path)]) == 1
    data = json.loads((tmp_path / "sprt.json").read_text())
    by_seed = [pairs("chaos", "random", 7, seed) for seed in (3, 4)]
    assert by_seed[0] != by_seed[1]  # so that games of one seed, played twice, would show
    assert data["pairs"] == np.sum(by_seed, axis=0).tolist()
    counts, scores = np.array(data["pairs"]) + 0.5, np.arange(5) / 4
    n, mean = counts.sum(), (counts * scores).sum() / counts.sum()
    variance = (counts * (scores - mean) ** 2).sum() / n
    s0, s1 = 0.5, 1 / (1 + 10 ** (-50 / 400))
    assert data["llr"] == pytest.approx(n * (s1 - s0) * (2 * mean - s0 - s1) / (2 * variance))
    assert (data["player"], data["opponent"], data["env"]) == ("chaos", "random", "sparring/Diplomacy-v0")


def test_named_policy_samples_anew_in_each_evaluation(tmp_path, packed_tasks):
    policy = untrained(tmp_path / "policy.pt")
    words = ["--bot", "dumbbot", "--games", "7", *QUICK, "--out", str(tmp_path)]

    def ends(*opponents, more=()):
        assert main([*words, "--opponents", ",".join(opponents), *more]) == 0
        records = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
        return {record["six"]: record["ends"] for record in records}

    sampled, sure = f"stochastic:{policy}", str(policy)
    first = ends(sampled, sure)
    batch, own = DiplomacyBatch(7, threads=1, last_year=1902), one_of_seven(7)
    drawn = PolicyOrders(load_checkpoint(policy).network, generator=torch.Generator().manual_seed(1))
    play_to_end(batch, [("dumbbot", own), (drawn, ~own)], seed=0)
    expected = [[owners.count(power) for power in range(7)] for owners in batch.owner.tolist()]
    batch.close()
    assert [[*map(int, end.split()[1:])] for end in first[sampled]] == expected
    assert first[sampled] != first[sure]
    assert ends(sure, sampled, more=["--workers", "2"]) == first
    assert ends(sampled, more=["--seed", "1"])[sampled] != first[sampled]
    assert ends(sure, more=["--stochastic"])[sure] == first[sampled]
    assert json.loads((tmp_path / "diplomacy.json").read_text())["deterministic"] is False
    assert "Policies draw their orders." in (tmp_path / "diplomacy.md").read_text().replace("\n", " ")


def test_evaluated_policy_samples_on_request(tmp_path):
    policy = untrained(tmp_path / "policy.pt")
    words = ["--ckpt", str(policy), "--opponents", "random", "--games", "7", *QUICK, "--out", str(tmp_path)]
    ends = []
    for more in ([], ["--stochastic"], ["--stochastic"]):
        assert main([*words, *more]) == 0
        ends.append(json.loads((tmp_path / "diplomacy.json").read_text())["records"][0]["ends"])
    assert ends[0] != ends[1] == ends[2]


def test_payoff_players_sample_orders(tmp_path):
    policy = untrained(tmp_path / "policy.pt")
    names = ["random", str(policy), f"stochastic:{policy}"]
    data = sparring.payoff(env="diplomacy", opponents=names, games=14, last_year=1902, threads=1).data
    assert [player["name"] for player in data["players"]] == names
    assert [player["file"] for player in data["players"]][1:] == [str(policy)] * 2
    assert data["records"][2]["pairs"] != [0, 0, 7, 0, 0]  # against itself, were both alike


def test_sampling_opponent_of_run_uses_noise():
    noise = torch.Generator()
    assert open_player("stochastic:released/diplomacy_student", noise=noise).generator is noise
    assert open_player("released/diplomacy_student", noise=noise).generator is None


def squares(end, power):
    """Return a power's share of squares for these final centre counts."""
    counts = [int(count) for count in end.split()[1:]]
    shares = [float(count > 17) if max(counts) > 17 else count * count for count in counts]
    return shares[power] / sum(shares)


def test_language_model_is_tested_in_pairs_of_games(runs):  # noqa: F811
    words = ["--ckpt", "learner", "--opponents", "random", "--seed", "5", *QUICK]
    assert main([*words, "--games", "7"]) == 0
    alone, six = (
        record["ends"] for record in json.loads((runs / "learner" / "eval.json").read_text())["records"]
    )  # the model against six, and six of it
    ours, theirs = (np.array([squares(end, game) for game, end in enumerate(ends)]) for ends in (alone, six))
    assert main([*words, "--games", "14", "--max-games", "14", "--sprt", "elo1=50"]) == 1
    data = json.loads((runs / "learner" / "sprt.json").read_text())
    assert data["pairs"] == [int((ours < theirs).sum()), 0, int((ours == theirs).sum()), 0, int((ours > theirs).sum())]


def test_options_unsupported_by_language_models_are_rejected(runs, error_line):  # noqa: F811
    for more, message in (
        (["--opponents", "random", "--sprt", "--protocol", "alone"], "--protocol does not go with --sprt"),
        (["--opponents", "random", "--stochastic"], "--stochastic: learner is a language model"),
        (["--opponents", "stochastic:other"], "--opponents stochastic:other: learner is a language model"),
    ):
        assert message in error_line(main, ["--ckpt", "learner", *more, *QUICK])
