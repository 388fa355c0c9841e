"""Sweeps on the executor and Hydra's launchers: every combination is a run, failures are isolated."""

import json
import shlex
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
import yaml

import sparring
from sparring import train
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.configs.core.device import Executor
from sparring.configs.core.errors import InputError
from sparring.eval.analysis.sweeps.file import LAUNCHERS, launchers
from sparring.eval.analysis.sweeps.launch import _train_task, launch_sweep, table
from sparring.eval.analysis.sweeps.plan import HydraLauncher, SweepWorkers, read_grid

ROOT = Path(train.__file__).resolve().parents[1]

TINY = ["+run=gymnasium", "threads=1", "max_updates=1", "env.num_envs=2", "ppo.rollout_steps=8"]
TINY += ["ppo.minibatch_size=16"]


def launched(tmp_path, capsys, *arguments):
    code = train.main(["--multirun", *TINY, "name=tiny", f"checkpoint_dir={tmp_path}", *arguments])
    return code, capsys.readouterr().out


def test_every_combination_is_validated_run():
    wanted = read_grid(["+run=quickstart", "seed=1,2", "ppo.clip=0.1,0.2", "threads=1", "workers=3"])
    assert [(run.seed, run.ppo.clip) for run in wanted.runs] == [(1, 0.1), (1, 0.2), (2, 0.1), (2, 0.2)]
    assert wanted.varied[2] == "seed=2 ppo.clip=0.1"
    assert (wanted.launcher, wanted.launcher.name) == (SweepWorkers(3), "3 workers")
    slurm = read_grid(["+run=quickstart", "launcher=slurm", "hydra.launcher.partition=gpu"]).launcher
    assert (slurm.name, slurm.options["partition"]) == ("submitit_slurm", "gpu")
    with pytest.raises(InputError, match=r"ppo\.clip=7: must be in \(0, 1\]"):
        read_grid(["+run=quickstart", "ppo.clip=0.1,7"])
    with pytest.raises(InputError, match=r"unknown launcher 'slrum': .*did you mean 'slurm'"):
        read_grid(["+run=quickstart", "launcher=slrum"])
    with pytest.raises(InputError, match="1200 runs: a sweep has at most 1000"):
        read_grid(["+run=quickstart", "seed=range(0,1200)"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["workers=0"], r"workers=0: must be a whole number in \[1, 1024\]"),
        (["workers=many"], "workers=many: must be a whole number"),
        (["executor=rey"], "unknown executor 'rey': .*did you mean 'ray'"),
        (["hydra.launcher.n_jobs=3"], r"hydra\.launcher\.n_jobs=3: is an option of a launcher; .* give workers=N"),
        (["launcher=slurm", "workers=3"], "workers=3: is the executor's; leave it out, or launcher=slurm"),
    ],
)
def test_training_location_options_are_validated(words, message):
    with pytest.raises(InputError, match=message):
        read_grid(["+run=quickstart", *words])


def test_runs_are_executor_tasks_and_failure_is_table_row(tmp_path, capsys, packed_tasks):
    options = [*TINY[1:], "name=tiny", f"checkpoint_dir={tmp_path}", "executor=ray", "executor_address=head:6379"]
    found = sparring.sweep(run="gymnasium", overrides=options, varied={"device": ["cpu", "cuda:99"]})
    assert packed_tasks == [(Executor("ray", "head:6379", 2), 2)]
    assert (found.folder, found.exit_code) == (tmp_path / "tiny-sweep", 1)
    assert [(run["run"], run["varied"]) for run in found.runs] == [
        ("tiny-0", "device=cpu"),
        ("tiny-1", "device=cuda:99"),
    ]
    assert found.runs[1]["outcome"].startswith("failed: device=cuda:99: this machine has")
    begin, *_, good, bad = capsys.readouterr().out.splitlines()
    assert begin.endswith("tiny-sweep: 2 runs, launched by ray")
    assert good.split()[:4] == ["device=cpu", "tiny-0", "done", "1"]
    assert bad.startswith("device=cuda:99  tiny-1  failed: device=cuda:99: this machine has")
    assert load_checkpoint(tmp_path / "tiny-0" / "final.pt").training["update"] == 1


def test_task_without_checkpoint_folder_asks_for_shared_disk(tmp_path):
    with pytest.raises(InputError, match="none: is not on this machine; give a checkpoint_dir= on a disk that all"):
        _train_task(tmp_path / "none", False, "tiny-0", None)


LONGER = (
    *("+run=quickstart", "threads=1", "max_updates=40", "checkpoint_every=10", "env.num_envs=32", "evaluation.every=0"),
    *("ppo.rollout_steps=16", "ppo.minibatch_size=128", "name=tiny", "seed=1,2"),
)


@pytest.mark.slow
def test_killed_driver_resumes_with_weights_of_one_process(tmp_path):
    """Killed while two workers train; repeating the command resumes, with the weights of one worker."""
    for folder in (tmp_path / "killed", tmp_path / "whole"):
        folder.mkdir()
    command = [sys.executable, str(ROOT / "train.py"), "--multirun", *LONGER]
    killed = [*command, f"checkpoint_dir={tmp_path / 'killed'}", "workers=2"]
    rows = [tmp_path / "killed" / f"tiny-{number}" / "metrics.jsonl" for number in range(2)]
    with subprocess.Popen(killed, stdout=subprocess.DEVNULL) as driver:
        until = time.monotonic() + 300
        while not any(file.is_file() and file.read_bytes().count(b"\n") > 12 for file in rows):
            assert time.monotonic() < until
            time.sleep(0.1)
        driver.kill()
    outcomes = [
        json.loads((tmp_path / "killed" / "tiny-sweep" / f"tiny-{number}.json").read_text()) for number in (0, 1)
    ]
    assert not all(outcome["outcome"] == "done" for outcome in outcomes)
    subprocess.run(killed, check=True, stdout=subprocess.DEVNULL, timeout=600)
    whole = [*command, f"checkpoint_dir={tmp_path / 'whole'}", "workers=1"]
    subprocess.run(whole, check=True, stdout=subprocess.DEVNULL, timeout=600)
    logs = [tmp_path / "killed" / "tiny-sweep" / f"tiny-{number}.log" for number in range(2)]
    assert any("resumed after update" in log.read_text() for log in logs)
    for number in range(2):
        one, other = (load_checkpoint(tmp_path / name / f"tiny-{number}" / "final.pt") for name in ("killed", "whole"))
        assert one.training["update"] == other.training["update"] == 40
        weights, others = one.network.state_dict(), other.network.state_dict()
        assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_call_names_what_it_trains():
    with pytest.raises(InputError, match="give either a sweep file"):
        sparring.sweep()
    with pytest.raises(InputError, match=r"unknown sweep 'stabilty_ablation': .*did you mean 'stability_ablation'"):
        sparring.sweep("stabilty_ablation")


def test_repeated_sweep_resumes_its_runs(tmp_path, capsys, packed_tasks):
    """Hydra's own jobs find the remaining work in the folder of a sweep that the executor started."""
    code, out = launched(tmp_path, capsys, "seed=1,2")
    assert (code, len(packed_tasks)) == (0, 1), out
    longer = read_grid([*TINY, "name=tiny", f"checkpoint_dir={tmp_path}", "seed=1,2", "max_updates=2"])
    found = launch_sweep(replace(longer, launcher=HydraLauncher("basic", {})))
    assert [(run["run"], run["outcome"], run["updates"]) for run in found.runs] == [
        ("tiny-0", "done", 2),
        ("tiny-1", "done", 2),
    ]


@pytest.mark.slow
def test_submitit_trains_in_own_process(tmp_path, capsys):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    code, out = launched(tmp_path, capsys, "seed=1", "launcher=local")
    assert code == 0, out
    assert out.splitlines()[-1].split()[:3] == ["tiny-0", "done", "1"]


def test_slurm_options_exist_in_launcher():
    config = pytest.importorskip("hydra_plugins.hydra_submitit_launcher.config")
    options = yaml.safe_load((LAUNCHERS / "slurm.yaml").read_text())["options"]
    assert options.keys() <= {field.name for field in fields(config.SlurmQueueConf)}
    assert launchers() == ["local", "slurm"]


def test_scaling_page_commands_are_parsed():
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("sparring train --multirun")]
    assert [len(read_grid(words[3:]).runs) for words in commands] == [3, 6, 3]


def test_table_is_aligned_and_names_unfinished_runs():
    lines = table(["seed=1", "seed=10"], [{"run": "x-0", "outcome": "done", "updates": 3}, {"outcome": "did not end"}])
    assert lines == [
        "         run  outcome      updates  result",
        "seed=1   x-0  done         3",
        "seed=10       did not end",
    ]
