"""Whole toy runs: who learns, where a run starts, and independence of the number of workers."""

import json
import multiprocessing

import pytest
import torch

from sparring.agents.distributed import pools
from sparring.agents.language.grpo.learner import GRPOLearner
from sparring.agents.language.grpo.rollouts.rollout import Rollouts
from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.agents.language.models.adapters import AdapterError, Adapters, LoraShape, load_adapter, save_adapter
from sparring.agents.trainers import train
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.grpo.small_runs import in_process, warm_workers
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.language.toys import llama, word_tokenizer

ONE_YEAR = ("grpo.rollout_warmup_phases=0", "grpo.groups=1", "env.last_year=1901", "checkpoint_every=1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder for runs that contains a toy model."""
    folder = tmp_path_factory.mktemp("runs")
    toy_folder(folder / "toy")
    return folder


@pytest.fixture(scope="module")
def first(runs):
    """Train a run of one step that leaves a checkpoint and a league."""
    return run(runs, "first", "grpo.steps=1", "league.checkpoint_every=1", "grpo.learning_rate=1e-2")


def run(runs, name, *options):
    places = (f"model.name={runs / 'toy'}", f"checkpoint_dir={runs}", f"name={name}")
    return train(small_config(*ONE_YEAR, *places, *options))


def rows(final):
    return [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]


def noting(monkeypatch, owner, name):
    """Record the first arguments and results of a method's calls."""
    calls, method = [], getattr(owner, name)

    def call(self, given, *rest, **options):
        found = method(self, given, *rest, **options)
        calls.append((given, found))
        return found

    monkeypatch.setattr(owner, name, call)
    return calls


def test_self_play_trains_each_power_by_its_own_reward(runs, monkeypatch):
    """Two games from the opening: in a pair of decisions the better paid has advantage 1, the other -1."""
    played, learned = noting(monkeypatch, Rollouts, "play"), noting(monkeypatch, GRPOLearner, "learn")
    (row,) = rows(run(runs, "self_play", "grpo.play=self_play", "grpo.steps=1"))
    ((_, batch),), ((samples, _),) = played, learned
    assert {turn.seat for turn in batch.turns} == {0, 1, 2, 3, 4, 5, 6}
    assert row["benchmark/trajectories"] == 14
    found = {id(sample.decision): sample.advantage for sample in samples}
    pairs = {}
    for turn, reward in zip(batch.turns, batch.rewards.tolist(), strict=True):
        pairs.setdefault((turn.seat, turn.before.step), []).append((reward, found.get(id(turn.decision))))
    for pair in pairs.values():
        by_reward = dict(pair)  # one entry where a pair was paid alike, or only one game had something to decide
        low, high = min(by_reward), max(by_reward)
        assert by_reward == pytest.approx({low: -1.0, high: 1.0} if high > low else {low: None})
    assert {turn.seat for turn in batch.turns if id(turn.decision) in found} == {0, 1, 2, 3, 4, 5, 6}


def test_run_starts_from_model_adapter(runs, monkeypatch):
    """Games are played with it, and the result is no further away than one step."""
    config = small_config()
    adapters = Adapters(llama(word_tokenizer(), layers=1), LoraShape.of(config.model), seed=9)
    generator = torch.Generator().manual_seed(9)
    given = {name: 0.2 * torch.randn(value.shape, generator=generator) for name, value in adapters.weights().items()}
    save_adapter(runs / "given.pt", adapters.model, adapters.shape, given, training={})
    played = noting(monkeypatch, Rollouts, "play")
    options = ("grpo.steps=1", "grpo.learning_rate=1e-6")
    found = load_adapter(run(runs, "adapted", f"model.adapter={runs / 'given.pt'}", *options)).weights
    run(runs, "again", *options)
    assert max(float((value - given[name]).abs().max()) for name, value in found.items()) < 2e-6
    one, other = ([turn.decision.logprobs.tolist() for turn in batch.turns] for _, batch in played)
    assert one[0] != other[0]


def test_league_starts_from_another_run(runs, first):
    """Its checkpoint joins under the run's name with rating and games; without the option it does not."""
    left = LeagueFile(first.parent).read()
    heir = LeagueFile(run(runs, "heir", "grpo.steps=1", "league.inherit=first").parent).read()
    alone = LeagueFile(run(runs, "alone", "grpo.steps=1").parent).read()
    assert [agent.name for agent in left.of_kind("checkpoint")] == ["checkpoint_000001"]
    assert [agent.name for agent in heir.of_kind("checkpoint")] == ["first/checkpoint_000001"]
    copied = runs / "heir" / heir["first/checkpoint_000001"].path
    assert copied.read_bytes() == (first.parent / "step_000001.pt").read_bytes()
    assert alone.of_kind("checkpoint") == []
    leagues = {"left": left, "heir": heir, "alone": alone}
    games = {name: sum(agent.games for agent in league.of_kind("bot")) for name, league in leagues.items()}
    assert games["heir"] > games["left"] == games["alone"] > 0
    assert heir[CHALLENGER].games == alone[CHALLENGER].games


def test_two_workers_match_one_local_player(runs, monkeypatch):
    """Two steps ahead, so both workers have a plan; steps stay ordered whichever finishes first."""
    learn, alive = GRPOLearner.learn, []

    def learn_and_count(*given, **options):
        alive.append(len(multiprocessing.active_children()))
        return learn(*given, **options)

    monkeypatch.setattr(GRPOLearner, "learn", learn_and_count)
    options = ("grpo.steps=2", "grpo.buffer_depth=1", "grpo.learning_rate=1e-2")
    with monkeypatch.context() as patch:
        patch.setattr(GRPOTrainer, "_new_players", in_process)
        one = run(runs, "here", *options)
    monkeypatch.setattr(pools, "multiprocessing", warm_workers())
    two = run(runs, "workers", "grpo.workers=2", *options)
    assert alive == [0, 0, 2, 2]
    weights = load_adapter(two).weights
    assert all(torch.equal(value, weights[name]) for name, value in load_adapter(one).weights.items())
    names = ("benchmark/reward_mean", "benchmark/loss", "kl/mean", "elo/challenger", "buffer/lag")
    assert [[row[name] for name in names] for row in rows(one)] == [[row[name] for name in names] for row in rows(two)]
    assert len(rows(two)) == 2


@pytest.mark.parametrize("option", ["model.lora_rank=4", "model.lora_targets=attention"])
def test_adapter_of_other_shape_is_rejected_with_its_options(runs, first, option):
    """With another alpha the same weights would silently play differently."""
    made = load_adapter(first).shape
    has = f"made with model.lora_rank={made.rank} model.lora_targets={made.targets} (alpha {made.alpha:g}),"
    with pytest.raises(AdapterError) as refused:
        run(runs, "misfit", f"model.adapter={first}", option)
    assert f"model.adapter={first}: the adapter was {has}" in str(refused.value)
    assert option in str(refused.value)
    assert not (runs / "misfit").exists()


def test_league_of_original_bots_is_played(runs):
    """Every game is against six original DumbBots; the base model never plays, so its rating is constant."""
    options = ("league.bots=original", "league.dumbbot_game_probability=1", "grpo.steps=1")
    final = run(runs, "original", *options)
    league = LeagueFile(final.parent).read()
    bots = {"random", "chaos_seed", "defensive", "territorial_seed", "coordinated_seed", "dumbbot_seed"}
    assert {agent.name for agent in league.of_kind("bot")} == bots
    assert league["dumbbot_seed"].games > 0
    (row,) = rows(final)
    assert row["dumbbot/games_count"] > 0
    assert row["league/reference_drop"] == 1000 * 5 - sum(
        league[name].elo for name in ("base_model", "chaos_seed", "defensive", "territorial_seed", "coordinated_seed")
    )
