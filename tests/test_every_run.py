"""Every run file trains: two updates of each, and one of each of its phases, at a size for a test, on a CPU."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

import train as command
from agents.checkpoint import load_checkpoint
from agents.ppo.loop import train
from configs.load import load, runs
from configs.schema import DIPLOMACY, DOGFIGHT
from configs.validate import validate

SMALL = (
    *("device=cpu", "threads=1", "max_updates=2", "logger.progress=false"),
    *("env.num_envs=14", "ppo.rollout_steps=4", "ppo.minibatch_size=56", "ppo.epochs=1"),
)
PPO = [run for run in runs() if load([f"+run={run}"]).trainer == "ppo"]
"""The others have tests of their own, such as tests/agents/llm/test_clone.py."""


@pytest.mark.parametrize("run", PPO)
def test_two_updates(run, tmp_path, capsys):
    final = train(load([f"+run={run}", *SMALL, f"checkpoint_dir={tmp_path}"]))
    adjective, callsign, rest = final.parent.name.split("-", 2)
    assert adjective.isalpha()
    assert callsign.isalpha()
    assert rest == run
    assert load_checkpoint(final).training["update"] == 2
    rows = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows if "event" not in row] == [56, 112]
    assert "Ctrl-C stops it and keeps the policy" in capsys.readouterr().out


def one_update_each(phases):
    """The phases at one update each, with the last of their stages and levels, and all their events, at its start."""

    def last(entries):
        return [replace(entry, at=0) for entry in entries[-1:]]

    return [
        replace(
            phase,
            updates=1,
            stages=last(phase.stages),
            randomization=last(phase.randomization),
            events=[replace(event, at=0) for event in phase.events],
        )
        for phase in phases
    ]


@pytest.mark.parametrize("run", PPO)
def test_every_phase_trains_once(run, tmp_path):
    small = [*SMALL, "network.hidden=8", "max_updates=0", f"checkpoint_dir={tmp_path}"]
    config = load([f"+run={run}", *small, "env.num_envs=7", "ppo.minibatch_size=28"])
    checks = config.evaluation
    if checks.every:
        checks = replace(checks, games=7 if config.env.id == DIPLOMACY else 2, every=1)
    config = replace(config, phases=one_update_each(config.phases), evaluation=checks)
    validate(config)
    folder = train(config).parent
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if config.env.id == DOGFIGHT:
        assert [row["curriculum/phase"] for row in rows] == list(range(len(config.phases)))
    assert len(rows) == len(config.phases)
    assert load_checkpoint(folder / "final.pt").training["phase"] == config.phases[-1].name
    snapshots = {f"{event.snapshot}.pt" for phase in config.phases for event in phase.events if event.snapshot}
    assert snapshots <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("options", [["env.rules=challenge"], ["env.observe_physics=false", "env.bot_rate=agent"]])
def test_other_observations_train_and_meet_themselves(options, tmp_path):
    selfplay = ["phases.0.scripted_start=0.5", "phases.0.scripted_end=0.5", "evaluation.every=2", "evaluation.games=2"]
    final = train(load(["+run=quickstart", *SMALL, *options, *selfplay, f"checkpoint_dir={tmp_path}"]))
    checkpoint = load_checkpoint(final)
    size = 224 if "env.rules=challenge" in options else 46
    assert checkpoint.contract["obs_dim"] == checkpoint.network.obs_dim == size
    assert [path.name for path in (final.parent / "pool").glob("*.pt")] == ["snapshot_000000.pt"]


@pytest.mark.filterwarnings("error")
def test_the_large_run_says_once_on_a_cpu_what_it_does_instead_of_fp16(tmp_path, capfd):
    final = train(load(["+run=unified_dr_gpu_v3", *SMALL, f"checkpoint_dir={tmp_path}", "max_updates=1"]))
    words = "ppo.precision=fp16 is made for CUDA; this device is cpu, and trains in "
    streams = capfd.readouterr()
    assert (streams.out.count(words), streams.err.count("precision")) == (1, 0)
    assert (final.parent / "events.jsonl").read_text().count(words) == 1


def test_ctrl_c_at_the_command_line_exits_with_130_and_leaves_a_policy(tmp_path):
    """The real script, and a real signal in the middle of its schedule."""
    sizes = [option for option in SMALL if not option.startswith("max_updates")]
    started = subprocess.Popen(
        [sys.executable, command.__file__, "+run=quickstart", *sizes, "name=stopped", f"checkpoint_dir={tmp_path}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    while not (said and said[-1].startswith("phase ")):  # now it trains
        said.append(started.stdout.readline())
        assert said[-1], "".join(said) + started.stderr.read()
    started.send_signal(signal.SIGINT)
    rest, errors = started.communicate()
    assert started.returncode == 130, errors
    assert "interrupted after " in rest
    assert "stopping after this update" in errors
    checkpoint = load_checkpoint(tmp_path / "stopped" / "final.pt")
    assert checkpoint.training["interrupted"] is True
    assert checkpoint.training["update"] >= 1
