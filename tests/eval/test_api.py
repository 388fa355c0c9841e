"""`sparring.load`, `evaluate` and `record` match the command lines."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from scipy.stats import binomtest

import sparring
from sparring import InputError
from sparring.agents.policies.policy import PolicyError
from sparring.curriculum.score import score_interval
from sparring.envs.diplomacy.evaluation.options import read_settings
from sparring.envs.dogfight.training.matches import MatchSettings, play
from sparring.envs.dogfight.training.opponents.load import load_policy
from sparring.eval.diplomacy_replay import ReplayOptions
from sparring.eval.exploit import ExploitOptions
from sparring.eval.options import from_keywords, text_of
from sparring.eval.run import main

pytestmark = pytest.mark.usefixtures("long_steps")

RELEASED = "released/dogfight_bots_only"


@pytest.fixture(scope="module")
def observations():
    """Return the released policy's observations [T, 59] and actions [T, 3] in an evaluation match."""
    entrant = load_policy(sparring.load(RELEASED).path, "cpu")
    step, seen, done = entrant.contestant.step, [], []

    def spy(obs, memory):
        seen.append(obs.clone())
        done.append(step(obs, memory)[0].clone())
        return done[-1], memory

    entrant.contestant.step = spy
    play(entrant.contestant, "ace", games=2, seed=5, setting=MatchSettings(max_ticks=2400, threads=1))
    return seen, done


def test_predict_matches_evaluation_actions(observations):
    policy = sparring.load(RELEASED)
    low, high = policy.action_space.low, policy.action_space.high
    for obs, actions in zip(*observations, strict=True):
        taken, state = policy.predict(obs.numpy())
        assert state is None
        assert np.array_equal(taken, np.clip(actions.numpy(), low, high))
        assert torch.equal(policy.act(obs), actions)
        single, _ = policy.predict(obs[0].numpy())
        assert single.shape == (3,)
        assert policy.action_space.contains(single)
        assert np.allclose(single, taken[0], atol=1e-5)  # another batch size may round otherwise
    assert len(observations[0]) > 50


def test_policy_plays_environment():
    policy, env = sparring.load(RELEASED), gymnasium.make("sparring/Dogfight-v1", opponent="do_nothing")
    assert policy.observation_space == env.observation_space
    assert policy.action_space == env.action_space
    wins = 0
    for seed in range(3):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            obs, _, terminated, truncated, info = env.step(policy.predict(obs)[0])
            over = terminated or truncated
        wins += info["outcome"] > 0
    assert wins == 3


def test_recurrent_state_is_passed_between_calls(make_checkpoint):
    policy = sparring.load(make_checkpoint(memory="lstm", observe_physics=False, obs_dim=46))
    first, second = np.random.default_rng(0).uniform(-1, 1, (2, 4, 46))
    taken, state = policy.predict(first)
    assert [part.shape for part in state] == [(4, policy.policy.memory_size)]
    after, later = policy.predict(second, state)
    begins = np.array([True, False, False, True])
    again, mixed = policy.predict(second, state, begins)
    fresh, beginning = policy.predict(second)
    assert np.array_equal(mixed[0], np.where(begins[:, None], beginning[0], later[0]))
    assert np.array_equal(again, np.where(begins[:, None], fresh, after))
    assert np.abs(after - fresh).max() > 0.01
    assert np.allclose(policy.predict(first[0], None)[0], taken[0], atol=1e-5)
    with pytest.raises(
        sparring.InputError, match=r"the state has shape \(4, 32\); pass the state from the last call, \(1"
    ):
        policy.predict(first[0], state)
    with pytest.raises(sparring.InputError, match="has a memory"):
        policy.act(torch.zeros(1, 46))


def test_sampled_actions_vary_and_repeat_by_seed(observations):
    policy, obs = sparring.load(RELEASED), observations[0][0].numpy()
    policy.seed(3)
    first, second = (policy.predict(obs, deterministic=False)[0] for _ in range(2))
    policy.seed(3)
    assert np.array_equal(policy.predict(obs, deterministic=False)[0], first)
    assert not np.array_equal(first, second)
    assert np.array_equal(policy.predict(obs)[0], policy.predict(obs)[0])


def test_sb3_evaluates_policy():
    from stable_baselines3.common.evaluation import evaluate_policy

    env = gymnasium.make("sparring/Dogfight-v1", opponent="do_nothing")
    mean, _ = evaluate_policy(sparring.load(RELEASED), env, n_eval_episodes=2, warn=False)
    assert mean > 0


@pytest.mark.parametrize("wrong", [np.zeros(58), np.zeros((2, 3, 59)), "text", {"observation": np.zeros(59)}, 1.0])
def test_wrong_observation_gives_one_line_error(wrong):
    with pytest.raises(PolicyError, match=r"dogfight_bots_only: the observation has .*; sparring/Dogfight-v1 has Box"):
        sparring.load(RELEASED).predict(wrong)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("released/dogfight_quikstart", "did you mean 'released/dogfight_quickstart'"),
        ("bot:ace", r"bot:ace: is a bot or a language model, .* sparring.evaluate\('bot:ace'\)"),
        ("tiny", "tiny: is a bot or a language model"),
    ],
)
def test_players_without_observations_are_not_loaded(name, words):
    with pytest.raises(InputError, match=words):
        sparring.load(name)


@pytest.fixture(scope="module")
def cart(tmp_path_factory):
    """Train a run on CartPole with normalized observations."""
    options = {"env.num_envs": 2, "env.normalize_obs": True, "ppo.rollout_steps": 64, "max_updates": 2}
    options |= {"checkpoint_dir": str(tmp_path_factory.mktemp("cart")), "logger.progress": False, "device": "cpu"}
    options |= {"ppo.minibatch_size": 64, "threads": 1}
    return sparring.train("gymnasium", options)


def test_gymnasium_policy_receives_normalized_observations(cart):
    from sparring.agents.policies.checkpoint import load_checkpoint
    from sparring.envs.imported.evaluation.episodes import make_envs

    policy, checkpoint = sparring.load(cart), load_checkpoint(cart)
    envs = make_envs(checkpoint, 4, 0, "cpu")
    raw, _ = envs.envs.reset(seed=3)
    for _ in range(20):
        expected = checkpoint.network.act(envs.encode(raw), deterministic=True)[0][:, 0].numpy()
        taken, _ = policy.predict(raw)
        assert np.array_equal(taken, expected.astype(np.int64))
        assert policy.predict(raw[0])[0] == taken[0]
        raw = envs.envs.step(taken)[0]


def test_diplomacy_policy_orders_as_in_evaluation(tmp_path):
    options = {"env.num_envs": 7, "ppo.rollout_steps": 2, "ppo.minibatch_size": 14, "max_updates": 1, "threads": 1}
    options |= {"checkpoint_dir": str(tmp_path), "logger.progress": False, "device": "cpu", "env.last_year": 1902}
    policy = sparring.load(sparring.train("diplomacy_ppo", options))
    from sparring.agents.policies.checkpoint import load_checkpoint
    from sparring.envs.diplomacy.batch import DiplomacyBatch
    from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env
    from sparring.envs.diplomacy.movement_batch import MovementBatch

    batch = MovementBatch(DiplomacyBatch(1, threads=1, last_year=1902), seed=0)
    obs = batch.obs.flatten(0, 1)
    expected = load_checkpoint(policy.path).network.act(obs, deterministic=True)[0].numpy()
    taken, _ = policy.predict(obs.numpy().reshape(7, 75, 62))
    assert np.array_equal(taken, expected.astype(np.int64))
    assert policy.action_space.contains(policy.predict(obs[0].numpy().reshape(75, 62))[0])
    seen, _ = parallel_env().reset(seed=0)
    assert policy.observation_space == parallel_env().observation_space("ITALY")["observation"]
    policy.predict(seen["ITALY"]["observation"])


def same_but_command(first, second):
    return {**first, "command": ""} == {**second, "command": ""}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"opponents": "ace", "games": 4, "seed": 7}, ["--opponents", "ace", "--games", "4", "--seed", "7"]),
        ({"opponents": ["ace", "chaser"], "games": 2, "regimes": ["none", "full"], "stochastic": True},
         ["--opponents", "ace,chaser", "--games", "2", "--regimes", "none", "full", "--stochastic"]),
        ({"opponents": "ace", "games": 2, "sprt": {"elo1": 500}, "max_games": 4},
         ["--opponents", "ace", "--games", "2", "--sprt", "elo1=500", "--max-games", "4"]),
    ],
)  # fmt: skip
def test_evaluate_matches_command_line_numbers(options, words, make_checkpoint, tmp_path, capsys):
    make_checkpoint()
    evaluation = sparring.evaluate("pupil", threads=1, **options)
    assert capsys.readouterr() == ("", "")
    main(["--ckpt", "pupil", *words, "--threads", "1", "--out", str(tmp_path)])
    (written,) = tmp_path.glob("*.json")
    assert same_but_command(evaluation.data, json.loads(written.read_text()))
    assert evaluation.data["command"].startswith("python eval/run.py --ckpt pupil --opponents ace")
    assert str(evaluation) == evaluation.markdown
    assert evaluation.markdown.splitlines()[0] in capsys.readouterr().out


def test_returned_command_is_accepted_by_command_line(tmp_path):
    import shlex

    evaluation = sparring.evaluate("bot:ace", opponents="chaser", games=2, threads=1, require=["mean>=0", "worst>=0"])
    _, script, *words = shlex.split(evaluation.data["command"])
    assert script == "eval/run.py"
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert same_but_command(evaluation.data, json.loads((tmp_path / "eval.json").read_text()))


@pytest.mark.parametrize("folder", ["run,one", "a=b", "-run", "2_0"])
def test_path_argument_is_never_split_or_read_as_option(make_checkpoint, tmp_path, monkeypatch, folder):
    path = make_checkpoint(f"{folder}/final.pt").relative_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    data = sparring.evaluate(path, opponents=[path, "ace"], games=2, threads=1, device="cpu").data
    assert (data["player"], [record["opponent"] for record in data["records"]]) == (folder, [folder, "ace"])
    name = text_of(path)
    replay = from_keywords(ReplayOptions, {"players": {"FRANCE": path, "": "dumbbot"}, "log": "a"})
    assert (replay.lineup, replay.rest) == (("dumbbot",) * 2 + (name,) + ("dumbbot",) * 4, "dumbbot")
    assert text_of(Path("evil:Bot")) == "./evil:Bot"  # a file, and no module to import
    assert from_keywords(ExploitOptions, {"players": path, "options": ["seed=1"]}).players == (name,)
    assert read_settings([("endpoint.model", "2_0")])["endpoint"]["model"] == "2_0"


def test_failures_are_returned_and_files_written_only_on_request(make_checkpoint, tmp_path):
    path = make_checkpoint()
    options = {"opponents": "brawler", "games": 2, "threads": 1, "require": "brawler>=1"}
    evaluation = sparring.evaluate(sparring.load(path), **options)
    (failure,) = evaluation.failures
    assert failure.startswith("--require 'brawler>=1' failed")
    assert {one.name for one in path.parent.iterdir()} == {"final.pt", "manifest.json"}
    sparring.evaluate("pupil", **options, out=tmp_path / "there")
    assert {one.name for one in (tmp_path / "there").iterdir()} == {"eval.json", "eval.md"}


def test_episodes_and_seven_player_game(cart):
    evaluation = sparring.evaluate(cart, episodes=4, threads=1)
    assert evaluation.data["return"]["least"] >= 1
    evaluation = sparring.evaluate(
        "bot:random", env="diplomacy", opponents="random", games=7, last_year=1902, threads=1
    )
    assert evaluation.data["games"] == 7
    (record,) = evaluation.data["records"]
    assert record["losses"] == round(7 * record["alone"]["losses"]["value"])


@pytest.mark.parametrize(
    ("env", "one", "six", "options"),
    [
        ("dogfight", "ace", "do_nothing", {"games": 2}),
        ("diplomacy", "dumbbot", "random", {"games": 7, "last_year": 1902}),
    ],
)
def test_records_have_same_keys_in_all_games(env, one, six, options):
    """Counts add up, and intervals equal SciPy's; the unit is a pair of games in the dogfight."""
    (record,) = sparring.evaluate(f"bot:{one}", env=env, opponents=six, device="cpu", threads=1, **options).data[
        "records"
    ]
    assert (record["player"].split()[0], record["opponent"], record["games"]) == (one, six, options["games"])
    assert record["wins"] + record["draws"] + record["losses"] == record["games"]
    assert record["win_rate"] == record["wins"] / record["games"]
    unit = 2 if env == "dogfight" else 1
    low, high = binomtest(record["wins"] // unit, record["games"] // unit).proportion_ci(method="wilson")
    assert record["interval"] == pytest.approx([low, high])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"game": 4}, "unknown option '--game': did you mean '--games'"),
        ({"games": 3}, "--games 3: must be even"),
        ({"opponents": "aces"}, "did you mean 'ace'"),
    ],
)
def test_bad_options_match_command_line_errors(options, words):
    with pytest.raises(InputError, match=words):
        sparring.evaluate(RELEASED, **options)


def test_replay_format_follows_suffix(cart, tmp_path):
    path = sparring.record(RELEASED, tmp_path / "match.html", opponents="ace", threads=1, seed=3)
    assert path.read_text().startswith("<!doctype html>")
    assert "ace" in path.read_text()
    picture = sparring.record(RELEASED, tmp_path / "match.gif", opponents="do_nothing", threads=1)
    assert picture.read_bytes()[:3] == b"GIF"
    page = sparring.record("bot:random", tmp_path / "game.html", env="diplomacy", opponents="random", last_year=1901)
    assert page.is_file()
    assert {one.name for one in tmp_path.iterdir()} == {"match.html", "match.gif", "game.html"}
    with pytest.raises(InputError, match=r"match.mp4: is not a replay format of this game; .* in .html, .gif"):
        sparring.record(RELEASED, tmp_path / "match.mp4")
    with pytest.raises(InputError, match=r"cart.html: is not a replay format of this game; the name must end in .gif$"):
        sparring.record(cart, tmp_path / "cart.html")


GAMES = {
    "dogfight": ("bot:ace", "held_out:runner", {"games": 2}),
    "air_combat": ("bot:straight", "turning", {"games": 2}),
    "chess": ("bot:random", "random", {"games": 2, "plies": 20}),
    "diplomacy": ("bot:random", "random", {"games": 7, "last_year": 1902}),
}


@pytest.mark.parametrize("game", GAMES)
def test_every_game_reports_score_and_decided_share(game):
    """The games are drawn: fleeing or random players do not win in so short a time."""
    player, opponent, options = GAMES[game]
    asked = ["score>=0.05", f"win:{opponent}>=0", f"decided:{opponent}>=0.9", "score:worst>=0.9", f"{opponent}>=1"]
    quick = {"device": "cpu", "threads": 1} if game != "chess" else {}
    found = sparring.evaluate(player, env=game, opponents=opponent, require=asked, **options, **quick)
    (record,) = found.data["records"]
    assert (record["wins"], record["losses"] if game != "diplomacy" else 0) == (0, 0)
    assert record["decided"] == 0.0
    if game == "diplomacy":  # the score is the share of squares: an equal share is 1/7
        assert record["score"] == record["alone"]["squares"]["value"]
        assert 0.08 < record["score"] < 0.2
    else:
        assert record["score"] == 0.5
        pairs = record.get("pairs") or (0, record["draws"], 0)
        assert record["score_interval"] == pytest.approx(score_interval(pairs))
    assert "score %" in found.markdown
    assert "decided %" in found.markdown
    lines = found.failures
    assert [line.split("'")[1] for line in lines] == asked[2:]
    with pytest.raises(sparring.InputError, match="unknown opponent in --require"):
        sparring.evaluate(player, env=game, opponents=opponent, require=["score:nobody>=1"], **options, **quick)
