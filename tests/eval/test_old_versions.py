"""Policies of old environment versions: rejected unless requested, then named in the table."""

import json

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.configs.games import DOGFIGHT_V0
from sparring.envs.dogfight.evaluation.onnx_export import build
from sparring.envs.dogfight.rules import ENV_ID
from sparring.eval import payoff
from sparring.eval.run import main

pytestmark = pytest.mark.usefixtures("long_steps")
QUICK = ["--games", "2", "--threads", "1", "--device", "cpu"]
OLD = {"id": DOGFIGHT_V0, "version": 1}
CHALLENGE = {"rules": "challenge", "obs_dim": 224}
NOTE = f"veteran was trained in {DOGFIGHT_V0}, whose bots differed"


@pytest.fixture
def veteran(make_checkpoint):
    """Return an old policy in a run folder whose configuration says so."""
    path = make_checkpoint("veteran/final.pt", **OLD)
    (path.parent / "config.yaml").write_text(f"env: {{id: {DOGFIGHT_V0}}}")
    return path


def test_old_policy_plays_with_env_version_and_note(veteran, capsys):
    assert main(["--ckpt", "veteran", "--opponents", "ace", "--env-version", "0", *QUICK]) == 0
    assert f"\n\nNote: {NOTE}.\n\n" in capsys.readouterr().out
    assert f"Note: {NOTE}." in (veteran.parent / "eval.md").read_text()
    content = json.loads((veteran.parent / "eval.json").read_text())
    assert (content["env"], content["notes"]) == (ENV_ID, [NOTE])


def test_old_policy_can_be_opponent_without_env_version(veteran, make_checkpoint, tmp_path):
    make_checkpoint()
    for more in ([], ["--ladder"], ["--sprt", "--max-games", "2"]):
        main(["--ckpt", "pupil", "--opponents", "veteran", "--quiet", "--out", str(tmp_path), *more, *QUICK])
    for name in ("eval", "ladder", "sprt"):
        assert json.loads((tmp_path / f"{name}.json").read_text())["notes"] == [NOTE]
        assert f"Note: {NOTE}." in (tmp_path / f"{name}.md").read_text()


def test_ladder_requires_env_version_for_old_policy(veteran, error_line):
    arguments = ["--ladder", "--ckpt", "veteran", "--opponents", "ace,chaser", "--quiet", *QUICK]
    assert "--env-version 0" in error_line(main, arguments)


def test_current_policies_have_no_note(make_checkpoint, printed):
    path = make_checkpoint()
    assert "Note" not in printed(main, ["--ckpt", "pupil", "--opponents", "ace", "--env-version", "0", *QUICK])
    assert json.loads((path.parent / "eval.json").read_text())["notes"] == []


def test_run_history_requires_env_version(veteran, error_line):
    arguments = ["--ckpt", "veteran", "--opponents", "ace", *QUICK]
    assert "--env-version 0" in error_line(payoff.main, [*arguments, "--quiet"])
    assert payoff.main([*arguments, "--env-version", "0"]) == 0
    assert f"Note: {NOTE}." in (veteran.parent / "payoff.md").read_text()


def test_agent_exported_from_old_policy_is_old(veteran, error_line):
    checkpoint = load_checkpoint(veteran)
    agent = veteran.with_suffix(".onnx")
    agent.write_bytes(build(checkpoint.network, checkpoint.contract))
    arguments = ["--ckpt", str(agent), "--opponents", "ace", "--quiet", *QUICK]
    assert "--env-version 0" in error_line(main, arguments)
    assert main([*arguments, "--env-version", "0"]) == 0
    notes = json.loads((agent.parent / "eval.final.onnx.json").read_text())["notes"]
    assert notes == [NOTE.replace("veteran", "veteran/final.onnx")]


def test_unknown_versions_are_rejected(error_line):
    line = error_line(main, ["--ckpt", "bot:ace", "--env-version", "2"])
    assert "unknown --env-version '2': choose from 0, 1" in line
