"""Policies of earlier air combat versions: they play with a note, and can start runs."""

import pytest

import sparring
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.agents.trainers import train
from sparring.configs.schema import NetworkConfig
from sparring.envs.air_combat import GAME, rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.training.opponents import open_player
from tests.envs.air_combat.training.test_air_combat_task import small


def saved(folder, version):
    batch = AirCombatBatch(1, action_repeat=60, threads=1)
    network = ActorCritic(batch.obs_dim, 3, 1, NetworkConfig(hidden=8))
    path = folder / f"version_{version}.pt"
    save_checkpoint(path, network, contract=batch.contract | {"version": version}, training={})
    return path, batch.contract


def test_changelog_covers_every_version():
    assert (GAME.version, len(GAME.changes)) == (rules.VERSION, rules.VERSION - 1)
    assert rules.VERSION == 2


def test_earlier_version_policy_plays_with_note(tmp_path):
    path, contract = saved(tmp_path, 1)
    player = open_player(path)
    player.contestant.check(contract)
    (note,) = player.notes
    assert "was trained in version 1 of sparring/AirCombat-v1; version 2 changed drag and thrust beyond Mach" in note
    assert load_checkpoint(path).contract["version"] == 1
    assert Policy.load(path).contract == contract


def test_current_version_has_no_note_and_later_is_rejected(tmp_path):
    now, contract = saved(tmp_path, rules.VERSION)
    assert open_player(now).notes == ()
    later, _ = saved(tmp_path, rules.VERSION + 1)
    with pytest.raises(PolicyError, match=r"version=3 and cannot play with version=2"):
        open_player(later).contestant.check(contract)


def test_released_policies_print_version_note():
    report = sparring.evaluate("released/air_combat_low", opponents="straight", games=2)
    assert (
        "Note: released/air_combat_low was trained in version 1 of sparring/AirCombat-v1; version 2 " in report.markdown
    )


def test_run_starts_from_earlier_version_policy(tmp_path):
    path, contract = saved(tmp_path, 1)
    train(small(tmp_path, name="second", init_from=str(path), max_updates=1))
    assert load_checkpoint(tmp_path / "second" / "final.pt").contract == contract
