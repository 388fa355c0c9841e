"""Equal recordings pass, and planted differences of any kind are found and named."""

import json

import pytest
import torch
import yaml

from tests.golden.compare import FILE, Recording, report
from tests.golden.parts import PARTS, select
from tests.golden.renames import Renames

PART = "resume_selfplay"
"""One with twins: runs called whole and cut."""
MACHINE = {"torch": "2.0"}


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_run(folder, name, *, seconds):
    """Write a minimal run; values from clock or path depend on `seconds` and `folder`."""
    run = folder / PART / name
    config = {"name": name, "checkpoint_dir": str(folder), "ppo": {"clip": 0.2}}
    state = {
        "learner": {"weight": torch.arange(6.0).view(2, 3), "nan": torch.tensor(float("nan"))},
        "logger": {"bytes": {"metrics.jsonl": int(100 * seconds)}},
    }
    (run / "state" / "update_000002").mkdir(parents=True)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    torch.save(state, run / "state" / "update_000002" / "state.pt")
    torch.save({"training": {"run": name, "config": config}, "weight": torch.ones(2)}, run / "final.pt")
    write_json(run / "manifest.json", {"final.pt": {"sha256": f"{seconds}"}})
    write_json(run / "eval.json", {"command": str(folder), "checkpoint": f"{folder}/final.pt", "wins": 3})
    rows = [{"env_steps": 8, "time/rollout_seconds": seconds, "train/loss": 0.1}, {"env_steps": 16, "train/loss": 0.2}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    event = {"env_steps": 0, "event": f"{folder}: 2 updates, about {seconds:.0f} s on this machine; go", "kind": "info"}
    (run / "events.jsonl").write_text(json.dumps(event) + "\n")
    (run / "lock").write_text(f"{seconds}")


def write_recording(folder, *, seconds):
    for name in ("whole", "cut"):
        write_run(folder, name, seconds=seconds)
    (folder / PART / "1.log").write_text(f"{seconds}")
    parts = {PART: {"seconds": seconds, "failed": ""}}
    about = {"source": folder.name, "places": {str(folder): "<out>"}, "machine": MACHINE, "parts": parts}
    write_json(folder / FILE, about)


@pytest.fixture
def pair(tmp_path):
    """Return two recordings of the same run at other times and places."""
    for name, seconds in (("base", 7.5), ("head", 31.25)):
        write_recording(tmp_path / name, seconds=seconds)
    return tmp_path / "base", tmp_path / "head"


def compare(pair, renames=None, **options):
    return report(*map(Recording, pair), renames or Renames(), **options)


def test_equal_recordings_pass_with_other_times_and_paths(pair, capsys):
    assert compare(pair) == 0
    assert "equal, 14 files" in capsys.readouterr().out


def replace_text(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def change_tensor(file, change):
    content = torch.load(file, weights_only=True)
    change(content)
    torch.save(content, file)


def both_runs(folder, name, change):
    """Change a file of both runs, so they stay consistent."""
    for run in ("whole", "cut"):
        change(folder / PART / run / name)


STATE = "state/update_000002/state.pt"
PLANTED = {
    "a digit of a metric": ("metrics.jsonl",
     lambda file: replace_text(file, '"train/loss": 0.2', '"train/loss": 0.20000000000000001'),
     "metrics.jsonl: 1/train/loss: 0.2 | 0.20000000000000001"),
    "a metric's name": ("metrics.jsonl", lambda file: replace_text(file, '"train/loss": 0.1', '"train/Loss": 0.1'),
     "metrics.jsonl: 0/train/loss: 0.1 | (nothing) (and 1 more)"),
    "a row more": ("metrics.jsonl", lambda file: file.write_text(file.read_text() + '{"env_steps": 24}\n'),
     "metrics.jsonl: 2/env_steps: (nothing) | 24"),
    "the last bit of a weight": (STATE,
     lambda file: change_tensor(file, lambda state: state["learner"]["weight"].view(torch.int32)[1, 1].add_(1)),
     "learner/weight: 4.0 (element 4 of 6, 1 differ) | 4.000000476837158"),
    "a tensor's type": (STATE,
     lambda file: change_tensor(file, lambda state: state["learner"].update(weight=torch.arange(6).view(2, 3))),
     "learner/weight: float32[2, 3] | int64[2, 3]"),
    "a tensor that is gone": ("final.pt", lambda file: change_tensor(file, lambda content: content.pop("weight")),
     "final.pt: weight: float32[2] | (nothing)"),
    "a number instead of text": ("eval.json", lambda file: replace_text(file, '"wins": 3', '"wins": "3"'),
     "eval.json: wins: 3 | '3'"),
    "a default": ("config.yaml", lambda file: replace_text(file, "clip: 0.2", "clip: 0.3"),
     "config.yaml: ppo/clip: 0.2 | 0.3"),
    "a file that is gone": ("eval.json", lambda file: file.unlink(), "eval.json: there | missing"),
    "a file that is new": ("best.pt", lambda file: torch.save({}, file), "best.pt: missing | there"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_difference_is_found_and_named(name, pair, capsys):
    file, change, expected = PLANTED[name]
    both_runs(pair[1], file, change)
    assert compare(pair) == 1
    out = capsys.readouterr().out
    assert any(line.startswith("    whole/") and expected in line for line in out.splitlines())
    assert " of whole and cut" not in out  # the runs agree with each other


def test_diverging_resumed_run_is_found_in_either_recording(pair, capsys):
    for folder in pair:
        change_tensor(folder / PART / "cut" / STATE, lambda state: state["learner"]["weight"].zero_())
    assert compare(pair) == 1
    out = capsys.readouterr().out
    for side in ("first", "second"):
        assert f"    {side}: {STATE} of whole and cut: learner/weight: 1.0 (element 1 of 6, 5 differ) | 0.0" in out


@pytest.mark.parametrize(("messages", "wrong"), [(True, 1), (False, 0)])
def test_wording_counts_unless_ignored(messages, wrong, pair):
    both_runs(pair[1], "events.jsonl", lambda file: replace_text(file, "2 updates", "two updates"))
    assert compare(pair, messages=messages) == wrong


def test_failed_part_does_not_count_as_equal(pair, capsys):
    for folder in pair:
        replace_text(folder / FILE, '"failed": ""', '"failed": "python train.py: exit code 2: no such option"')
    assert compare(pair) == 1
    assert "first: python train.py: exit code 2: no such option" in capsys.readouterr().out


def test_missing_part_does_not_count_as_equal(pair, capsys):
    replace_text(pair[1] / FILE, PART, "another")
    assert compare(pair) == 2
    assert "is not in the second recording" in capsys.readouterr().out
    assert compare(pair[::-1], parts=[PART]) == 1
    assert "is not in the first recording" in capsys.readouterr().out


def rename_key(file):
    """Rename `ppo.clip` to `ppo.clipping.ratio`, and add `ppo.rate`."""
    new = {"clipping": {"ratio": 0.2}, "rate": 1}
    if file.suffix == ".yaml":
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"ppo": new}))
    else:
        change_tensor(file, lambda content: content["training"]["config"].update(ppo=new))


def test_only_declared_config_key_renames_are_ignored(pair, capsys):
    for file in ("config.yaml", "final.pt"):
        both_runs(pair[1], file, rename_key)
    assert compare(pair) == 1
    assert "ppo/clip: 0.2 | (nothing)" in capsys.readouterr().out
    assert compare(pair, Renames({"ppo.clip": "ppo.clipping.ratio"}, added=("ppo.rate",))) == 0
    assert compare(pair, Renames({"ppo.clip": None}, added=("ppo.rate", "ppo.clipping"))) == 0
    assert compare(pair, Renames(added=("ppo.rate", "ppo.clipping"), dropped=("ppo",))) == 0
    assert compare(pair, Renames(added=("ppo.rate", "ppo.clipping"), dropped=("network",))) == 1
    both_runs(pair[1], "config.yaml", lambda file: replace_text(file, "ratio: 0.2", "ratio: 0.3"))
    assert compare(pair, Renames({"ppo": "ppo", "ppo.clip": "ppo.clipping.ratio"}, added=("ppo.rate",))) == 1


def test_options_are_spelled_for_each_checkout():
    renames = Renames({"env.rules": "env.dogfight.rules", "grpo.old": None, "clone": "cloning"})
    old, new = {"env.rules", "grpo.old", "clone.bot"}, {"env.dogfight.rules", "cloning.bot"}
    for option, spelled in {
        "env.rules=classic": "env.dogfight.rules=classic",
        "clone.bot=ace": "cloning.bot=ace",
        "grpo.old=1": None,
        "ppo.clip=0.1": "ppo.clip=0.1",
        "+run=quickstart": "+run=quickstart",
    }.items():
        assert renames.option(option, lambda: new) == spelled
        assert renames.option(option, lambda: old) == option


def test_parts_are_selected_by_prefix():
    assert [part.name for part in select(["grpo"])] == [part.name for part in PARTS if part.name.startswith("grpo_")]
    assert [part.name for part in select(["ppo_challenge"])] == ["ppo_challenge"]
    assert select([]) == list(PARTS)
    with pytest.raises(ValueError, match="part 'pp': there is none; choose from simulators"):
        select(["pp"])
