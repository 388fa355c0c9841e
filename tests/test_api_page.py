"""docs/api.md: every example runs, every public name is on the page, and importing is light."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparring
from sparring.agents.opponents import players
from sparring.configs.load import load_named
from sparring.configs.overrides import as_override
from sparring.eval.analysis.sweeps import launch
from tests.test_readme import smaller

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
CODES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Use an empty folder for runs and files."""
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path / "checkpoints")
    return tmp_path


def test_examples_run(here, capsys, monkeypatch):
    launched = []
    monkeypatch.setattr(launch, "_launch", lambda folder, names, launcher: launched.extend(names))
    tiny = {"checkpoint_dir": str(here / "checkpoints"), "env.num_envs": 8, "env.action_repeat": 120, "threads": 1}
    tiny |= {"ppo.rollout_steps": 16, "ppo.minibatch_size": 64, "device": "cpu", "logger.progress": False}
    names = {"tiny": tiny, "__name__": "__main__"}
    sizes = {
        '"max_updates": 200}': '"max_updates": 2, **tiny}',
        '"evaluation.every": 20, "evaluation.games": 100}': '"evaluation.every": 1, "evaluation.games": 2, **tiny}',
        ">= 0.9": ">= 0.0",
        '"max_updates": 200, "logger.progress": False}': '"max_updates": 1, **tiny}',
        "DogfightBatch(1024": "DogfightBatch(4",
        "torch.zeros(1024": "torch.zeros(4",
        "range(100)": "range(2)",
        "games=400": "games=2",
        'opponent="ace")\nobs': 'opponent="ace", action_repeat=120)\nobs',
        "n_steps=256, batch_size=2048": "n_steps=4",
        "500_000": "256",
        '"agent.zip", opponents="ace")': '"agent.zip", opponents="ace", games=2)',
        "snapshots=4, games=20": "snapshots=4, games=2",
        '{"ppo.learning_rate": 3e-4}, steps=2_000_000, seeds=3': (
            '{"env.num_envs": 10, "ppo.rollout_steps": 10, "ppo.minibatch_size": 100, "evaluation.every": 1}, '
            'steps=100, seeds=1, games=2, device="cpu", threads=1, out="responses"'
        ),
    }
    for code in smaller(CODES, sizes):
        exec(compile(code, "docs/api.md", "exec"), names)
    said = capsys.readouterr().out
    assert "update 1 of " in said  # the callback stopped the run after its first evaluation
    assert "update 2 of " not in said
    rows = (here / "checkpoints" / "second" / "metrics.jsonl").read_text().splitlines()
    assert len([row for row in map(json.loads, rows) if "event" not in row]) == 1
    assert launched == [run["run"] for run in names["grid"].runs] == [f"clips-{number}" for number in range(4)]
    assert names["policy"].training["run"] == "first"
    assert names["info"]["outcome"] in (-1, 0, 1)
    assert names["evaluation"].data["seed"] == 7
    assert {path.name for path in here.iterdir()} == {
        *("checkpoints", "match.html", "match.gif", "game.html", "agent.zip", "agent.onnx", "france.html", "responses")
    }


def test_every_public_name_is_on_page():
    table = "".join(re.findall(r"^\| `sparring\..*", PAGE, re.MULTILINE))
    assert [name for name in sparring.__all__ if f"`sparring.{name}" not in table] == []
    assert set(sparring.__all__) <= set(dir(sparring))
    for name in sparring.__all__:
        assert inspect.getdoc(getattr(sparring, name))


def test_documented_parameters_match_code():
    from sparring.agents.policies.loaded_policy import LoadedPolicy

    assert [*inspect.signature(sparring.train).parameters] == ["run", "overrides", "callbacks", "reward"]
    stated = re.search(r"`predict\((.*?)\)`", PAGE).group(1)
    code = [str(one).replace("'", "") for one in inspect.signature(LoadedPolicy.predict).parameters.values()]
    assert stated.split(", ") == [re.sub(r":[^=]*", "", one).replace(" ", "") for one in code[1:]]


def test_unknown_name_is_attribute_error():
    with pytest.raises(AttributeError, match="module 'sparring' has no attribute 'evalute'"):
        _ = sparring.evalute


def test_importing_name_stays_light():
    heavy = "{'torch', 'warp', 'stable_baselines3', 'transformers', 'matplotlib'} & set(sys.modules)"
    names = ("train", "evaluate", "record", "exploit", "play", "Callback", "InputError")
    code = f"import sys, sparring\n{'; '.join(f'sparring.{name}' for name in names)}\nprint({heavy})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_bad_input_is_reported_without_torch():
    calls = (
        "sparring.train('quikstart')",
        "sparring.train('rookworld_grpo', {'dry_run': True})",
        "sparring.load('no_such_run')",
        "sparring.evaluate('bot:ace', games=3)",
        "sparring.exploit('bot:ace')",
        "sparring.export('bot:ace')",
    )
    code = "import sys; sys.modules['torch'] = None; import sparring\n"
    code += "".join(f"try: {call}\nexcept sparring.InputError as error: print(error)\n" for call in calls)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.count("\n"), done.stderr) == (len(calls), "")


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (None, "null"), (3, "3"), (1e-4, "0.0001"), ("ace", "ace"), ([1, "a b"], "[1,'a b']"), ("", "")],
)
def test_values_are_formatted_as_on_command_line(value, text):
    assert as_override(value) == text


@pytest.mark.parametrize("name", ["it's", "a,b", "a: b", "{x}", "quote'\\'", "100 %", "=", "a#b"])
def test_texts_reach_configuration_unchanged(name):
    assert load_named("quickstart", {"logger.wandb_project": name}).logger.wandb_project == name


def test_lists_and_sections_reach_configuration():
    stages = [{"at": 0, "bots": ["ace", "brawler"]}]
    assert load_named("quickstart", {"phases.0.stages": stages}).phases[0].stages[0].bots == ["ace", "brawler"]
    assert load_named("quickstart", {"ppo.lr": 1e-3}).ppo.learning_rate == 1e-3
