"""Players that cannot answer: their games are dropped and reported, and other games are unchanged."""

from dataclasses import replace

import pytest
import torch

from sparring.agents.callbacks import Callback
from sparring.agents.language.backend import FALLBACK, PromptError
from sparring.agents.language.grpo.matchmaking import Opponents
from sparring.agents.language.grpo.rollouts.rollout import Rollouts, draw_plan
from sparring.agents.language.grpo.step import rollout_metrics
from sparring.agents.language.models.adapters import load_adapter
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import enter_checkpoint, new_league
from sparring.envs.diplomacy.rollouts.task import DiplomacyTextTask
from tests.agents.language.grpo.rollouts.small_games import plan_of, small_config, toy_backend, toy_rollouts
from tests.agents.language.grpo.toy_folder import toy_folder

FROZEN = "checkpoint_000001"
BOTS = ("chaos", "random", "dumbbot", "random", "chaos")


def plan_with_a_checkpoint(config, folder):
    """Return two positions of two games each; a frozen policy plays only in the first position's games."""
    met = iter([(FROZEN, *BOTS), ("random", *BOTS)])
    league = enter_checkpoint(new_league(("random", "chaos", "dumbbot"), "toy"), step=1, path="step_000001.pt")
    draw = {"draw": lambda rng: Opponents(next(met), ("peer",) * 6), "league": league}
    return draw_plan(config.grpo, seats=7, step=0, policy_version=0, seed=config.seed, **draw)


def played(config, folder, *, broken):
    backend = toy_backend()

    def backend_of(name):
        if broken and name == FROZEN:
            raise InputError("step_000001.pt: is damaged")
        return backend

    rollouts = Rollouts(DiplomacyTextTask(config), backend_of)
    batch = rollouts.play(plan_with_a_checkpoint(config, folder))
    rollouts.close()
    return batch


def told(batch, games):
    return [
        (turn.game, turn.seat, turn.decision.token_ids.tolist(), float(reward))
        for turn, reward in zip(batch.turns, batch.rewards, strict=True)
        if turn.game in games
    ]


def metrics_of(batch):
    return rollout_metrics(batch)


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    config, folder = small_config(), tmp_path_factory.mktemp("league")
    return [played(config, folder, broken=broken) for broken in (False, True)]


def test_failing_player_fails_only_its_games(batches):
    whole, hurt = batches
    assert (whole.failed, hurt.failed) == (0, 2)
    assert told(hurt, {0, 1}) == []
    assert told(hurt, {2, 3}) == told(whole, {2, 3}) != []
    assert [ending.group for ending in hurt.endings] == [1, 1]
    assert hurt.alerts == ["a game failed: step_000001.pt: is damaged"]


class Forgetful:
    """A backend that rejects the prompts of one game once it has moved `moves` times."""

    name, exact = "forgetful", True

    def __init__(self, game, moves):
        self._backend, self._game, self._moves, self.asked = toy_backend(), game, moves, 0
        self.policy_version = 0

    def decide(self, requests):
        self.asked += 1
        if self.asked == self._moves:
            raise PromptError("the prompt for ITALY has 3000 tokens", [self._game])
        return self._backend.decide(requests)

    def close(self):
        pass


def test_unreadable_prompt_fails_its_game_only(tmp_path):
    """There is one learner seat in each of four games, so a request's index is its game."""
    config = small_config()
    batches = []
    for moves in (0, 2):
        rollouts = toy_rollouts(config, Forgetful(game=1, moves=moves))
        batches.append(rollouts.play(plan_of(config)))
        rollouts.close()
    whole, hurt = batches
    assert (whole.failed, hurt.failed) == (0, 1)
    assert told(hurt, {1}) == []
    assert told(hurt, {0, 2, 3}) == told(whole, {0, 2, 3}) != []
    assert hurt.alerts == ["a game failed: the prompt for ITALY has 3000 tokens"]


def test_fallbacks_are_counted_by_order(batches):
    """Two useless answers and one with a missing order: only given orders count."""
    whole, _ = batches
    turns = list(whole.turns)
    long = [number for number, turn in enumerate(turns) if turn.lines >= 2][:3]
    for number in long[:2]:
        turns[number] = replace(turns[number], decision=replace(turns[number].decision, finish_reason=FALLBACK))
    last = turns[long[2]]
    turns[long[2]] = replace(last, decision=replace(last.decision, chosen=last.decision.chosen[:-1]))
    found = metrics_of(replace(whole, turns=turns))
    expected = sum(turn.lines for turn in turns)
    missing = sum(turns[number].lines for number in long[:2]) + 1
    assert found["extraction/orders_expected"] == expected
    assert found["extraction/orders_extracted"] == expected - missing
    assert found["extraction/rate"] == (expected - missing) / expected
    assert (found["extraction/empty_responses"], found["extraction/partial_responses"]) == (2, 1)


SHARES = ["league.self_play=0", "league.peer=1", "league.exploitable=0", "league.baseline=0"]


def run(folder, *options, callbacks=()):
    toy = folder / "toy"
    places = [
        f"model.name={toy if toy.exists() else toy_folder(toy)}",
        f"checkpoint_dir={folder}",
        "checkpoint_every=1",
    ]
    league = ["league.cold_start_steps=1", "league.checkpoint_every=1", "league.dumbbot_game_probability=0"]
    config = small_config(*places, *league, *SHARES, "grpo.steps=2", "grpo.learning_rate=1e-2", *options)
    return train(config, callbacks=callbacks)


class Damage(Callback):
    """Truncate the league's checkpoints after a step; `kept` holds their content."""

    def __init__(self, folder):
        self._folder, self.kept = folder, {}

    def on_update(self, run, metrics):
        if run.update == 1:
            self.kept = {path: path.read_bytes() for path in sorted(self._folder.glob("step_*.pt"))}
            for path, content in self.kept.items():
                path.write_bytes(content[:-100])


def test_failure_of_all_games_stops_resumably_with_cause(tmp_path):
    """All opponents are damaged on disk; once restored, the run ends like an uninterrupted one."""
    whole = run(tmp_path, "name=whole")
    folder = tmp_path / "cut"
    damage = Damage(folder)
    with pytest.raises(InputError, match=r"step 1: every game failed; a game failed: .*step_00000\d\.pt: "):
        run(tmp_path, "name=cut", callbacks=[damage])
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 1
    assert LeagueFile(folder).read().agents
    assert '"kind": "alert"' in (folder / "events.jsonl").read_text()
    for path, content in damage.kept.items():
        path.write_bytes(content)
    cut = run(tmp_path, "name=cut")
    weights = [load_adapter(path).weights for path in (whole, cut)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_run_without_model_does_not_start(tmp_path):
    with pytest.raises(InputError, match=r"model\.name=nowhere: is not tiny, smollm2, a run that cloned a bot, a"):
        train(small_config("model.name=nowhere", f"checkpoint_dir={tmp_path}", "name=none"))
    assert list(tmp_path.iterdir()) == []
