"""`benchmarks/gpu.py`: a failing part stops no other, errors are found, and the time limit holds."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.command import run_script
from benchmarks.gpu_parts.part import Found
from benchmarks.gpu_run import process, registry
from benchmarks.gpu_run.page import page
from benchmarks.gpu_run.process import CRASHED, FAILED, NOT_RUN, PASSED, SKIPPED, TIMED_OUT, Outcome, run_part

ROOT = Path(__file__).resolve().parents[2]
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def python(code):
    """Return a command that runs `code`, where sys.argv[1] is the result file."""
    return [sys.executable, "-c", f"import json, os, signal, subprocess, sys, time\n{code}"]


def writing(found):
    return f"json.dump({found.plain()!r}, open(sys.argv[1], 'w'))"


HURT = "print('seen on the way');" + writing(Found(checks={"equal": False, "finite": True}))


@pytest.mark.parametrize(
    ("code", "status", "why", "said"),
    [
        (writing(Found(checks={"equal": True})), PASSED, "", ""),
        (HURT, FAILED, "does not hold: equal", "seen on the way"),
        (writing(Found(skipped="package X is not installed")), SKIPPED, "package X is not installed", ""),
        ("sys.exit(3)", CRASHED, "exit code 3 and no result", ""),
        ("raise ValueError('CUDA error')", CRASHED, "exit code 1 and no result", "CUDA error"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", CRASHED, "ended by signal 11", ""),
        ("open(sys.argv[1], 'w').write('{')", CRASHED, "exit code 0 and no result", ""),
    ],
)
def test_part_reports_how_it_ended(code, status, why, said):
    outcome = run_part("a", python(code), limit=60.0)
    assert (outcome.status, outcome.why) == (status, why)
    assert said in outcome.output
    assert bool(said) == bool(outcome.output)
    assert status != PASSED or outcome.found["checks"] == {"equal": True}


def test_hanging_part_is_killed_with_its_children(tmp_path):
    mark = tmp_path / "child"
    child = f"import pathlib, time; time.sleep(2.5); pathlib.Path({str(mark)!r}).touch()"
    code = f"subprocess.Popen([sys.executable, '-c', {child!r}]); print('hangs', flush=True); time.sleep(600)"
    outcome = run_part("a", python(code), limit=2.0)
    assert (outcome.status, outcome.why) == (TIMED_OUT, "not done after 2 s")
    assert outcome.output == "hangs"
    time.sleep(1.5)
    assert not mark.exists()


def outcomes_of(monkeypatch, statuses):
    """Make the parts end with `statuses`, and the others pass."""
    monkeypatch.setattr(gpu, "check_device", lambda device: None)
    monkeypatch.setattr(gpu, "one_part", lambda part, args, left: Outcome(part.name, statuses.get(part.name, PASSED)))


def run_main(monkeypatch, tmp_path, *options):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--out", str(tmp_path / "gpu.md"), *options])
    return gpu.main()


@pytest.mark.parametrize(
    ("statuses", "code"), [({}, 0), ({"tokens": SKIPPED}, 0), *(({"kernels": status}, 1) for status in process.BROKEN)]
)
def test_all_parts_run_despite_failure_of_one(monkeypatch, tmp_path, statuses, code):
    outcomes_of(monkeypatch, statuses)
    assert run_main(monkeypatch, tmp_path) == code
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert {part["name"]: part["status"] for part in report["parts"]} == dict.fromkeys(gpu.NAMES, PASSED) | statuses
    text = (tmp_path / "gpu.md").read_text()
    assert all(f"| {name} |" in text for name in gpu.NAMES)


def test_limits_keep_total_within_nine_minutes():
    assert sum(part.limit for part in registry.PARTS) <= registry.WHOLE <= 9 * 60 - 10


def test_part_gets_at_most_remaining_time(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--limit", "30"])
    args, limits = gpu.parse(), []
    monkeypatch.setattr(gpu, "run_part", lambda name, command, limit: limits.append(limit) or Outcome(name, PASSED))
    part = registry.PARTS[0]
    for left in (500.0, 12.0):
        gpu.one_part(part, args, left=left)
    assert limits == [30.0, 12.0]
    assert gpu.one_part(part, args, left=0.5).status == NOT_RUN


@without_cuda
def test_missing_gpu_prints_one_line_with_alternative(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert run_script(gpu.main) == 2
    error = capsys.readouterr().err
    assert error == (
        "benchmarks/gpu.py: device=cuda: no CUDA device on this machine; --device cpu tries the script at tiny sizes\n"
    )


def test_page_names_machine_commit_and_failures():
    found = Found(checks={"equal": False}, notes=["A note."])
    found.table("Speeds:", ["size", "per second"], [["256", "1,000"]])
    part = Outcome("kernels", FAILED, 1.25, 60.0, found=found.plain(), why="does not hold: equal", output="last line")
    machine = {"packages": {"torch": "2.11"}, "cpu": "a CPU", "cores": 16, "load": 0.1, "python": "3.12", "system": "L"}
    machine |= {"gpu": "a GPU", "gpu_memory_gib": 79.1, "driver": "580", "cuda": "13.0"}
    report = {"machine": machine, "quick": False, "date": "2026-01-02", "commit": "abc", "seed": 3, "seconds": 9.0}
    text = page(report | {"command": "python gpu.py", "parts": [part.plain() | {"title": "Kernels"}]})
    for wanted in ("a GPU (79.1 GiB), driver 580, CUDA 13.0", "a CPU, 16 cores", "torch 2.11", "commit abc, seed 3"):
        assert wanted in text
    assert "| kernels | failed: does not hold: equal | 1.2 | 60 |" in text
    assert "- DOES NOT HOLD: equal" in text
    assert "| 256 | 1,000 |" in text
    assert "    last line" in text


def test_script_runs_parts_on_cpu_from_any_folder(tmp_path):
    out = tmp_path / "found" / "gpu.md"
    options = ["--device", "cpu", "--parts", "captured", "--out", str(out), "--commit", "abc", "--seed", "2"]
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.with_suffix(".json").read_text())
    assert [(part["name"], part["status"]) for part in report["parts"]] == [("captured", PASSED)]
    assert (report["commit"], report["seed"], report["quick"]) == ("abc", 2, True)
    assert report["machine"]["packages"]["torch"] == torch.__version__
    assert out.read_text() in done.stdout
