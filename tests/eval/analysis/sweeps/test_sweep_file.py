"""Sweep files: finished runs are skipped, interrupted ones resume, failures are isolated; searches."""

import json

import pytest
import yaml

from sparring import train
from sparring.configs.core.errors import InputError
from sparring.eval.analysis.sweeps import file as sweep_file

TINY = ("threads=1", "workers=1")
DEFAULTS = {"max_updates": 2, "env": {"num_envs": 2}, "ppo": {"rollout_steps": 8, "minibatch_size": 16}}
FILE = {
    "hypothesis": "One fails, the others train.",
    "run": "gymnasium",
    "defaults": DEFAULTS,
    "runs": {
        "A": {"description": "this machine", "changes": {"device": "cpu"}},
        "B": {"description": "a device it lacks", "changes": {"device": "cuda:99"}},
        "C": {"description": "more epochs", "changes": {"ppo": {"epochs": 2}}},
    },
    "primary": {"measure": "count(train/entropy)", "goal": "higher"},
}
SEARCH = {
    "hypothesis": "Some clip is better.",
    "run": "gymnasium",
    "defaults": DEFAULTS,
    "search": {"sampler": "random", "trials": 3, "prune": {"startup_trials": 1},
     "space": {"ppo.clip": {"low": 0.1, "high": 0.3}, "ppo.epochs": {"choices": [1, 2]}}},
    "primary": {"measure": "last(train/entropy)", "goal": "higher"},
}  # fmt: skip


@pytest.fixture
def launch(tmp_path, capsys, monkeypatch):
    files, runs = tmp_path / "sweep", tmp_path / "runs"
    files.mkdir()
    monkeypatch.setattr(sweep_file, "FOLDER", files)

    def launched(content, *arguments):
        (files / "mine.yaml").write_text(yaml.safe_dump(content))
        code = train.main(["+sweep=mine", f"checkpoint_dir={runs}", *TINY, *arguments])
        return code, capsys.readouterr()

    return launched


def logs(tmp_path):
    return {path.stem: path.read_text() for path in (tmp_path / "runs" / "mine-sweep").glob("*.log")}


def test_finished_runs_are_skipped_and_failure_stops_no_other(launch, tmp_path):
    code, said = launch(FILE)
    lines = said.out.splitlines()
    assert code == 1
    assert [line.split("  ")[0] for line in lines[-4:-1]] == [
        "A this machine, seed 0", "B a device it lacks, seed 0", "C more epochs, seed 0",
    ]  # fmt: skip
    assert ["failed: device=cuda:99" in line for line in lines[-4:-1]] == [False, True, False]
    assert "count(train/entropy) 2" in lines[-2]
    assert lines[-1] == "analysis: python eval/runs.py analyze-sweep mine"
    before = logs(tmp_path)
    (tmp_path / "runs" / "mine-C-seed0" / "final.pt").unlink()  # as if it had been stopped
    _, said = launch(FILE, "seed=0,1", "runs=A,C")
    assert "4 runs, 1 finished before" in said.out
    after = logs(tmp_path)
    assert after["mine-A-seed0"] == before["mine-A-seed0"]
    assert "resumed after update 2" in after["mine-C-seed0"].removeprefix(before["mine-C-seed0"])
    assert (tmp_path / "runs" / "mine-A-seed1" / "final.pt").exists()


def test_search_trains_trials_and_resumes(launch, tmp_path):
    pytest.importorskip("optuna")
    code, said = launch(SEARCH)
    assert code == 0, said
    folder = tmp_path / "runs" / "mine-sweep"
    outcomes = [json.loads((folder / f"mine-trial{number:03d}.json").read_text()) for number in range(3)]
    assert {one["outcome"] for one in outcomes} <= {"done", "pruned"}
    assert outcomes[0]["outcome"] == "done"
    done = [one for one in outcomes if one["outcome"] == "done"]
    best = max(done, key=lambda one: one["value"])
    assert f"= {best['value']:.4g} with ppo.clip=" in said.out
    assert all(0.1 <= one["options"]["ppo.clip"] <= 0.3 and one["options"]["ppo.epochs"] in (1, 2) for one in outcomes)
    rows = [json.loads(line) for line in (tmp_path / "runs" / "mine-trial000" / "metrics.jsonl").open()]
    assert outcomes[0]["value"] == pytest.approx(rows[-1]["train/entropy"])
    code, said = launch(SEARCH)
    assert "3 runs, 3 finished before" in said.out
    changed = {**SEARCH, "search": {**SEARCH["search"], "trials": 4}}
    code, said = launch(changed)
    assert code == 2
    assert "differs from the sweep file now" in said.err


def test_trial_below_median_is_pruned_and_interrupted_keeps_values(tmp_path):
    optuna = pytest.importorskip("optuna")
    from sparring.eval.analysis.sweeps.criteria import read_measure
    from sparring.eval.analysis.sweeps.search import RUN, TrialObserver, _trial_of, open_study
    from sparring.eval.analysis.sweeps.sweep_folder import SweepFolder

    content = {**SEARCH, "search": {**SEARCH["search"], "prune": {"startup_trials": 1, "warmup_rows": 1}}}
    study = open_study(SweepFolder(tmp_path), sweep_file.parse_sweep("mine", content, "mine.yaml"))
    first = study.ask()
    for step, value in enumerate([1.0, 2.0, 3.0], start=1):
        first.report(value, step)
    study.tell(first, 3.0)
    trial = _trial_of(study, "mine-trial001")
    clip = trial.suggest_float("ppo.clip", 0.1, 0.3)
    folder = tmp_path / "mine-trial001"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"train/entropy": 0.5}\n')
    observer = TrialObserver(trial, read_measure("last(train/entropy)"), folder)
    assert not observer.on_update(None, {"train/entropy": 0.5})  # worse, but still warming up
    assert not observer.on_update(None, {"other": 0.0})
    assert observer.on_update(None, {"train/entropy": 0.5})
    again = _trial_of(study, "mine-trial001")
    assert (again.number, again.suggest_float("ppo.clip", 0.1, 0.3)) == (trial.number, clip)
    study.tell(again, state=optuna.trial.TrialState.PRUNED)
    assert _trial_of(study, "mine-trial001").number == trial.number + 1
    assert study.trials[-1].user_attrs[RUN] == "mine-trial001"


def test_every_search_value_is_validated_before_first_trial(launch):
    space = {"ppo.clip": {"low": 0.1, "high": 7.0}}
    code, said = launch({**SEARCH, "search": {"trials": 1, "space": space}})
    assert code == 2
    assert "mine: search.space: ppo.clip=7.0: must be in (0, 1]" in said.err


def test_cfg_prints_runs_and_starts_none(launch, tmp_path):
    code, said = launch(FILE, "--cfg", "runs=A")
    assert code == 0
    assert yaml.safe_load(said.out)["A-seed0"]["max_updates"] == 2
    assert not (tmp_path / "runs").exists()


def test_missing_optuna_gives_one_line_error(monkeypatch):
    from sparring.eval.analysis.sweeps import launch as module

    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "optuna" else object())
    with pytest.raises(InputError, match=r"a search needs optuna: `sparring install search`"):
        module._check_packages(searches=True, submits=True)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"`sparring install sweeps`, or give workers=N"):
        module._check_packages(searches=False, submits=True)
    module._check_packages(searches=False, submits=False)


def test_signal_to_launcher_ends_sweep(launch, tmp_path, monkeypatch):
    from sparring.eval.analysis.sweeps import launch as module

    def interrupted(run, callbacks=()):
        return {"outcome": "stopped (130)"}

    monkeypatch.setattr(module, "train_recorded", interrupted)
    code, said = launch(FILE, "runs=A,C")
    assert code == 130
    assert "stopped; the same command continues the sweep" in said.out
    assert "mine-C-seed0  did not end" in said.out


def test_win_rate_states_opponents_and_matches():
    from sparring.eval.analysis.sweeps.training import _against

    rows = [{"rollout/matches": 40.0}, {"other": 1.0}, {"rollout/matches": 1960.0}]
    assert _against(["ace", "brawler"], rows) == ", mean over ace brawler in 2,000 training matches"
