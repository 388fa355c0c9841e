"""Hostile values are rejected in one line with exit code 2, without running code or creating files.

A stored configuration is as hostile as a command line: people resume runs that others gave them.
"""

import os

import pytest
import yaml

from sparring import train
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.configs.serialization import to_plain
from sparring.envs.dogfight.config import DogfightRunConfig

SECRET = "canary-4f1d6b"
LONG = "x" * 10_000
DIGITS = "9" * 5_000
DEEP = 1_500

COMMAND_LINE = {
    "a folder above": "name=../../canary",
    "a folder above, hidden in a path": "name=a/../../canary",
    "an absolute folder": "name=/tmp/canary",
    "a hidden folder": "name=.canary",
    "the folder itself": "name=.",
    "the released policies": "name=released",
    "a zero byte": "name=a\0b",
    "a zero byte in a path": "checkpoint_dir=a\0b",
    "a second line": "name='a\nb'",
    "an escape of the terminal": "name='\x1b[2Ja'",
    "letters of another alphabet": "name=\u0430mber",
    "a slash of another alphabet": "name=a\u2215b",
    "a key of another alphabet": "n\u0430me=amber",
    "a name of 10,000 letters": f"name={LONG}",
    "a key of 10,000 letters": f"{LONG}=1",
    "a run of 10,000 letters": f"+run={LONG}",
    "a run file elsewhere": "+run=../config",
    "an absolute run file": "+run=/etc/passwd",
    "a run in another package": "+run@env=quickstart",
    "a device that is a path": "device=/dev/zero",
    "a snapshot that is a path": "phases=[{updates:2,stages:[{bots:[ace]}],events:[{snapshot:../../x}]}]",
    "a snapshot over the final policy": "phases=[{updates:2,stages:[{bots:[ace]}],events:[{snapshot:final}]}]",
    "a seed of 5,000 digits": f"seed={DIGITS}",
    "a float of 400 digits": f"ppo.clip={DIGITS[:400]}",
    "a float of 5,000 digits": f"ppo.clip={DIGITS}",
    "a number beyond floats": "ppo.clip=1e999",
    "a count beyond the machine": "env.num_envs=18446744073709551616",
    "digits of another alphabet": "ppo.clip=\uff10.1",
    "a target to instantiate": "+_target_=os.system",
    "a target inside an option": "ppo={_target_:os.system,command:id}",
    "a target inside a text": "logger.wandb_project={_target_:os.system}",
    "a target inside a list": "phases=[{_target_:os.system}]",
    "the environment": "logger.wandb_project=${oc.env:SPARRING_CANARY}",
    "the environment in a path": "checkpoint_dir=${oc.env:SPARRING_CANARY}",
    "the environment inside a text": "logger.wandb_project=a${oc.env:SPARRING_CANARY}b",
    "the environment in a list": "phases=[{name:'${oc.env:SPARRING_CANARY}'}]",
    "the environment in a key": "logger={'${oc.env:SPARRING_CANARY}':1}",
    "the environment as a run": "+run=${oc.env:SPARRING_CANARY}",
    "hydra's own settings in a value": "logger.wandb_project=${hydra:runtime.cwd}",
    "a resolver that makes things up": "logger.wandb_project=${oc.create:{a:1}}",
    "another option": "logger.wandb_project=${checkpoint_dir}",
    "a sweep over a range": "seed=range(1,9)",
    "a sweep over choices": "seed=choice(1,2)",
    "a sweep over files": "+run=glob(*)",
    "hydra's settings": "hydra.run.dir=canary",
    "a launcher": "+hydra/launcher=joblib",
    "a search path": "hydra.searchpath=[file:///tmp]",
    "the defaults list": "+defaults=[/etc/passwd]",
    "the defaults list as a key": "++defaults.0=run/quickstart",
    "a group of hydra": "override hydra/job_logging=disabled",
    "a tag of YAML": "logger.wandb_project=!!python/object/apply:os.system [id]",
    "lists in lists": "phases=" + "[" * DEEP + "]" * DEEP,
    "mappings in mappings": "ppo=" + "{a:" * DEEP + "1" + "}" * DEEP,
    "dots without end": ".".join(["ppo"] * DEEP) + "=1",
    "an index without end": "phases.99999999999999999999.updates=1",
    "a negative index": "phases.-1.updates=1",
    "nothing": "",
    "only an equals sign": "=",
    "an unclosed quote": "name='a",
    "an unclosed bracket": "phases=[",
}


@pytest.fixture(autouse=True)
def watched(tmp_path, monkeypatch):
    """Set up an empty working directory, a secret in the environment, and a trainer that must not be called."""
    monkeypatch.setattr(train, "train", lambda config: pytest.fail(f"a run of {config} was started"))
    monkeypatch.setattr(os, "system", lambda command: pytest.fail(f"{command} was run"))
    monkeypatch.setenv("SPARRING_CANARY", SECRET)
    monkeypatch.chdir(tmp_path)


def refused(capsys, *arguments):
    """Return the one-line error for a command line."""
    assert train.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("train.py: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable(), "one line, and nothing in it that a terminal obeys"
    assert len(err) < 2_100
    assert SECRET not in err
    return err


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("override", COMMAND_LINE.values(), ids=COMMAND_LINE)
def test_hostile_command_line_is_rejected(tmp_path, capsys, override):
    arguments = [override] if override.startswith("+run") else ["+run=quickstart", override]
    refused(capsys, *arguments)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "override", ["resume=../other", "resume=[a,b]", "resume={a:1}", f"resume={LONG}", "resume=a\0"]
)
def test_hostile_resume_name_is_rejected(tmp_path, capsys, override):
    refused(capsys, override, "checkpoint_dir=.")
    refused(capsys, override, "checkpoint_dir=a\0b")
    assert files(tmp_path) == []


STORED = {
    "an object": "!!python/object:os.system {}",
    "a call": "!!python/object/apply:os.system ['touch canary']",
    "a call as a value": "seed: !!python/object/apply:os.system ['touch canary']",
    "a call as a key": "? !!python/object/apply:os.system ['touch canary']\n: 1",
    "a module": "seed: !!python/module:antigravity",
    "a name": "seed: !!python/name:os.system",
    "an unknown tag": "seed: !canary 1",
    "a target": "_target_: os.system",
    "a target inside": "ppo: {_target_: os.system}",
    "a defaults list": "defaults: [/run/quickstart]",
    "hydra's settings": "hydra: {run: {dir: canary}}",
    "the environment": "logger: {wandb_project: '${oc.env:SPARRING_CANARY}'}",
    "the environment in a list": "phases: [{name: '${oc.env:SPARRING_CANARY}'}]",
    "a name that is a path": "name: ../../canary",
    "a run that is a path": "run: ../../canary",
    "a snapshot that is a path": "phases: [{updates: 2, stages: [{bots: [ace]}], events: [{snapshot: ../x}]}]",
    "a zero byte": 'checkpoint_dir: "a\\0b"',
    "a second line": 'checkpoint_dir: "a\\nb"',
    "bytes that are no text": b"\xff\xfe\x00seed: 1",
    "a huge number": f"seed: {DIGITS}",
    "a huge float": f"ppo: {{clip: {DIGITS[:400]}}}",
    "a date that never was": "seed: 2001-99-99",
    "a date": "seed: 2001-01-01",
    "a set": "phases: !!set {a, b}",
    "a number as a key": "1: 2",
    "nothing as a key": "ppo: {null: 1}",
    "a list as a key": "? [a, b]\n: 1",
    "lists in lists": "phases: " + "[" * DEEP + "]" * DEEP,
    "mappings in mappings": "ppo: " + "{a: " * DEEP + "1" + "}" * DEEP,
    "itself": "ppo: &p {clip: *p}",
    "a list of itself": "phases: &p [*p]",
    "a thousand million laughs": "seed: " + "[" + "&a0 [ha], "
    + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)) + "]",
    "two documents": "seed: 1\n---\nseed: 2",
    "a list": "[1, 2]",
    "a word": "canary",
    "nothing": "",
}  # fmt: skip


@pytest.mark.parametrize("text", STORED.values(), ids=STORED)
def test_hostile_stored_configuration_is_rejected(tmp_path, capsys, text):
    (tmp_path / "mine").mkdir()
    stored = tmp_path / "mine" / "config.yaml"
    stored.write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused(capsys, "resume=mine", f"checkpoint_dir={tmp_path}")
    assert files(tmp_path) == ["mine", "mine/config.yaml"]
    assert "config.yaml" in line or "mine" in line


@pytest.mark.parametrize("name", ["a date", "a set", "nothing as a key", "a defaults list", "hydra's settings"])
def test_error_names_external_run_file(tmp_path, capsys, name):
    (tmp_path / "own.yaml").write_text(STORED[name])
    assert f"run={tmp_path / 'own.yaml'}: " in refused(capsys, f"+run={tmp_path / 'own.yaml'}")


def test_run_resumes_in_found_folder_ignoring_stored_path(tmp_path):
    """A copied folder would otherwise write into its original, or restart elsewhere."""
    (tmp_path / "mine").mkdir()
    plain = to_plain(DogfightRunConfig()) | {"checkpoint_dir": "/elsewhere"}
    (tmp_path / "mine" / "config.yaml").write_text(yaml.safe_dump(plain))
    config = load(["resume=mine", f"checkpoint_dir={tmp_path}"])
    assert (config.name, config.checkpoint_dir) == ("mine", str(tmp_path))


def test_message_is_one_line_for_any_quoted_text():
    assert str(InputError("a\r\n  b\x1b[2J\0c")) == "a b\\x1b[2J\\x00c"
    assert len(str(InputError("x" * 5_000_000))) < 2_100
