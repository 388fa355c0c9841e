"""The command `sparring`: command list, pages without torch, missing packages, and equal calls."""

import errno
import json
import re
import subprocess
import sys
import webbrowser
from pathlib import Path

import numpy as np
import pytest

import sparring
from sparring import __main__ as command
from tests.configs import messages

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_TORCH = """
import contextlib, importlib.util, io, json, sys, webbrowser
class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("torch", "warp", "pettingzoo", "tensorboard", "hydra", "omegaconf", "scipy"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
known = importlib.util.find_spec
absent = ("torch", "warp", "hydra", "pettingzoo", "tensorboard")
importlib.util.find_spec = lambda name: None if name in absent else known(name)
webbrowser.open = lambda address: print("asked for", address) or True
from sparring.__main__ import main
results = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as exit:
            code = exit.code
    results.append((code or 0, out.getvalue(), err.getvalue()))
print(json.dumps(results))
"""


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Record the addresses that a browser would open; pages go to a test folder."""
    addresses = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: addresses.append(address) or True)
    monkeypatch.setattr(sys, "argv", ["sparring"])
    return addresses


def write_run(folder):
    """Write a run folder with a hundred rows, and event files only tensorboard reads."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"run: {folder.name}\nseed: 1\n")
    rows = [{"env_steps": 100 * (n + 1), "rollout/reward": n % 7} for n in range(100)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "events.out.tfevents.1.host").touch()


def bare(*commands, cwd):
    """Run commands in a process without torch; return (exit code, stdout, stderr) of each."""
    arguments = [sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)]
    env = {"XDG_CACHE_HOME": str(cwd), "DISPLAY": ":0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_without_arguments_every_command_is_listed(printed):
    listed = printed(command.main, [])
    assert all(f"  {name} " in listed for name in command.COMMANDS)
    scripts = {path.stem for path in (ROOT / "eval").glob("*.py") if "\ndef main(" in path.read_text()}
    called = {one.module for one in command.COMMANDS.values()}
    assert {one.rpartition(".")[2] for one in called if re.fullmatch(r"sparring\.eval\.\w+", one)} == scripts


def test_released_policy_page_matches_documentation(opened, tmp_path, capsys):
    assert command.main(["play"]) == command.main(["watch"]) == 0
    page = tmp_path / "sparring" / "fly-released-dogfight_strong.html"
    assert opened == [page.as_uri(), page.as_uri() + "#watch"]
    assert page.read_text() == (ROOT / "docs" / "fly.html").read_text()
    assert command.main(["watch", "released/dogfight_quickstart"]) == 0
    assert opened[-1].endswith("fly-released-dogfight_quickstart.html#watch")
    assert "released/dogfight_quickstart, with simulator and network on one page" in capsys.readouterr().out


def test_without_browser_file_is_named(opened, monkeypatch, tmp_path, printed):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert f"open this file in one, on any machine: {tmp_path}" in printed(command.main, ["play"])


def test_without_display_no_browser_starts(opened, monkeypatch, tmp_path, capsys):
    """The default one would be a text browser that takes over the terminal."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert command.main(["play"]) == 0
    assert opened == []
    assert f"open this file in one, on any machine: {tmp_path}" in capsys.readouterr().out


def test_failed_installation_explains_offline_options(monkeypatch, capsys):
    monkeypatch.setattr(command.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, ""))
    assert command.main(["install", "plots"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sparring: install: pip failed with 1, for the reason above; without a network, run `pip do")
    assert ("'matplotlib" in said, said.count("\n")) == (True, 1)


def test_full_disk_gives_one_line_error(opened, monkeypatch, tmp_path, capsys):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(command, "write_atomically", full)
    assert command.main(["watch"]) == 2
    expected = f"sparring: {tmp_path / 'sparring'}: No space left on device; make it readable and writable or free some"
    said = capsys.readouterr().err
    assert (said.startswith(expected), said.count("\n"), opened) == (True, 1, [])


def test_without_temporary_folder_cache_is_used(opened, monkeypatch, tmp_path):
    monkeypatch.setattr(command.tempfile, "gettempdir", lambda: (_ for _ in ()).throw(FileNotFoundError("none")))
    assert command.main(["watch"]) == 0
    assert opened == [(tmp_path / "sparring" / "fly-released-dogfight_strong.html").as_uri() + "#watch"]


def test_commands_without_torch_work_or_name_extra(tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / name)
    flown, *analysed, measured, helped, refused = bare(
        ["play"],
        ["runs", "health", "one", "two"],
        ["runs", "compare", "one", "two"],
        ["bench", "--seconds", "0.01"],
        ["train", "--help"],
        ["train", "+run=quickstart"],
        cwd=tmp_path,
    )
    assert (flown[0], flown[1].startswith("asked for file://"), flown[2]) == (0, True, "")
    line = "warning: times of rows are unknown: tensorboard is not installed for "
    assert [code for code, _, _ in analysed] == [0, 0]
    warnings = "".join(err for _, _, err in analysed)
    assert (warnings.startswith(line), warnings.count("\n")) == (True, 1)  # once in a process
    assert "two minus one" in analysed[1][1]
    assert (measured[0], measured[1].count("needs torch and Warp")) == (0, 3)
    assert "`sparring install train` (1.3 GB) adds torch and Warp" in measured[1]
    assert (helped[0], "sparring train +run=NAME" in helped[1]) == (0, True)
    line = "sparring: train: needs the extra train, and torch is not installed"
    assert (refused[0], refused[2].startswith(line), refused[2].count("\n")) == (2, True, 1)


def test_play_without_torch_opens_static_page_or_names_extras(tmp_path):
    policy = "released/dogfight_quickstart"
    trained, played = "needs the extra train, and torch", "`sparring install train play`"
    (tmp_path / "agent.zip").touch()
    wrong = {
        "--opponent ace": (trained, played),
        "--port 0": (trained, played),
        "--opponent released/air_combat_f16": (trained, played),
        "--opponents released/diplomacy_student": (trained, played),
        "--opponent stockfish:1": (trained, "`sparring install train play chess`"),
        "--env openspiel --id kuhn_poker": (trained, "`sparring install train play open-spiel`"),
        "--env nope": ("unknown game 'nope': choose from dogfight",),
        "--oponent ace": ("unknown option '--oponent'", "did you mean '--opponent'?"),
        "--opponent nobody": ("no checkpoint 'nobody'",),
        "--opponent agent.zip": ("agent.zip: a page of one file plays checkpoints", "with the extras train and play"),
    }
    helped, flown, *refused = bare(
        *(["play", *words] for words in (["--help"], ["--no-browser", "--opponent", policy], *map(str.split, wrong))),
        cwd=tmp_path,
    )
    assert (helped[0], "--opponent POLICY and --no-browser still work" in helped[1]) == (0, True)
    page = tmp_path / "sparring" / "fly-released-dogfight_quickstart.html"
    assert (flown, page.is_file()) == ([0, f"Open this file in a browser, on any machine: {page}\n", ""], True)
    assert [(code, err.count("\n")) for code, _, err in refused] == [(2, 1)] * len(wrong)
    for expected, (_, _, said) in zip(wrong.values(), refused, strict=True):
        assert all(text in said for text in expected), said


def test_policies_are_listed_with_best_response(printed):
    said = printed(command.main, ["policies"])
    strong = said.split("released/dogfight_strong\n")[1].split("\n\n")[0]
    assert "worst 0.0 (runner)" in strong
    assert "97.5 %, planner" in strong
    assert said.count("\nreleased/") + 1 == len(list((ROOT / "checkpoints" / "released").glob("*.pt")))


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_sparring"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, opened, check_row):
    check_row(command.main, row)
    assert opened == []


def test_commands_are_called_with_their_options(opened, capsys, printed):
    assert "sparring train +run=" in printed(command.main, ["train", "--help"])
    assert command.main(["eval", "--ckpt", "nope"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("sparring eval: ")
    assert printed(command.main, ["watch", "--help"]).startswith("usage: sparring watch [POLICY]")


CPU_INDEX = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]


def test_extra_requirements_match_package(monkeypatch):
    stated = ["numpy>=2", 'torch>=2.6; extra == "train"', "warp-lang>=1.10 ; extra == 'train'", 'x; extra == "trainer"']
    monkeypatch.setattr(command.metadata, "requires", lambda _: stated)
    assert command.requirements("train") == ["torch>=2.6", "warp-lang>=1.10"]


@pytest.mark.parametrize(
    ("gpu", "config", "listed", "words"),
    [
        (None, "", ("torch (2.9)", "torch (2.9)"), CPU_INDEX),
        (None, "global.timeout='5'", ("torch (2.9)", "torch (2.9)"), CPU_INDEX),
        (None, "global.index-url='x'", ("2.9, 2.8.1+cpu, 2.7+cpu", ""), ["torch==2.8.1+cpu"]),
        (None, "global.find-links='x'", ("torch (2.9)", "torch (2.9+cpu)"), [*CPU_INDEX, "torch==2.9+cpu"]),
        (None, "global.index-url='x'", ("torch (2.9)", ""), []),
        ("/bin/x", "", ("torch (2.9)", "torch (2.9+cpu)"), []),
    ],
)
def test_install_uses_cpu_build_of_torch_without_gpu(gpu, config, listed, words, monkeypatch):
    """`listed` is pip's list from its own sources, and with the CPU index added."""

    def run(called, **_):
        own, beside = listed
        told = config if "config" in called else beside if CPU_INDEX[1] in called else own
        return subprocess.CompletedProcess(called, 0, told)

    monkeypatch.setattr(command.shutil, "which", lambda _: gpu)
    monkeypatch.setattr(command.subprocess, "run", run)
    assert command.cpu_build(["pettingzoo>=1", "torch>=2.6"]) == words
    assert command.cpu_build(["onnx>=1"]) == []


def test_numpy_is_device_of_load():
    obs = np.zeros((2, 59), np.float32)
    given = sparring.load("released/dogfight_strong", device="numpy").act(obs)
    expected = sparring.load("released/dogfight_strong").predict(obs)[0]
    np.testing.assert_allclose(np.clip(given, [-1, 0, 0], 1), np.clip(expected, [-1, 0, 0], 1), atol=1e-6)
    with pytest.raises(sparring.InputError, match="device='numpy' requires a policy of this project"):
        sparring.load("bot:ace", device="numpy")
