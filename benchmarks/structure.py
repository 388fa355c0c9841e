"""Structure of the code in figures: `python benchmarks/structure.py`; `--root` measures another checkout.

Counts lines, imports, names and words in the product (`agents`, `configs`, `curriculum`, `envs`, `eval`, `train.py`).
It also counts options, and those that no run or sweep file sets. `--traced` runs a PPO update, a GRPO step and an
evaluation of a checkpoint under a tracer. It counts the files and functions that they enter.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import publish, table
from benchmarks.structure_parts import parts

ROOT = Path(__file__).resolve().parents[1]
_NAMES = ("sparring/__init__.py", "sparring/__main__.py", "sparring/train.py", "__init__.py")
ROOMS = ("agents", "configs", "curriculum", "envs", "eval", "train.py", *_NAMES)
"""The package's own names are in its folder, in older checkouts at the top."""
PROSE = ("docs", "checkpoints", "README.md", "CHANGELOG.md", "Makefile", "pyproject.toml", ".ci/run")
WORDS = ("nobody", "somebody", "anybody", "everybody", "whoever", "whom", "anew", "lately", "begun", "thereof")
BANNED = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
VAGUE = re.compile(
    "found|told|said|given|asked|wanted|shown|seen|ones?|own|mine|theirs|every|others|whole|known|place|way|heard|made|"
    "kept|left|held|t?here|nothing|anything|again|more|further|likely|usual"
)
"""Names that do not say what a variable holds."""
NUMERICS = re.compile(
    r"^(gae|rollout|loss|kl|advantages|importance|elo|bayesian|ratings|learner|scoring|actor_critic|order_network)$"
)
"""Names of files whose comments count beside those of kernels."""
COUNTED = (ast.Import, ast.ImportFrom, ast.Name, ast.arg)
"""Nodes that are counted; each tree is walked once for them."""
Nodes = Sequence[ast.AST]
TARGETS = {
    "product lines": "<= 74,000",
    "core lines": "<= 26,000",
    "imports from the core into parts": "0",
    "product files": "<= 440",
    "import lines, % of product lines": "<= 6",
    "files with one importer": "<= 90",
    "files with one importer and at most 80 lines": "<= 10",
    "vague names, per 1,000 lines": "<= 5",
    "options": "<= 230",
    "options that no run or sweep file sets": "<= 40",
    "files entered by a PPO update": "<= 30",
    "functions entered by a PPO update": "<= 190",
    "deepest call of a PPO update": "<= 16",
    "files entered by a GRPO step": "<= 50",
    "files entered by an evaluation": "<= 26",
    "test lines": "<= 60,000",
    "banned words in code and docs": "< 20",
    "comment lines on kernels and numerics": "3-5 %",
    "words of the main navigation": "<= 45,000",
    "words of the lab notes": "<= 40,000",
}
_COMMON = "device=cpu threads=1 logger.progress=false name=traced checkpoint_every=1000 evaluation.every=0"
_PPO = (
    "+run=bots_only env.num_envs=16 env.action_repeat=120 ppo.rollout_steps=24 ppo.minibatch_size=128 ppo.epochs=2 "
    "ppo.precision=fp32 network.hidden=16 max_updates=3"
)
_GRPO = (
    "+run=diplomacy_exp1_quick grpo.groups=2 grpo.samples_per_group=2 grpo.rollout_horizon_years=1 grpo.steps=3 "
    "grpo.rollout_long_horizon_years=1 grpo.rollout_warmup_phases=2 grpo.minibatch_samples=8 grpo.buffer_depth=0 "
    "env.last_year=1903 league.cold_start_steps=1"
)
TRACED = {
    "files entered by a PPO update": f"update train.py {_PPO} {_COMMON} checkpoint_dir={{out}}",
    "files entered by a GRPO step": f"update train.py {_GRPO} {_COMMON} checkpoint_dir={{out}}",
    "files entered by an evaluation": "all eval/run.py --ckpt released/dogfight_bots_only --games 2 --device cpu "
    "--threads 1 --quiet --out {out} --opponents ace,held_out:straight,released/dogfight_unified_dr",
}


def main() -> int:
    args = parse()
    figures = counts(args.root) | options(args.root, args.files)
    if args.traced or args.files:
        figures |= traced(args.root, args.files)
    rows = [(name, figures.get(name, "-"), target) for name, target in TARGETS.items()]
    publish(table(("", "measured", "target"), rows), args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout to measure")
    parser.add_argument(
        "--traced",
        action="store_true",
        help="also count the files that an update, a step and an evaluation enter; takes minutes",
    )
    parser.add_argument("--files", action="store_true", help="also list these files")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_args()


def counts(root: Path) -> dict[str, str]:
    """Return what can be read off the files below `root`, by the names in `TARGETS`."""
    sources = {path: path.read_text(encoding="utf-8") for path in _files(root, ROOMS, ".py")}
    nodes = {
        path: [node for node in ast.walk(ast.parse(source)) if isinstance(node, COUNTED)]
        for path, source in sources.items()
    }
    lines = sum(source.count("\n") for source in sources.values())
    alone = _single_importer(root, nodes)
    product = parts.sources(root)
    into_parts = {pair: names for pair, names in parts.crossings(product).items() if pair[0] == parts.CORE}
    return {
        "product lines": f"{lines:,}",
        "core lines": f"{parts.lines(product)[parts.CORE]:,}",
        "imports from the core into parts": str(sum(map(len, into_parts.values()))),
        "product files": str(len(sources)),
        "import lines, % of product lines": f"{100 * sum(map(_import_lines, nodes.values())) / lines:.1f}",
        "files with one importer": str(len(alone)),
        "files with one importer and at most 80 lines": str(sum(sources[path].count("\n") <= 80 for path in alone)),
        "vague names, per 1,000 lines": f"{1000 * sum(map(_vague_names, nodes.values())) / lines:.1f}",
        "test lines": f"{sum(file.read_text('utf-8').count(chr(10)) for file in _files(root, ('tests',), '.py')):,}",
        "banned words in code and docs": str(_banned(root)),
        "comment lines on kernels and numerics": _comment_share(sources),
        "words of the main navigation": _navigation_words(root),
        "words of the lab notes": _lab_note_words(root),
    }


def _files(root: Path, places: tuple[str, ...], *endings: str) -> Iterator[Path]:
    for place in places:
        path = root / place
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in below if file.is_file() and (not endings or file.suffix in endings))


def _import_lines(nodes: Nodes) -> int:
    """Lines of import statements, wherever in the file."""
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)


def _vague_names(nodes: Nodes) -> int:
    """Variables where they are assigned, and parameters, with a name of `VAGUE`."""
    variables = (node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    parameters = (node.arg for node in nodes if isinstance(node, ast.arg))
    return sum(VAGUE.fullmatch(name) is not None for name in (*variables, *parameters))


def _single_importer(root: Path, files: Mapping[Path, Nodes]) -> list[Path]:
    """Files, apart from `__init__.py`, that exactly one other file of the product imports."""
    modules = {".".join(("sparring", *path.relative_to(root).with_suffix("").parts)): path for path in files}
    importers: dict[Path, set[Path]] = {}
    for path, nodes in files.items():
        for name in _imported_names(nodes):
            target = modules.get(name) or modules.get(name.rpartition(".")[0])
            if target and target != path:
                importers.setdefault(target, set()).add(path)
    return [path for path, users in importers.items() if len(users) == 1 and path.name != "__init__.py"]


def _imported_names(nodes: Nodes) -> list[str]:
    """Full names of what a module imports, anywhere in the file."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _banned(root: Path) -> int:
    """Uses in the product, its run files, benchmarks and pages; the lists of these words are not uses."""
    endings = (".py", ".md", ".yaml", ".html", ".txt", ".toml", "")
    files = [file for file in _files(root, (*ROOMS, "benchmarks", *PROSE), *endings) if _is_page_or_code(file, root)]
    return sum(len(BANNED.findall(file.read_text(encoding="utf-8"))) for file in files)


def _is_page_or_code(file: Path, root: Path) -> bool:
    inside = file.relative_to(root)
    run = inside.parts[0] == "checkpoints" and inside.parts[1] not in ("README.md", "released")
    return not run and file.name not in (Path(__file__).name, "check_prose.py")


def _navigation_words(root: Path) -> str:
    """Words of docs/README.md and the pages it links to before the lab notes, without the bars of tables."""
    return _words(_navigation(root))


def _lab_note_words(root: Path) -> str:
    """Words of the other pages that docs/lab_notes.md and docs/results/README.md link to, each page once."""
    indexes = [root / "docs" / name for name in ("lab_notes.md", "results/README.md")]
    return _words({page for index in indexes for page in _linked(index)} - _navigation(root))


def _navigation(root: Path) -> set[Path]:
    index = root / "docs" / "README.md"
    return {index, *_linked(index)} if index.is_file() else set()


def _linked(index: Path) -> list[Path]:
    """Pages and notebooks that a page links to before its row of lab notes."""
    text = index.read_text(encoding="utf-8").partition("| lab notes |")[0] if index.is_file() else ""
    return [(index.parent / link).resolve() for link in re.findall(r"\]\(([\w./]+\.(?:md|ipynb))", text)]


def _words(pages: set[Path]) -> str:
    words = sum(any(map(str.isalnum, word)) for page in pages for word in _text_of(page).split())
    return f"{words:,}" if pages else "-"


def _text_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def _comment_share(sources: dict[Path, str]) -> str:
    """Lines with a comment, as a share of the code lines of kernels and of the files that hold formulas."""
    chosen = [text for path, text in sources.items() if "@wp." in text or NUMERICS.match(path.stem)]
    comments = sum(_comments(text) for text in chosen)
    lines = sum(1 for text in chosen for line in text.splitlines() if line.strip())
    return f"{100 * comments / max(lines, 1):.1f} %"


def _comments(source: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})


def options(root: Path, show: bool = False) -> dict[str, str]:
    """Number of options of a checkout that can be imported, and of those that no run or sweep file sets."""
    done = _part("options.py", root)
    number, *unset = done.split()
    if show:
        print("options that no run or sweep file sets:", *unset, sep="\n  ")
    return {"options": number, "options that no run or sweep file sets": str(len(unset))}


def traced(root: Path, show: bool = False) -> dict[str, str]:
    """Return what each command of `TRACED` enters, and "failed" for a command that does not run."""
    figures = {}
    for name, command in TRACED.items():
        calls = trace(root, command)
        files = files_of(calls)
        figures[name] = str(len(files)) if files else "failed"
        if "PPO" in name and files:
            figures["functions entered by a PPO update"] = str(len(calls["functions"]))
            figures["deepest call of a PPO update"] = str(calls["depth"])
        if show:
            print(f"{name}:", *files, sep="\n  ")
    return figures


def entered(root: Path, command: str) -> list[str]:
    """Files of the checkout whose functions the command calls; "{out}" in it is a temporary folder."""
    return files_of(trace(root, command))


def files_of(calls: Mapping[str, Any]) -> list[str]:
    """Files of the functions that a command calls."""
    return sorted({file for file, _ in calls["functions"]})


def trace(root: Path, command: str) -> dict[str, Any]:
    """Functions of the checkout that the command calls, and the depth of the deepest call."""
    with tempfile.TemporaryDirectory() as out:
        printed = _part("entered_files.py", root, *(word.format(out=out) for word in command.split()))
    return json.loads(printed) if printed.strip() else {"functions": [], "depth": 0}


def _part(name: str, root: Path, *words: str) -> str:
    """Run a script of `structure_parts` in the checkout and return what it prints."""
    script = Path(__file__).parent / "structure_parts" / name
    done = subprocess.run(
        [sys.executable, str(script), str(root), *words], cwd=root, capture_output=True, text=True, check=False
    )
    if not done.stdout.strip():
        print(done.stderr[-2000:], file=sys.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(run_script(main))
