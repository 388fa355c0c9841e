"""Comparisons in every game: payoff matrices, ladders and sequential tests, against brute force."""

import json
import math

import numpy as np
import pytest

import sparring
from sparring.agents.play import seat_matches
from sparring.configs import opponents as registry
from sparring.configs.core.errors import InputError
from sparring.envs.air_combat.training.opponents import CombatConditions
from sparring.envs.chess.evaluation.games import GameConditions, open_player, play_games
from sparring.envs.dogfight.training import matches as dogfight_matches
from sparring.envs.dogfight.training.matches import MatchSettings
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.training.opponents import load_seat_policy, open_seat_player
from sparring.eval.payoff import main as payoff_main
from sparring.eval.run import main
from tests.envs.imported.evaluation.saved import DUEL, save_run

Z2 = 1.959964**2
GAMES = 8
MOVERS = "tests.agents.opponents.movers"
HIGHEST, LOWEST = f"{DUEL}:Highest", f"{DUEL}:FirstLeft"
"""The highest of four cards three times against the lowest: 3 > 0, 2 > 1, 1 < 2, so that the first wins every game."""


@pytest.fixture
def who(request, tmp_path, checkpoints):
    """Return a game's options, two players, and the expected pair scores by halves of a game [pairs]."""
    if request.param == "dogfight":
        played = outcomes("ace", "brawler", MatchSettings(threads=1))
        return {"env": "dogfight"}, ("ace", "brawler"), played
    if request.param == "air_combat":
        played = outcomes("chaser", "turning", CombatConditions(threads=1))
        return {"env": "air_combat"}, ("chaser", "turning"), played
    path = save_run(tmp_path / "duel", "pettingzoo", DUEL)
    return {"ckpt": path, "import_": DUEL}, (HIGHEST, LOWEST), np.full(GAMES // 2, 4)


def outcomes(left, right, setting):
    """Return points of each pair by hand: games j and j + N/2 share a start."""
    outcome = dogfight_matches.play(left, right, games=GAMES, seed=0, setting=setting).outcome
    return [int(first + second) + 2 for first, second in zip(outcome[: GAMES // 2], outcome[GAMES // 2 :], strict=True)]


def interval(points):
    """Return the score interval as defined in `curriculum/score.py`, of pairs with points from 0 to 4."""
    scores = np.array(points) / 4
    n, m = len(scores), scores.mean()
    f = (((scores - m) ** 2).sum() + 1) / (n * m * (1 - m) + 1)
    trials = n / f
    centre = (m + Z2 / (2 * trials)) / (1 + Z2 / trials)
    half = math.sqrt(Z2) / (1 + Z2 / trials) * math.sqrt(m * (1 - m) / trials + Z2 / (4 * trials**2))
    return centre - half, centre + half


EVERY = pytest.mark.parametrize("who", ["dogfight", "air_combat", "imported"], indirect=True)


@EVERY
def test_matrix_without_snapshots_has_intervals_and_anchor(who, tmp_path):
    options, (one, other), points = who
    given = {key: value for key, value in options.items() if key in ("env", "import_")}
    names = [one, other, *([str(options["ckpt"])] if "ckpt" in options else [])]
    out = tmp_path / "matrix.png"
    report = sparring.payoff(
        **given, opponents=names, games=GAMES, anchor=f"{other}=700", stochastic=True, threads=1, out=out
    )
    data = report.data
    assert [player["name"] for player in data["players"]][:2] == [one, other]
    assert data["payoff"][0][1] == pytest.approx(np.mean(points) / 4)
    assert data["intervals"][0][1] == pytest.approx(interval(points), abs=1e-6)
    assert data["intervals"][1][0] == pytest.approx([1 - end for end in interval(points)[::-1]], abs=1e-6)
    low, high = interval(points)
    assert f"{25 * np.mean(points):.1f} ({100 * low:.1f} to {100 * high:.1f})" in report.markdown
    assert data["anchor"] == {"player": other, "elo": 700.0}
    assert data["deterministic"] is False
    assert "sampled actions" in report.markdown
    assert json.loads(out.with_suffix(".json").read_text()) == data


@pytest.fixture
def chess_points():
    """Return points of random moves against `First` in pairs of one opening."""
    conditions = GameConditions(GAMES, 40, 4, True, 0)
    players = open_player("random"), open_player(f"{MOVERS}:First")
    points = [game.points for game in play_games(*players, conditions)]
    return [round(2 * (points[i] + points[i + 1])) for i in range(0, GAMES, 2)]


def test_chess_ladder_rates_every_pair(chess_points, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    words = ["--env", "chess", "--ladder", "--ckpt", "bot:builtin", "--opponents", "random", f"{MOVERS}:First"]
    words += ["--games", str(GAMES), "--plies", "40", "--anchor", "builtin=100", "--quiet", "--out", str(tmp_path)]
    assert main(words) == 0
    data = json.loads((tmp_path / "ladder.json").read_text())
    assert (data["kind"], data["env"], data["plies"]) == ("ladder", "sparring/Chess-v0", 40)
    assert [(record["player"], record["opponent"]) for record in data["records"]] == [
        ("random", f"{MOVERS}:First"),
        ("random", "builtin"),
        (f"{MOVERS}:First", "builtin"),
    ]
    assert data["records"][0]["score"] == pytest.approx(np.mean(chess_points) / 4)
    low, high = interval(chess_points)
    assert (
        f"{25 * np.mean(chess_points):.1f} ({100 * low:.1f} to {100 * high:.1f})"
        in (tmp_path / "ladder.md").read_text()
    )
    assert {rating["player"]: rating["elo"] for rating in data["ratings"][""]}["builtin"] == 100.0


def test_chess_payoff_matrix_has_points_of_every_pair(chess_points, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    names, out = ["random", f"{MOVERS}:First", "builtin"], tmp_path / "matrix.png"
    report = sparring.payoff(env="chess", opponents=names, games=GAMES, plies=40, anchor="builtin=700", out=out)
    data = report.data
    assert [player["name"] for player in data["players"]] == names
    assert (data["kind"], data["env"]) == ("chess_payoff", "sparring/Chess-v0")
    assert data["payoff"][0][1] == pytest.approx(np.mean(chess_points) / 4)
    assert data["intervals"][0][1] == pytest.approx(interval(chess_points), abs=1e-6)
    assert data["anchor"] == {"player": "builtin", "elo": 700.0}
    assert "Note: builtin: builtin (built-in search" in report.markdown
    assert out.exists()


def test_chess_sequential_test_counts_pairs_per_opening(chess_points, tmp_path):
    words = ["--env", "chess", "--ckpt", "bot:random", "--opponents", f"{MOVERS}:First", "--sprt", "--plies", "40"]
    words += ["--games", str(GAMES), "--max-games", str(GAMES), "--quiet", "--out", str(tmp_path)]
    assert main(words) == 1
    assert json.loads((tmp_path / "sprt.json").read_text())["pairs"] == np.bincount(chess_points, minlength=5).tolist()


def test_chess_player_on_both_sides_is_not_rated(capsys):
    for option in ("--ladder", "--sprt"):
        assert main(["--env", "chess", "--ckpt", "bot:random", "--opponents", "self", option]) == 2
        assert f"--opponents self: does not go with {option}" in capsys.readouterr().err


@EVERY
def test_ladder_rates_every_pair(who, tmp_path):
    options, (one, other), points = who
    ckpt = (
        str(options["ckpt"]) if "ckpt" in options else "bot:do_nothing" if options["env"] == "dogfight" else "bot:ace"
    )
    more = ["--import", DUEL] if "import_" in options else ["--env", options["env"]]
    words = ["--ladder", "--ckpt", ckpt, "--opponents", one, other, "--anchor", f"{other}=100"]
    assert main([*words, *more, "--games", str(GAMES), "--threads", "1", "--quiet", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "ladder.json").read_text())
    assert data["kind"] == "ladder"
    (record,) = [record for record in data["records"] if (record["player"], record["opponent"]) == (one, other)]
    assert record["score"] == pytest.approx(np.mean(points) / 4)
    (ratings,) = data["ratings"].values()
    assert len(ratings) == 3
    assert {rating["player"]: rating["elo"] for rating in ratings}[other] == 100.0
    assert f"{25 * np.mean(points):.1f} (" in (tmp_path / "ladder.md").read_text()


@pytest.mark.parametrize("game", ["air_combat", "imported"])
def test_sequential_test_counts_pairs_of_new_games(game, tmp_path, checkpoints):
    """LLR = n (s1 - s0) (2 m - s0 - s1) / (2 v), with half a pair of each score added."""
    if game == "air_combat":
        words = ["--env", game, "--ckpt", "bot:chaser", "--opponents", "turning"]
        results = [
            dogfight_matches.play("chaser", "turning", games=4, seed=seed, setting=CombatConditions(threads=1))
            for seed in (7, 8)
        ]
        points = [int(one.outcome[i] + one.outcome[i + 2]) + 2 for one in results for i in (0, 1)]
    else:
        path = save_run(tmp_path / "duel", "pettingzoo", DUEL)
        words = ["--ckpt", str(path), "--opponents", LOWEST, "--import", DUEL, "--stochastic"]
        player = load_seat_policy(path, deterministic=False)
        points = []
        for seed in (7, 8):
            batch = make_batch("pettingzoo", DUEL, {}, 4, seed)
            players = player, open_seat_player(LOWEST, player.contract)
            outcome = seat_matches.play(batch, players, 4, seed).outcome
            points += [int(outcome[i] + outcome[i + 1]) + 2 for i in (0, 2)]
        assert sorted(points[:2]) != sorted(points[2:])  # so that games of one seed, played twice, would show
    words += ["--sprt", "elo1=50", "--games", "4", "--max-games", "8", "--seed", "7", "--threads", "1", "--quiet"]
    assert main([*words, "--out", str(tmp_path)]) == 1
    data = json.loads((tmp_path / "sprt.json").read_text())
    assert data["pairs"] == np.bincount(points, minlength=5).tolist()
    counts = np.array(data["pairs"]) + 0.5
    scores = np.arange(5) / 4
    n, mean = counts.sum(), (counts * scores).sum() / counts.sum()
    variance = (counts * (scores - mean) ** 2).sum() / n
    s0, s1 = 0.5, 1 / (1 + 10 ** (-50 / 400))
    assert data["llr"] == pytest.approx(n * (s1 - s0) * (2 * mean - s0 - s1) / (2 * variance))


def test_ladder_is_rejected_for_more_than_two_seats(tmp_path):
    pytest.importorskip("mpe2")
    path = save_run(tmp_path / "tag", "pettingzoo", "mpe2.simple_tag_v3")
    for options, what in (({"ladder": True}, "ladder"), ({"sprt": []}, "sprt")):
        with pytest.raises(InputError, match=f"--{what}: .*simple_tag_v3 has 4 seats, but .* needs two"):
            sparring.evaluate(path, opponents="random", **options)


def test_players_without_game_or_policy_are_rejected(checkpoints, error_line):
    (checkpoints / "cart").mkdir()
    (checkpoints / "cart" / "config.yaml").write_text("env: {id: CartPole-v1}")
    for words, message in (
        ([], "--ckpt is missing: pass a run's name"),
        (["--env", "openspiel"], "--opponents: random: name a run, or at least two players including a policy"),
        (
            ["--env", "gymnasium"],
            "unknown game 'gymnasium': choose from dogfight, diplomacy, chess, air_combat, pettingzoo, openspiel",
        ),
        (
            ["--env", "chess", "--ckpt", "run"],
            "--ckpt run: a run of chess has no snapshots; name players in --opponents",
        ),
        (["--env", "chess", "--opponents", "self,random"], "--opponents self: does not go with eval/payoff.py"),
        (["--ckpt", "cart"], "--ckpt cart: was trained in a Gymnasium environment, which has one player"),
        (["--opponents", "ace"], "--opponents: ace: name at least two players, or a run"),
    ):
        assert message in error_line(payoff_main, words)
