"""Populations: opponents, counts, exploiters, and bit-for-bit resuming."""

from dataclasses import replace

import pytest
import torch

from sparring.agents.policies.actor_critic import MIXTURE
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.population.exploiters import OWN, alternating
from sparring.agents.run.states import read_state
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.session import NetworkConfig
from sparring.configs.schema import EventConfig, SelfPlayConfig
from sparring.curriculum.league.file import LeagueFile
from tests.agents.ppo.small_run import LONG, config, flat, long, metrics, state_of, untimed

STYLED = NetworkConfig(hidden=16, styles=3)
SELF_PLAY = SelfPlayConfig(snapshot_every=1, pool_size=2, slots=5, deal_every=2)
EXPLOITED = replace(SELF_PLAY, exploiter_every=3, exploiter_updates=2)
"""Of eight updates those of numbers 3 and 4 are an exploiter's."""


def population(folder, **options):
    averaged = replace(long("x").ppo, average_decay=0.5)
    calm = [LONG[0], replace(LONG[1], events=[]), LONG[2]]  # its event is at update 3, an exploiter's
    return long(folder, **({"network": STYLED, "self_play": EXPLOITED, "ppo": averaged, "phases": calm} | options))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    train(population(root))
    return root


@pytest.mark.parametrize("cuts", [[2, 4, 6], [3, 5]])
def test_run_split_around_exploiter_resumes_bit_for_bit(whole, tmp_path, cuts):
    for updates in (*cuts, 0):
        train(population(tmp_path, max_updates=updates))
    assert state_of(tmp_path) == state_of(whole)
    assert untimed(metrics(tmp_path)) == untimed(metrics(whole))
    weights = [load_checkpoint(root / "small" / "final.pt").network.state_dict() for root in (tmp_path, whole)]
    assert flat(weights[0]) == flat(weights[1])


def test_exploiter_plays_frozen_mixture_only(whole):
    rows = metrics(whole)
    exploiting = [row for row in rows if "exploiter/matches" in row]
    assert [rows.index(row) for row in exploiting] == [3, 4]
    assert not any(key.startswith(("train/", "rollout/", "league/")) for row in exploiting for key in row)
    league = LeagueFile(whole / "small").read()
    assert league["exploiter_000005"].kind == "checkpoint"
    assert league["exploiter_000005"].games >= 0
    assert {"style_0", "style_1"} <= set(league.agents)
    weights = torch.load(whole / "small" / "pool" / "exploiter_000005.pt", weights_only=True)["weights"]
    assert sorted(weights[MIXTURE].tolist()) == [0.0, 0.0, 1.0]


def test_run_ending_in_exploiter_saves_learner(whole, tmp_path):
    """The policy saved after exploiter updates 3 and 4 equals the learner's after update 2."""
    for updates in (3, 4):
        train(population(tmp_path, max_updates=updates))
        policy = load_checkpoint(tmp_path / "small" / "final.pt").network.state_dict()
        if updates == 3:
            before = flat(policy)
    assert flat(policy) == before
    content = read_state(max((tmp_path / "small" / "state").glob("update_*"))).content
    assert flat(content["learner"]["network"]) != flat(content["exploiters"]["aside"]["network"])


def test_run_resumes_in_exploiter_with_other_match_count(tmp_path):
    """With another number of matches the frozen mixture is reloaded."""
    train(population(tmp_path, max_updates=4))
    more = replace(population(tmp_path).env, num_envs=16)
    train(population(tmp_path, env=more))
    assert metrics(tmp_path)[4]["exploiter/matches"] >= 0
    assert len(metrics(tmp_path)) == 8


def test_exploiters_start_from_learner_and_lineages_in_turn(tmp_path):
    train(config(tmp_path / "other", network=NetworkConfig(hidden=16), max_updates=1))
    other = str(tmp_path / "other" / "small" / "final.pt")
    each = replace(EXPLOITED, exploiter_every=1, exploiter_updates=1, lineages=[other])
    train(population(tmp_path / "run", self_play=each))
    exploiters = [path.name for path in sorted((tmp_path / "run" / "small" / "pool").glob("exploiter_*"))]
    assert len(exploiters) == 3  # updates 1, 3, 5; one in the last update would not return
    assert alternating({"a": 1, "b": 2}) == [OWN, "a", OWN, "b"]
    assert alternating({}) == [OWN]


def test_lineage_of_other_size_is_rejected_in_one_line(tmp_path):
    train(config(tmp_path / "other", network=NetworkConfig(hidden=8), max_updates=1))
    other = str(tmp_path / "other" / "small" / "final.pt")
    with pytest.raises(ConfigError, match=r"self_play.lineages=.*network.hidden=8, this run has 16"):
        train(population(tmp_path / "run", self_play=replace(EXPLOITED, lineages=[other])))


def test_too_few_slots_and_reset_in_exploiter_are_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"self_play\.slots=3: must be above network\.styles=3.*try 6"):
        population(tmp_path, self_play=replace(EXPLOITED, slots=3))
    with pytest.raises(ConfigError, match=r"phases\.1\.events\.0\.at=0: is update 3 of an exploiter"):
        population(tmp_path, phases=[LONG[0], replace(LONG[1], events=[EventConfig(0, log_std=-1.0)]), LONG[2]])
