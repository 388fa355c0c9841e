"""Commands in the README and on the first pages are valid, and the README's Python runs."""

import re
import shlex
from functools import partial
from pathlib import Path

import pytest
import yaml

from sparring import train
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.load import load
from sparring.configs.serialization import to_plain
from sparring.eval import curves, diplomacy_replay, payoff, seeds
from sparring.eval.analysis.sweeps.plan import names_sweep, read_grid, read_sweep
from sparring.eval.options import parse
from sparring.eval.run import env_of, evaluation_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "training.md", ROOT / "docs" / "evaluation.md"]
BLOCKS = [block for page in PAGES for block in re.findall(r"```(\w*)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)]
COMMANDS = [shlex.split(line, comments=True) for _, block in BLOCKS for line in block.splitlines() if "python " in line]


def commands(script):
    found = {" ".join(words): words[2:] for words in COMMANDS if words[:2] == ["python", script]}
    assert found
    return list(found.values())


@pytest.mark.parametrize("arguments", commands("train.py"), ids=" ".join)
def test_readme_training_commands_are_parsed(arguments, capsys, tmp_path):
    if "--help" in arguments:
        assert train.main(arguments) == 0
        return
    if names_sweep(arguments):
        assert len(read_sweep(arguments).runs) > 1
        return
    if "--multirun" in arguments:
        assert len(read_grid(arguments[1:]).runs) > 1
        return
    if arguments[0].startswith("resume="):
        folder = tmp_path / arguments[0].removeprefix("resume=")
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump(to_plain(load(["+run=quickstart"]))))
        arguments = [*arguments, f"checkpoint_dir={tmp_path}"]
    load(arguments)


@pytest.mark.parametrize("arguments", commands("eval/run.py"), ids=" ".join)
def test_readme_evaluation_commands_are_parsed(arguments):
    try:
        game = env_of(arguments)
    except UnknownNameError:  # a run that the reader is to have trained
        game = "dogfight"
    assert parse(evaluation_of(game).options, arguments).command.startswith("python eval/run.py")


READERS = {
    "payoff": payoff.read,
    "seeds": partial(parse, seeds.SeedOptions),
    "curves": partial(parse, curves.CurveOptions),
    "diplomacy_replay": partial(parse, diplomacy_replay.ReplayOptions),
}


@pytest.mark.parametrize("command", READERS)
def test_other_measurement_commands_are_parsed(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("game.json").touch()  # a saved game must be there before anything is played
    assert [READERS[command](arguments).command for arguments in commands(f"eval/{command}.py")]


def test_readme_python_examples_run(tmp_path, monkeypatch):
    """The examples run in order; training and evaluation by Stable-Baselines3 are shortened."""
    monkeypatch.chdir(tmp_path)
    codes = [block for language, block in BLOCKS if language == "python"]
    names = {}
    for code in smaller(codes, {"n_steps=256, batch_size=2048": "n_steps=4", "500_000": "256", "games=100": "games=2"}):
        exec(compile(code, "README.md", "exec"), names)
        if "model" not in names:
            check_environments(names)
    assert names["info"]["outcome"] in (-1, 0, 1)
    assert (tmp_path / "match.html").is_file()
    for name in ("env", "vector", "both", "batch"):
        names[name].close()


def smaller(codes, sizes):
    """Return code blocks with replaced numbers; each must occur."""
    for old, new in sizes.items():
        assert any(old in code for code in codes), old
        codes = [code.replace(old, new) for code in codes]
    return codes


def check_environments(names):
    env, vector = names["env"], names["vector"]
    env.reset(seed=1)
    assert env.step(env.action_space.sample())[0].shape == (59,)
    assert env.render().shape[2] == 3
    assert vector.reset(seed=1)[0].shape == (256, 59)
    assert set(names["both"].reset(seed=1)[0]) == set(names["both"].possible_agents)
    assert names["batch"].obs.shape == (4096, 2, 59)
