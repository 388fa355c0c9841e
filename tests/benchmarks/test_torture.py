"""A small `make torture`: a kill, a flipped bit, a canary, and verdicts that detect failures."""

import json
import random
import shutil

import pytest

from benchmarks.torture import __main__ as torture
from benchmarks.torture import code_execution, commands, files, kills
from benchmarks.torture.canary import Canary
from benchmarks.torture.commands import Ended
from benchmarks.torture.part import FAILED, HARMLESS, REFUSED, Place, Step, Verdict, judged
from benchmarks.torture.runs import RUNS, differences

LOADED = (
    *("sparring.train", "sparring.agents.trainers", "sparring.agents.ppo.trainer"),
    *("sparring.envs.diplomacy.training.task", "tensorboard.summary.writer.event_file_writer"),
)
"""What a run of PPO imports, without the language models that the script also loads once."""
LINE = "train.py: final.pt: is damaged\n"


@pytest.fixture(scope="module", autouse=True)
def light():
    """Load only what PPO needs into the process that forks commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "WARM", LOADED)
        patch.setattr(files, "NAME", "diplomacy")
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("torture"), seed=0)


@pytest.mark.slow
def test_killed_run_ends_like_undisturbed_run(place):
    victim = kills.Victim(RUNS["diplomacy"], place, random.Random(1))
    assert victim.life().result == HARMLESS
    ended = victim.end()
    assert (ended.result, ended.words[:40]) == (HARMLESS, "1 whole run equal to the undisturbed one")


@pytest.mark.slow
def test_only_run_killed_before_first_state_may_restart(place, monkeypatch):
    """No other run may restart."""
    victim = kills.Victim(RUNS["diplomacy"], place, random.Random(1))
    begun = victim.folder / "config.yaml"
    monkeypatch.setattr(victim, "_until_the_moment", lambda running, _: kills._wait(running, begun.exists))
    assert victim.life().words == "killed in the start-up after update -1"
    assert victim.early == 1
    victim.early = 0
    assert victim.end().words.endswith("diplomacy: from the beginning")
    shutil.rmtree(victim.root)


@pytest.mark.slow
def test_flipped_bit_in_state_does_not_change_result(place):
    verdict = files._try(place, "resume", "state/state.pt", "flip", 0.5, 3)
    assert (verdict.result, verdict.kind) == (HARMLESS, "announced, same end")


def test_canary_fires_directly_but_not_from_file(place):
    ways = {(step.group, step.what): step for step in code_execution.steps(place)}
    assert ways["YAML tag", "run file"].attempt().result == REFUSED


@pytest.mark.parametrize("what", ["zip of SB3", pytest.param("VecNormalize of SB3", marks=pytest.mark.slow)])
def test_sb3_payloads_fire_when_sb3_reads_them(tmp_path, what):
    pytest.importorskip("stable_baselines3")
    ways = {named: own for _, named, own, _ in code_execution.by_pickle(Place(tmp_path))}
    canary = Canary(tmp_path).build()
    ways[what](canary)
    assert canary.fired()


def test_difference_between_runs_is_detected(place):
    whole = place.whole("diplomacy")
    other = place.copy(whole)
    assert differences(whole, other) == []
    rows = (other / "metrics.jsonl").read_text().splitlines()
    last = json.loads(rows[-1]) | {"rollout/reward": 0.125}
    (other / "metrics.jsonl").write_text("\n".join([*rows[:-1], json.dumps(last)]))
    shutil.copy(min((other).glob("step_*.pt")), other / "final.pt")
    (other / ".final.pt.x.tmp").touch()
    assert differences(whole, other) == ["metrics.jsonl differs", "final.pt differs", ".final.pt.x.tmp is left over"]


@pytest.mark.parametrize(
    ("code", "output", "result"),
    [
        (2, LINE, REFUSED),
        (2, f"alert: something\n{LINE}", REFUSED),
        (0, "done\n", FAILED),
        (1, LINE, FAILED),
        (2, "train.py: something is damaged\n", FAILED),
        (2, LINE * 2, FAILED),
        (2, f"{LINE}and more\n", FAILED),
        (2, LINE.replace("is", "\x1b[2J"), FAILED),
        (2, f"Traceback (most recent call last):\n{LINE}", FAILED),
        (None, LINE, FAILED),
        (-9, LINE, FAILED),
    ],
)
def test_only_one_line_naming_file_counts_as_rejection(code, output, result):
    assert judged(Ended(("train.py", "resume=a"), code, output), "final.pt").result == result


def test_success_is_harmless_only_if_declared():
    done = Ended(("train.py",), 0, "done\n")
    assert (judged(done).result, judged(done, harmless="the same").result) == (FAILED, HARMLESS)


@pytest.mark.parametrize(("result", "code"), [(HARMLESS, 0), (FAILED, 1)])
def test_exit_code_and_page_report_failures(tmp_path, monkeypatch, capsys, result, code):
    step = Step("a group", "a thing", lambda: Verdict(result, "the <reason>"))
    monkeypatch.setattr(torture.disk, "steps", lambda place: iter([step]))
    assert torture.main(["--only", "disk", "--seed", "7", "--out", str(tmp_path / "page.md")]) == code
    page = (tmp_path / "page.md").read_text()
    assert "seed 7" in page
    assert f"| a group | 1 | 0 | {1 - code} | {code} | 0 |" in page
    assert ("- FAILED: a group, a thing: the &lt;reason>" in page) == bool(code)
    capsys.readouterr()


def test_steps_without_time_left_count_as_not_tried(monkeypatch, capsys):
    step = Step("a group", "a thing", lambda: Verdict(HARMLESS))
    monkeypatch.setattr(torture.disk, "steps", lambda place: iter([step]))
    assert torture.main(["--only", "disk", "--minutes", "0"]) == 1  # nothing was tried
    assert "| a group | 1 | 0 | 0 | 0 | 1 |" in capsys.readouterr().out
