"""Tutorials, training.md and scaling.md run as scripts: blocks in order, at a small size.

Python blocks share one namespace; a block that begins with `# NAME.py` is added to that file instead, and one of YAML
becomes a run file in a copy of configs/. Commands of `sh` blocks run in this process, to load torch once, in a folder
of their own.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from sparring import train
from sparring.configs import load
from sparring.eval import check, run
from sparring.eval.analysis.sweeps.plan import names_sweep, read_grid, read_sweep
from sparring.eval.exploitability.options import ExploitOptions
from sparring.eval.options import parse, parse_known
from sparring.eval.payoff import read
from sparring.eval.play import PlayChoice

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [ROOT / "docs" / "training.md", ROOT / "docs" / "scaling.md"]
FILES = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), *GUIDES]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FILES}
BLOCK = re.compile(r"^```(python|sh|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN_FILE = re.compile(r"^# configs/(run/\w+\.yaml)$", re.MULTILINE)
FILE = re.compile(r"# (\w+)\.py\n")
MACHINE = ("device=cpu", "threads=1", "logger.progress=false")
DOGFIGHT = ("env.num_envs=16", "ppo.rollout_steps=16", "ppo.minibatch_size=256", "env.action_repeat=120")
GRPO = (
    "grpo.steps=1",
    "grpo.groups=1",
    "grpo.samples_per_group=2",
    "grpo.rollout_warmup_phases=0",
    "env.last_year=1901",
)
GAMES = 20
"""Of evaluations whose command leaves the number open."""
NOT_RUN = {"make install", "source .venv/bin/activate", "export PYTHONPATH=."}
SMALL = {
    "start.md": {"max_updates=20": "max_updates=1", "--games 40": "--games 2"},
    "first_agent.md": {"max_updates=60": "max_updates=1", "GAMES = 200": "GAMES = 4", "256, 200": "8, 20"},
    "own_reward.md": {"max_updates=60": "max_updates=1", "--games 40": "--games 2"},
    "own_opponent.md": {"GAMES = 100": "GAMES = 4", "max_updates=40": "max_updates=1",
     "max_updates=2": "max_updates=1", "--games 40": "--games 2",
     "--last-year 1905": "--last-year 1901"},
    "your_game.md": {"max_updates=20": "max_updates=10", "max_updates=25": "max_updates=11",
     "opponents=[gunmen:Trigger] max_updates=10": "opponents=[gunmen:Trigger] max_updates=1"},
    "tables.md": {"GAMES = 400": "GAMES = 4", "range(20)": "range(2)",
     "--ladder --games 40": "--ladder --games 4 --opponents ace,brawler", "--games 40": "--games 4"},
    "training.md": {f"max_updates={long}": f"max_updates={short}" for long,
     short in ((40, 1), (80, 2), (95, 3))},
    "language_model.md": {"LAST_YEAR = 1905": "LAST_YEAR = 1901", "--games 70": "--games 7 --protocol alone"},
    "scaling.md": {"max_updates=40": "max_updates=1", "max_updates=60": "max_updates=2"},
}  # fmt: skip
"""Replacements in the text of each page, each of which must occur."""


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if page == "language_model.md":
        trainer = import_module("sparring.agents.language.grpo.trainer").GRPOTrainer  # its workers import for seconds
        monkeypatch.setattr(trainer, "_new_players", import_module("tests.agents.language.grpo.small_runs").in_process)
    modules = set(sys.modules)
    names = {"__name__": "__main__"}
    for language, code in BLOCK.findall(_small(page)):
        file = FILE.match(code)
        if language == "sh":
            for line in code.splitlines():
                _run(line, tmp_path)
        elif language == "yaml":
            _add_run_file(code, tmp_path, monkeypatch)
        elif file:
            with (tmp_path / f"{file[1]}.py").open("a", encoding="utf-8") as module:
                module.write(code.removeprefix(file[0]))
            sys.modules.pop(file[1], None)  # a reader's next command imports the longer file
        else:
            exec(compile(code, page, "exec"), names)
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == tmp_path:
            del sys.modules[name]
    if page == "your_game.md":
        _check_showdown(tmp_path / "checkpoints" / "duel", capsys.readouterr().out)


def test_agents_page_lines_are_read_as_the_game_of_each_policy():
    sections = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8").split("\n## `")[1:]
    for section in sections:
        name = section.partition("`")[0]
        game = next((game for game in ("air_combat", "diplomacy", "dogfight") if name.startswith(game)), "diplomacy")
        lines = re.findall(r"^sparring (\w+) (.*)", section, re.MULTILINE)
        words = {command: shlex.split(text, comments=True) for command, text in lines}
        assert {*words} == {"eval", "play", "exploit"}, name
        played, evaluated = parse_known(PlayChoice, words["play"]).game, run.evaluation_of(run.env_of(words["eval"]))
        games = parse(played.options, words["play"]).TEXT.env, parse(evaluated.options, words["eval"]).TEXT.env
        assert games == (game, game), name
        assert parse(ExploitOptions, words["exploit"]).runner, name


def test_tutorial_game_is_short():
    blocks = [code for _, code in BLOCK.findall(PAGES["your_game.md"]) if code.startswith("# showdown.py")]
    assert [len(code.splitlines()) <= 52 for code in blocks] == [True]


def _small(page):
    text = PAGES[page]
    for usual, small in SMALL[page].items():
        assert usual in text, usual
        text = text.replace(usual, small)
    return text


def _run(line, folder):
    """Run a page's command; those that need a shell, a cluster or minutes are only parsed."""
    words = _in_checkout(shlex.split(line.removeprefix("RAY_ADDRESS=10.0.0.1:6379 "), comments=True))
    here = [*MACHINE, f"checkpoint_dir={folder / 'checkpoints'}"]
    if line in NOT_RUN:
        return
    if words[:2] == ["python", "eval/run.py"]:
        few = [] if "--games" in words else ["--games", str(GAMES)]
        few += ["--max-games", "8"] if "--sprt" in words else []
        codes = (0, 1) if "--sprt" in words else (0,)
        assert run.main([*words[2:], *few, "--device", "cpu", "--threads", "1", "--quiet"]) in codes
    elif words[:2] == ["python", "eval/exploit.py"]:
        assert parse(ExploitOptions, words[2:]).runner
    elif words[:2] == ["python", "eval/play.py"]:
        assert parse(parse_known(PlayChoice, words[2:]).game.options, words[2:])
    elif words[:2] == ["python", "eval/payoff.py"]:
        assert read(words[2:]).runner
    elif words[:2] == ["python", "eval/check.py"]:
        assert check.main([*words[2:], "--trial", "1"]) == 0
    elif words[:2] == ["python", "train.py"] and names_sweep(words[2:]):
        assert len(read_sweep(words[2:]).runs) > 1
    elif words[:2] == ["python", "train.py"] and "grpo.executor=ray" in words:
        assert load.load(words[2:]).grpo.executor == "ray"
    elif words[:3] == ["python", "train.py", "--multirun"]:
        assert len(read_grid([*words[3:], f"checkpoint_dir={folder}"]).runs) > 1
    elif words[:2] == ["python", "train.py"]:
        assert train.main([*words[2:], *_size(words), *here]) == 0
    elif words[0] == "torchrun":  # in this process alone; tests/agents/distributed starts several
        assert train.main([*words[words.index("train.py") + 1 :], *_size(words), *here]) == 0
    else:
        assert words[0] == "mv", f"unknown command: {line}"
        subprocess.run(words, check=True)


def _in_checkout(words):
    """Return the checkout's command for a package command, as in docs/installation.md."""
    scripts = {"train": "train.py", "eval": "eval/run.py"}
    return ["python", scripts.get(words[1], f"eval/{words[1]}.py"), *words[2:]] if words[0] == "sparring" else words


def _add_run_file(code, folder, monkeypatch):
    """Write a page's run file into a copy of configs/, which is then used."""
    monkeypatch.setattr(load, "CONFIG_DIR", folder / "configs")
    monkeypatch.setattr(load, "ROOT", folder)
    shutil.copytree(ROOT / "configs" / "run", folder / "configs" / "run")
    (folder / "configs" / RUN_FILE.search(code)[1]).write_text(code, encoding="utf-8")


def _size(words):
    """Return options that shrink a new run; a resumed one keeps its own."""
    if {"+run=quickstart", "+run=best_response", "+run=hunted"} & set(words):
        return DOGFIGHT
    return GRPO if "+run=diplomacy_quickstart" in words else ()


def _check_showdown(folder, output):
    """The trained policy beats the bot that always shoots: shield, then shoot while it reloads."""
    records = json.loads((folder / "eval.json").read_text())["records"]
    assert [record["opponent"] for record in records] == ["gunmen:Trigger", "gunmen:Cautious"]
    assert records[0]["wins"] > GAMES // 2, records[0]
    assert "{'player_0': " in output  # the match in Python
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 11  # ten updates, and one after resuming
