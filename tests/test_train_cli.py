"""The command line: exit codes, one-line errors, help, and independence of the working directory."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sparring import train
from sparring.agents import trainers
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import CLOSED_PIPE, LOADING
from sparring.configs.load import load, runs
from sparring.configs.serialization import from_plain, to_plain
from sparring.eval.run import env_of
from tests.configs import messages

SCRIPT = Path(train.__file__).resolve()


@pytest.fixture
def trained(monkeypatch):
    """Stand in for the trainer; the list receives its configurations."""
    calls = []
    monkeypatch.setattr(train, "train", lambda config: calls.append(config))
    return calls


def test_trainer_gets_composed_configuration(trained):
    assert train.main(["+run=quickstart", "seed=3", "env.num_envs=256"]) == 0
    assert trained == [load(["+run=quickstart", "seed=3", "env.num_envs=256"])]


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_train"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, trained, check_row):
    check_row(train.main, row)
    assert trained == []


def test_without_arguments_six_working_commands_are_listed(trained, capsys):
    assert train.main([]) == 2
    streams = capsys.readouterr()
    assert (streams.out, trained) == ("", [])
    commands = re.findall(r"^  python (\S+) (.*?)(?:   .*|  any .*)?$", streams.err, re.MULTILINE)
    assert len(commands) == 6
    for script, words in commands:
        assert load(words.split()) if script == "train.py" else env_of(words.split()) == "dogfight"


REFUSED = {
    "+run=quickstart seed=x": "seed=x: ",
    "+run=diplomacy_ppo trainer=sb3": "env.id=sparring/Diplomacy-v0: trainer=sb3 plays sparring/Dogfight",
    "resume=started env.last_year=1920": "env.last_year=1920: the run was started with 1910",
    "+run=diplomacy_ppo name=started seed=9": "seed=9: the run was started with 1",
}


def test_preflight_rejects_invalid_config_before_importing_torch(tmp_path):
    """Importing torch or Warp fails here, and no loading message is printed."""
    folder = tmp_path / "started"
    folder.mkdir()
    stored = load(["+run=diplomacy_ppo", "name=started", f"checkpoint_dir={tmp_path}"])
    (folder / "config.yaml").write_text(yaml.safe_dump(to_plain(stored)))
    (folder / "metrics.jsonl").write_text("{}\n")  # an update was done
    code = "import sys; sys.modules |= {'torch': None, 'warp': None}; from sparring.train import main\n"
    code += "print([main([*words.split(), sys.argv[1]]) for words in sys.argv[2:]])"
    command = [sys.executable, "-c", code, f"checkpoint_dir={tmp_path}", *REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SCRIPT.parent, check=False)
    assert done.stdout == "[2, 2, 2, 2]\n"
    for line, words in zip(done.stderr.splitlines(), REFUSED.values(), strict=True):
        assert words in line
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "metrics.jsonl"]


def test_input_error_found_by_trainer_has_same_format(trained, monkeypatch, error_line):
    def refuse(config):
        raise InputError("device=cuda: there is none here; use device=cpu")

    monkeypatch.setattr(train, "train", refuse)
    line = error_line(train.main, ["+run=quickstart", "logger.progress=false"])
    assert line == "train.py: device=cuda: there is none here; use device=cpu\n"


@pytest.mark.parametrize(
    ("options", "rank", "said"),
    [([], None, f"{LOADING}\n"), (["logger.progress=false"], None, ""), ([], "0", f"{LOADING}\n"), ([], "1", "")],
)
def test_slow_start_is_announced_before_trainer_loads(monkeypatch, capsys, tmp_path, options, rank, said):
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    seen = []

    def stop(name):
        seen.append(capsys.readouterr().err)
        raise InputError("stopped before the trainer loads")

    monkeypatch.setattr(trainers, "load_trainer", stop)
    assert train.main(["+run=quickstart", f"checkpoint_dir={tmp_path}", *options]) == 2
    assert seen == [said]


def test_ctrl_c_exits_with_130(trained, monkeypatch):
    def interrupted(config):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train", interrupted)
    assert train.main(["+run=quickstart"]) == 130


def test_internal_error_keeps_traceback(trained, monkeypatch):
    def broken(config):
        raise ValueError("not the person's fault")

    monkeypatch.setattr(train, "train", broken)
    with pytest.raises(ValueError, match="not the person's fault"):
        train.main(["+run=quickstart"])


def test_help_lists_runs_with_purpose_and_options_with_ranges(trained, printed):
    text = printed(train.main, ["--help", "all"])
    for name, purpose in runs().items():
        assert f"{name} " in text
        assert purpose in text
    assert "ppo.clip=0.2" in text
    assert "(0, 1]" in text
    assert "phases.0.events.0.snapshot=" in text
    assert max(map(len, text.splitlines())) <= 120
    assert trained == []


def test_cfg_prints_yaml_that_reads_back(trained, capsys):
    assert train.main(["+run=unified_dr_cpu", "--cfg"]) == 0
    assert from_plain(yaml.safe_load(capsys.readouterr().out)) == load(["+run=unified_dr_cpu"])
    assert trained == []


def test_script_runs_from_other_directory(tmp_path):
    for package in ("configs", "agents"):  # packages of these names where it is started must not be taken for ours
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('wrong package')")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "+run=quickstart", "ppo.clip=7"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (2, "train.py: ppo.clip=7: must be in (0, 1]; the default is 0.2\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agents", "configs"]


@pytest.mark.parametrize(
    ("command", "code"), [("train.py +run=quickstart --cfg", CLOSED_PIPE), ("eval/curves.py --help", 0)]
)
def test_closed_pipe_ends_command_quietly(command, code):
    """Like `| head -1` after its line; here the pipe is closed before. `run_command` covers all of eval/."""
    script, *arguments = command.split()
    gone, pipe = os.pipe()
    os.close(gone)
    done = subprocess.run(
        [sys.executable, str(SCRIPT.parent / script), *arguments], stdout=pipe, stderr=subprocess.PIPE, check=False
    )
    os.close(pipe)
    assert (done.returncode, done.stderr) == (code, b"")
