"""Every page: paths in backticks exist, links lead to files and headings, and the language is plain."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "checkpoints").glob("*.md")]
FILES += [*(ROOT / "checkpoints" / "released").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(FILES)}
NOW = [page for page in PAGES if page != "CHANGELOG.md"]
"""Pages about the present; the changelog names files of earlier versions."""
CODE = [
    path
    for room in ("agents", "benchmarks", "configs", "curriculum", "envs", "eval", "tests", "docs")
    for path in (ROOT / room).rglob("*.py")
] + [ROOT / "train.py"]
ENDINGS = "py|md|yaml|txt|json|html"
OTHERS = {"docs/rl-algorithms/ppo.md", "docs/benchmark/ppo_continuous_action.md", "benchmark.md"}
"""Files of other projects."""
BANNED = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever|whom|anew|lately|begun|thereof)\b", re.IGNORECASE)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def paths(text):
    """Paths in backticks that begin with a folder of the repository and end like a file."""
    rooms = "agents|benchmarks|configs|curriculum|docs|envs|eval|tests"
    return re.findall(rf"`(?:python )?((?:{rooms})/[\w/.-]+\.(?:{ENDINGS}))(?:`|::| )", text)


def anchor(heading):
    """The anchor that a heading gets where pages are shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", NOW)
def test_paths_exist(page):
    missing = {path for path in paths(PAGES[page]) if not (ROOT / path).exists()}
    assert missing - OTHERS == set()


@pytest.mark.parametrize("page", NOW)
def test_files_named_without_a_folder_exist(page):
    named = set(re.findall(r"`(\w+\.py)`", PAGES[page]))
    assert {name for name in named if not any(path.name == name for path in CODE)} == set()


@pytest.mark.parametrize("page", NOW)
def test_modules_exist(page):
    """`sparring.a.b.c` is a module, or a name in the module `sparring.a.b`."""
    for name in re.findall(r"`(?:from )?sparring\.([\w.]+)", PAGES[page]):
        parts = name.split(".")
        paths = [ROOT.joinpath(*parts[:n]) for n in range(len(parts) - 2, len(parts) + 1) if n > 0]
        assert any(path.with_suffix(".py").exists() or path.is_dir() for path in paths), name


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    here = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", PAGES[page])):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        path = (here.parent / name).resolve() if name else here
        assert path.exists(), target
        assert not heading or heading in anchors(path), target


@pytest.mark.parametrize("page", PAGES)
def test_words_are_plain(page):
    assert BANNED.findall(PAGES[page]) == []


def test_every_page_is_listed_in_the_index():
    index = PAGES["docs/README.md"] + PAGES["docs/results/README.md"]
    pages = [page for page in PAGES if page.startswith("docs/") and not page.endswith("README.md")]
    assert [page for page in pages if f"{Path(page).name})" not in index] == []


def test_the_readme_fits_on_a_screen():
    assert len(PAGES["README.md"].splitlines()) <= 110
    assert max(path.stat().st_size for path in (ROOT / "docs" / "images").glob("*.gif")) < 1.5e6
