"""Code structure: allowed imports, the core and its parts, and sizes of files and folders."""

import ast
import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from benchmarks import structure
from benchmarks.structure_parts.parts import CORE, PARTS, crossings, lines, part_of, part_of_test, sources
from sparring.configs.core.errors import InputError
from tests.configs.run_configs import slow_but
from tests.golden.checkout import copy_working_tree

ROOT = Path(__file__).resolve().parents[1]

TOP_LEVEL = {
    *("train.py", "envs", "agents", "curriculum", "configs", "eval", "checkpoints", "tests", "docs", "benchmarks"),
    "sparring",
    *("README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "mkdocs.yml", "Makefile"),
    *("pyproject.toml", "constraints.txt", ".ci", ".gitignore"),
}
MAY_IMPORT = {
    "configs": {"configs"},
    "envs": {"configs", "envs"},
    "curriculum": {"configs", "envs", "curriculum"},
    "agents": {"configs", "envs", "curriculum", "agents"},
    "eval": {"configs", "envs", "curriculum", "agents", "eval"},
    "train.py": {"train"},
    "sparring/train.py": {"configs", "envs", "curriculum", "agents"},
}
LAYERS = {"training": "agents", "evaluation": "eval", "browser": "eval"}
"""Folders of a game, `envs/<game>/<folder>`, and the room whose imports each may have; its simulator is of `envs`."""
OURS = {"configs", "envs", "curriculum", "agents", "eval", "train", "tests", "benchmarks"}
LONGEST_FILE = 500
MOST_FILES = 15


def ignored(name):
    patterns = [line.strip("/").split("/")[0] for line in (ROOT / ".gitignore").read_text().splitlines() if line]
    return name == ".git" or (name not in TOP_LEVEL and any(fnmatch(name, pattern) for pattern in patterns))


def python_files(*places):
    found = [ROOT / place for place in places]
    return sorted(file for place in found for file in ([place] if place.suffix == ".py" else place.rglob("*.py")))


def statements(nodes):
    """Yield all statements below `nodes`; walking expressions too would take seconds."""
    for node in nodes:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, part, ()))


parsed = cache(lambda source: [*statements(ast.parse(source).body)])


def room_of(name):
    """Return the package of a module by its folder names: its layer's, inside a game."""
    parts = name.removeprefix("sparring.").split(".")
    return LAYERS.get(parts[2], "envs") if parts[0] == "envs" and len(parts) > 2 else parts[0]


def imported(source, room):
    """Return full names of a source's imports anywhere in the file; relative ones are in its own package."""
    names = set()
    for node in parsed(source):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"sparring.{room}" if node.level else str(node.module)
            names.update(f"{start}.{alias.name}" for alias in node.names)
    return names


def imported_rooms(source, room):
    """Return the packages a source imports, and `tests` or `benchmarks`; the top-level package counts as `envs`."""
    names = {"sparring.envs" if name == "sparring" else name for name in imported(source, room)}
    return {room_of(name) for name in names} & OURS


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_follow_allowed_directions(room):
    files = python_files(room)
    assert files
    for file in files:
        layer = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts)) if room == "envs" else room
        wrong = imported_rooms(file.read_text(), layer) - MAY_IMPORT[layer]
        assert not wrong, f"{file.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_benchmarks_do_not_import_tests():
    """Tests may use what benchmarks share with them, but not vice versa."""
    files = python_files("benchmarks")
    assert files
    assert [file.name for file in files if "tests" in imported_rooms(file.read_text(), "benchmarks")] == []


def test_import_rules_detect_wrong_import():
    source = (
        "def f():\n    from sparring.agents.ppo import gae\n    import sparring.eval.run as run\n    from . import x\n"
    )
    assert imported_rooms(source, "envs") == {"agents", "eval", "envs"}
    source = "from sparring.envs.chess import evaluation\nimport sparring.envs.dogfight.training.task\n"
    assert imported_rooms(source, "envs") == {"agents", "eval"}
    assert (room_of("envs.chess.browser.session"), room_of("envs.chess.board")) == ("eval", "envs")


def test_every_internal_import_uses_package_name():
    """Then a folder called envs or an installed package called agents cannot shadow ours."""
    rooms = {*MAY_IMPORT, "train"}
    likely = re.compile(rf"(?:import|from|,|\()\s+(?:{'|'.join(rooms)})\b")  # parsing all files takes seconds
    for file in python_files(*MAY_IMPORT, "tests", "benchmarks", "docs"):
        source = file.read_text()
        names = imported(source, "") if likely.search(source) else set()
        wrong = {name for name in names if name.split(".")[0] in rooms}
        assert not wrong, f"{file.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_every_module_can_be_imported_under_alias(room):
    """`import a.b.c as d` uses package attributes, which a name bound in an __init__.py can hide."""
    for file in python_files(room):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(["sparring", *(part for part in parts if part != "__init__")])
        names = {}
        try:
            exec(f"import {name} as found", names)
        except InputError as missing:  # the form of a game for a hub whose package is not installed
            if ".envs.hubs." not in name or "sparring install" not in str(missing):
                raise
            continue
        assert names["found"].__name__ == name


def test_top_level_matches_architecture():
    assert {path.name for path in ROOT.iterdir() if not ignored(path.name)} == TOP_LEVEL


def test_files_stay_short():
    lengths = {file: len(file.read_text().splitlines()) for file in python_files(*TOP_LEVEL)}
    assert {str(file.relative_to(ROOT)): n for file, n in lengths.items() if n > LONGEST_FILE} == {}


def test_no_file_is_named_for_unrelated_helpers():
    names = {"utils", "util", "helpers", "misc", "common"}
    assert [str(file) for file in python_files(*TOP_LEVEL) if file.stem in names] == []


@cache
def modules():
    """Return the file of every module, by full name."""
    files = {}
    for file in python_files(*MAY_IMPORT):
        parts = file.relative_to(ROOT).with_suffix("").parts
        files[".".join(["sparring", *(part for part in parts if part != "__init__")])] = file
    return files


def imports_of(source, known):
    """Return modules among `known` that a source imports by full name, including `if TYPE_CHECKING`."""
    found = set()
    for node in parsed(source):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else str(node.module) for name in names} & set(known)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & set(known)
    return found


def cycles(graph):
    """Return groups of mutually reachable nodes, by removing nodes without predecessors or successors."""
    left = {node: set(targets) & set(graph) - {node} for node, targets in graph.items()}
    while True:
        reached = set().union(*left.values())
        ends = {node for node, targets in left.items() if not targets or node not in reached}
        if not ends:
            return left
        left = {node: targets - ends for node, targets in left.items() if node not in ends}


@cache
def graph_of_files():
    known = modules()
    return {name: imports_of(file.read_text(), known) for name, file in known.items()}


def test_imports_have_no_file_cycles():
    assert cycles(graph_of_files()) == {}


KNOWN_ROOM_CYCLES: set[tuple[str, ...]] = set()


def test_subpackages_have_no_import_cycles():
    """Subpackages are the folders inside a package, whose own files may use all of them."""
    known, rooms = modules(), {}
    folders = {name: file.parent.relative_to(ROOT).parts for name, file in known.items()}
    for name, targets in graph_of_files().items():
        for target in targets:
            here, there = folders[name], folders[target]
            shared = next((k for k, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), None)
            if shared:
                rooms.setdefault(here[: shared + 1], set()).add(there[: shared + 1])
    rooms |= {room: set() for targets in list(rooms.values()) for room in targets if room not in rooms}
    assert cycles(rooms) == {}


def test_import_cycle_is_detected():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b": {"c"}, "c": {"b"}}


def test_no_folder_holds_more_than_fifteen_files():
    counts = {}
    for file in python_files(*MAY_IMPORT, "benchmarks", "tests"):
        counts[file.parent] = counts.get(file.parent, 0) + 1
    assert {str(folder.relative_to(ROOT)): n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_class_names_are_unique():
    names = {}
    for file in python_files(*MAY_IMPORT):
        for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE):
            names.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


ENTERED = {
    "files entered by a PPO update": 28,
    "files entered by a GRPO step": 50,
    "files entered by an evaluation": 38,
}


@pytest.mark.parametrize("name", slow_but([name for name in ENTERED if "GRPO" not in name], ENTERED))
def test_entered_files_do_not_increase(name):
    assert 0 < len(structure.entered(ROOT, structure.TRACED[name])) <= ENTERED[name]


def test_structure_figures_by_hand(tmp_path):
    """A product of two files, counted by hand."""
    for room in ("sparring", *structure.ROOMS, "tests"):
        (tmp_path / room).touch() if "." in room else (tmp_path / room).mkdir()
    one = "import os\nfrom sparring.eval import (\n    two,\n)\nfound = two.two(os)\n"
    (tmp_path / "eval" / "one.py").write_text(one)
    (tmp_path / "eval" / "two.py").write_text("def two(found):\n    return found\n\n\nfoundation = 3\n")
    (tmp_path / "tests" / "test_one.py").write_text("found = 1\n")
    figures = structure.counts(tmp_path)
    names = ("product lines", "product files", "import lines, % of product lines", "test lines")
    assert [figures[name] for name in names] == ["10", "7", "40.0", "1"]


ARROWS = {
    *((game, "language") for game in ("diplomacy", "chess", "openspiel_text")),
    ("openspiel_text", "imported"),
}
"""The only imports between parts."""
CEILINGS = {
    CORE: 25_027,
    "air_combat": 6_777,
    "chess": 4_787,
    "diplomacy": 19_324,
    "dogfight": 6_483,
    "exploitability": 4_117,
    "imported": 9_554,
    "language": 10_963,
    "openspiel_text": 1_862,
    "population": 417,
    "runs": 9_903,
    "sb3": 442,
}
"""Lines. The core's ceiling only falls; a part's is raised only by a commit that names its new capability."""
REMAINING = {"dogfight": "bots_only", "air_combat": "air_combat_quickstart"}
"""Games that train after all other parts are deleted, with a run file of each."""
USE = """\
import contextlib, io, json, sys
def call(main, words, expected=0):
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(words)
    assert (code or 0) == expected, (words, code, errors.getvalue())
    return printed.getvalue(), errors.getvalue()
import sparring
from sparring.__main__ import main as program
from sparring.configs.core.status import LOADING
from sparring.train import main as train
from sparring.eval.run import main as evaluate
run, refused = json.loads(sys.argv[1])
assert "usage: sparring" in call(program, [])[0]
assert "usage: python train.py" in call(train, ["--help"])[0]
small = "scale=0.001 max_updates=2 name=x threads=1 device=cpu logger.progress=false evaluation.every=0"
call(train, [f"+run={run}", *small.split()])
call(evaluate, "--ckpt x --opponents ace --games 2 --quiet".split())
for words in refused:
    lines = [line for line in call(train, words.split(), 2)[1].splitlines() if line != LOADING]
    assert len(lines) == 1, (words, lines)
print(call(train, ["--help", "all"])[0])
"""
REFUSED = {
    "language": ["+run=diplomacy_quickstart"],
    "sb3": ["+run=quickstart trainer=sb3"],
    "imported": ["+run=openspiel", "+run=gymnasium"],
    "runs": ["+sweep=stability_ablation", "+run=quickstart --multirun seed=1,2"],
}
"""Command lines of `train.py` that need a part; without it each is refused in one line."""


@pytest.fixture(scope="module")
def product():
    return sources(ROOT)


def test_core_imports_no_part_and_parts_follow_directions(product):
    assert {pair: imports for pair, imports in crossings(product).items() if pair not in ARROWS} == {}


def test_core_and_part_lines_stay_below_ceilings(product):
    assert {part: n for part, n in lines(product).items() if n > CEILINGS[part]} == {}


def test_every_part_has_files_and_ceiling(product):
    assert {part_of(name) for name in product} == {CORE, *PARTS} == {*CEILINGS}


def test_crossings_count_late_and_relative_imports():
    files = {
        "agents/ppo/trainer.py": "def f():\n    from sparring.envs.chess import board\n    import sparring.eval.runs\n",
        "envs/chess/__init__.py": "from sparring.envs.chess.board import x\n",
        "envs/chess/board.py": "",
        "eval/runs.py": "",
    }
    assert crossings(files) == {
        ("core", "chess"): {"agents/ppo/trainer.py imports envs/chess/board.py"},
        ("core", "runs"): {"agents/ppo/trainer.py imports eval/runs.py"},
    }


def delete(parts, folder):
    """Delete the files and tests of parts in a copy, with emptied folders; return the number of files."""
    tests = folder / "tests"
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and (
            part_of_test(path.relative_to(tests))
            if path.is_relative_to(tests)
            else part_of(path.relative_to(folder).as_posix())
        )
        in parts
    ]
    for path in files:
        path.unlink()
    for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        if not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
    return len(files)


@pytest.mark.parametrize(
    ("game", "parts"),
    [
        ("air_combat", tuple(part for part in PARTS if part != "air_combat")),
        pytest.param("dogfight", tuple(part for part in PARTS if part != "dogfight"), marks=pytest.mark.slow),
        *(pytest.param("dogfight", (part,), marks=pytest.mark.slow) for part in PARTS if part != "dogfight"),
        pytest.param("air_combat", ("dogfight",), marks=pytest.mark.slow),
    ],
)
def test_rest_trains_and_evaluates_without_parts(game, parts, tmp_path):
    copy_working_tree(ROOT, tmp_path)
    assert delete(parts, tmp_path) > 3
    uses = json.dumps([REMAINING[game], [words for part in parts for words in REFUSED.get(part, ())]])
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", USE, uses]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = ("+sweep=" in done.stdout, "model.lora_rank" in done.stdout)
    assert shown == ("runs" not in parts, "language" not in parts)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("envs/diplomacy/board/test_board.py", "diplomacy"),
        ("envs/chess", "chess"),
        ("envs/air_combat/training/test_air_combat_task.py", "air_combat"),
        ("eval/analysis/test_rules.py", "runs"),
        ("agents/ppo/test_losses.py", CORE),
        ("conftest.py", CORE),
    ],
)
def test_test_file_belongs_to_mirrored_part(path, part):
    assert part_of_test(Path(path)) == part
