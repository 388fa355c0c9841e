"""A league inherited from another run: members, ratings, names, and rejected sources."""

import shutil
from dataclasses import replace

import pytest

from sparring.agents.language.grpo.inheritance import inherit
from sparring.agents.language.grpo.matchmaking import is_due
from sparring.curriculum.league.file import LeagueError, LeagueFile
from sparring.curriculum.league.league import CHALLENGER, enter_checkpoint, new_league, record
from sparring.curriculum.ratings import GameResult
from tests.curriculum.league.small_league import small_league


def make_run(root, name, league, *, weights=("step_10", "step_20")):
    """Return the folder of a run with this league and these weight files."""
    folder = root / name
    folder.mkdir()
    for path in weights:
        (folder / path).write_text(f"weights of {name}/{path}")
    LeagueFile(folder).restore(league)
    return folder


def played():
    league = small_league()
    games = [GameResult(("checkpoint_000010", "chaos"), (1, 2)), GameResult((CHALLENGER, "chaos"), (2, 1))]
    return record(league, [*games, GameResult(("base_model", "checkpoint_000010"), (1, 1))])


def fresh(**options):
    return new_league(["chaos", "dumbbot"], "tiny", **options)


def test_members_are_inherited_with_ratings_records_and_weights(tmp_path):
    old, new = make_run(tmp_path, "old-run", played()), make_run(tmp_path, "new-run", fresh())
    league = inherit(fresh(initial_elo=1234.0), new, old)
    theirs = played()
    assert league[CHALLENGER] == fresh(initial_elo=1234.0)[CHALLENGER]
    for bot in ("chaos", "dumbbot", "random", "base_model"):
        assert league[bot] == theirs[bot]
    taken = league["old-run/checkpoint_000010"]
    assert replace(taken, name="checkpoint_000010", path="step_10") == theirs["checkpoint_000010"]
    shutil.rmtree(old)  # the weights are a copy, inside the new folder
    assert (new / taken.path).read_text() == "weights of old-run/step_10"
    assert (new / taken.path).resolve().is_relative_to(new.resolve())
    assert {key: record.total for key, record in league.records.items()} == {
        ("chaos", "old-run/checkpoint_000010"): (0, 0, 1),
        ("base_model", "old-run/checkpoint_000010"): (0, 1, 0),
    }
    LeagueFile(new).restore(league)
    assert LeagueFile(new).read() == league


def test_record_is_flipped_if_new_name_sorts_first(tmp_path):
    """checkpoint_000010 comes after chaos, and A/checkpoint_000010 before it."""
    old, new = make_run(tmp_path, "A", played()), make_run(tmp_path, "B", fresh())
    record = inherit(fresh(), new, old).records["A/checkpoint_000010", "chaos"]
    assert record.total == record.recent == (1, 0, 0)


def test_inherited_member_keeps_original_run(tmp_path):
    old, middle = make_run(tmp_path, "old", played()), make_run(tmp_path, "middle", fresh(), weights=("step_30",))
    LeagueFile(middle).restore(enter_checkpoint(inherit(fresh(), middle, old), step=30, path="step_30"))
    last = make_run(tmp_path, "last", fresh())
    league = inherit(fresh(), last, middle)
    names = [agent.name for agent in league.of_kind("checkpoint")]
    assert names == ["old/checkpoint_000010", "old/checkpoint_000020", "middle/checkpoint_000030"]
    found = [(last / league[name].path).read_text() for name in names]
    assert found == [f"weights of {path}" for path in ("old/step_10", "old/step_20", "middle/step_30")]


def test_missing_weights_are_named(tmp_path):
    old = make_run(tmp_path, "old", played(), weights=("step_10",))
    with pytest.raises(
        LeagueError, match=r"step_20: is missing, the weights of checkpoint_000020 in the league of old"
    ):
        inherit(fresh(), make_run(tmp_path, "new", fresh()), old)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../elsewhere", ""])
def test_weights_outside_runs_are_rejected(tmp_path, path):
    (tmp_path / "elsewhere").write_text("weights")
    root = tmp_path / "runs"
    root.mkdir()
    old = make_run(root, "old", enter_checkpoint(fresh(), step=10, path=path))
    with pytest.raises(LeagueError, match="are not in a run beside it"):
        inherit(fresh(), make_run(root, "new", fresh()), old)


def test_other_base_model_is_rejected(tmp_path):
    old = make_run(tmp_path, "old", new_league(["chaos"], "smollm2"))
    wanted = (
        r"^league\.inherit=old: its base model is 'smollm2' and this run's is 'tiny'; "
        r"train the one that \S+/old/config\.yaml has as model\.name, or leave league\.inherit out$"
    )
    with pytest.raises(LeagueError, match=wanted):
        inherit(fresh(), make_run(tmp_path, "new", fresh()), old)


def test_run_without_league_is_named(tmp_path):
    with pytest.raises(LeagueError, match=r"^league\.inherit=unknown: \S+/unknown/league\.json: is missing; "):
        inherit(fresh(), tmp_path, tmp_path / "unknown")


def test_inheritance_over_existing_results_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="already has results"):
        inherit(played(), tmp_path, make_run(tmp_path, "old", played()))


def test_checkpoint_is_due_every_ten_steps():
    assert [step for step in range(41) if is_due(step, 10)] == [10, 20, 30, 40]


def test_thinning_matches_original_schedule():
    """Its own function, from step 1 to 400: the first at once, every 5 below 50, every 10 below 200, every 20 after."""
    joined = [1, *range(5, 50, 5), *range(50, 200, 10), *range(200, 401, 20)]
    assert [step for step in range(401) if is_due(step, 7, "thinning")] == joined
