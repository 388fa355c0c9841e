"""Every page: paths exist, links lead to files and headings, and the language is plain."""

import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import sparring
from sparring.__main__ import COMMANDS
from sparring.configs.foreign_names import POLICIES
from sparring.configs.kinds import declared, run_kinds

ROOT = Path(__file__).resolve().parents[1]
FILES = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "checkpoints").glob("*.md")]
FILES += [
    *(ROOT / "checkpoints" / "released").glob("*.md"),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
]
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
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def paths(text):
    """Yield paths in backticks that start with a repository folder and end like a file."""
    rooms = "agents|benchmarks|configs|curriculum|docs|envs|eval|tests"
    return re.findall(rf"`(?:python )?((?:{rooms})/[\w/.-]+\.(?:{ENDINGS}))(?:`|::| )", text)


def anchor(heading):
    """Return the anchor of a heading in rendered pages."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def by_page(pages, wrong):
    """Return the faults of each page by name, without faultless pages."""
    return {page: faults for page in pages if (faults := [*wrong(page, PAGES[page])])}


def test_every_path_on_page_exists():
    assert by_page(NOW, lambda _, text: {path for path in paths(text) if not (ROOT / path).exists()} - OTHERS) == {}


def test_files_named_without_folder_exist():
    """Or are files that the reader makes."""
    there = {path.name for path in CODE}

    def missing(_, text):
        return {*re.findall(r"`(\w+\.py)`", text)} - {*re.findall(r"^# (\w+\.py)$", text, re.MULTILINE)} - there

    assert by_page(NOW, missing) == {}


def test_every_module_on_page_exists():
    """`sparring.a.b.c` is a module or a name in one; `sparring.name` is public, or an entry-point group."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {group.removeprefix("sparring.") for group in project["entry-points"]}

    def exists(name):
        parts = name.split(".")
        paths = [ROOT.joinpath(*parts[:n]) for n in range(len(parts) - 2, len(parts) + 1) if n > 0]
        return parts[0] in {*sparring.__all__, *groups} or any(
            path.with_suffix(".py").exists() or path.is_dir() for path in paths
        )

    names = re.compile(r"`(?:from )?sparring\.([\w.]+)")
    assert by_page(NOW, lambda _, text: [name for name in names.findall(text) if not exists(name)]) == {}


def test_every_command_on_page_exists():
    """`sparring NAME`, in backticks or at the start of a line of code."""

    def missing(_, text):
        code = "\n".join(FENCE.findall(text))
        words = re.findall(r"^(?:\$ )?sparring ([a-z][\w-]*)", code, re.MULTILINE)
        return {*words, *re.findall(r"`sparring ([a-z][\w-]*)", text)} - {*COMMANDS, "hill-start"}

    assert by_page(NOW, missing) == {}


def dead_links(page, text):
    here = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
        name, _, heading = target.partition("#")
        path = (here.parent / name).resolve() if name else here
        if "://" not in target and not (path.exists() and (not heading or heading in anchors(path))):
            yield target


def test_links_lead_to_files_and_headings():
    assert by_page(PAGES, dead_links) == {}


def test_prose_is_plain():
    prose = script("check_prose")
    assert by_page(prose.pages(), lambda page, text: [*prose.faults(text)]) == {}


def test_prose_check_reads_lists_tables_and_skips_code():
    faults = script("check_prose").faults
    words = " ".join(["Word"] * 20)
    page = f"{words}.\n{words}.\n- {words}\n- {words}\n\n| {words} | {words} |\n```\n{words} {words}\n```\n"
    assert [*faults(page + "`is no` and this note")] == []
    long = f"Short. {words},\n{words}."
    assert [*faults(long)] == [f"40 words, at most 30: {words}, {words}."]


def test_prose_check_finds_banned_and_clumsy_words():
    faults = script("check_prose").faults
    clumsy = "This is\nno policy. Likewise it has none. A file of which that of b is read, so that c."
    assert [fault.split(":")[0] for fault in faults(clumsy)] == ["'is no'", "'Likewise'", "'of which'"]
    assert [*faults("Nobody knows.")] == ["banned word 'Nobody'"]


def test_prose_check_reads_docstrings_and_messages_of_code():
    prose = script("check_prose")
    source = '''
"""A module: there is no limit.

    code that is no text

That is all.
"""
LIMIT = 3
"""The limit, that of b."""
raise RunError(f"{name}: is no "
               f"number, and {len('of which')} more")
raise ConfigError("reads " + f"{name} likewise")
session.say("saved so that it lasts")
parser.add_argument("--out", help="has none", default="is no")
print("is no text of the rules")  # so that
'''
    found = [(line, fault.split(":")[0]) for line, text in prose.texts(source) for fault in prose.faults(text)]
    clumsy = {2: "is no", 9: "that of", 10: "is no", 12: "likewise", 13: "so that", 14: "has none"}
    assert sorted(found) == [(line, repr(words)) for line, words in clumsy.items()]
    long = " ".join(["word"] * 31)
    assert [*prose.faults(*(text for _, text in prose.texts(f"def f():\n    'Do: {long}.'")))] != []
    assert "train.py" in prose.code()
    assert "sparring/agents/__init__.py" not in prose.code()


def test_every_page_is_listed_in_index():
    index = PAGES["docs/README.md"] + PAGES["docs/results/README.md"] + PAGES["docs/lab_notes.md"]
    pages = [page for page in PAGES if page.startswith("docs/") and not page.endswith("README.md")]
    pages += [str(path) for path in (ROOT / "docs").rglob("*.ipynb")]
    assert [page for page in pages if f"{Path(page).name})" not in index] == []


def test_readme_fits_on_screen():
    assert len(PAGES["README.md"].splitlines()) <= 110


def test_animations_are_small():
    pictures = [*(ROOT / "docs" / "images").glob("*.gif")]
    assert pictures
    assert [path.name for path in pictures if path.stat().st_size >= 1e6] == []


def test_single_file_pages_load_nothing():
    for path in (ROOT / "docs").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in text, path
        assert 'name="viewport"' in text, path
        assert re.findall(r"""(?:\b(?:src|href)=["']?|url\(|@import\s*["'])(?:https?:)?//""", text) == [], path


def script(name):
    """Import a Python file of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_diagram_is_drawn():
    diagrams = script("site_diagrams")
    drawn = {path.stem for path in (ROOT / "docs" / diagrams.FOLDER).glob("*.svg")}
    assert drawn == set(diagrams.sources()), "run `python docs/site_diagrams.py`"
    for name in drawn:
        picture = ElementTree.parse(ROOT / "docs" / diagrams.FOLDER / f"{name}.svg")
        assert not list(picture.iter("{http://www.w3.org/2000/svg}foreignObject"))  # not shown in a picture


def test_model_zoo_matches_generator():
    generator = script("generate_zoo_page")
    assert PAGES["docs/model_zoo.md"] == generator.page(), "run `python docs/generate_zoo_page.py`"
    assert PAGES["docs/agents.md"] == generator.agents(), "run `python docs/generate_zoo_page.py`"


def test_league_page_matches_generator():
    page = (ROOT / "docs" / "league.html").read_text(encoding="utf-8")
    assert page == script("league_page").page(), "run `python docs/league_page.py`"


def test_payoffs_on_game_pages_match_results():
    """Entries were read by hand from docs/results/ladder.md and docs/results/diplomacy_bots.md."""
    assert "| ace | 21.8 |  | 41.7 | 89.1 | 57.6 | 52.5 |" in PAGES["docs/envs/dogfight.md"]
    assert "| dumbbot | 19.32 | 19.19 | 18.59 | 18.82 | 19.18 | 4.89 |" in PAGES["docs/envs/diplomacy.md"]


def test_model_zoo_lists_every_released_model():
    released = ROOT / "checkpoints" / "released"
    names = [path.stem for path in released.glob("*.pt")] + [
        path.parent.name for path in released.glob("*/config.json")
    ]
    assert len(names) >= 2
    assert [name for name in names if f"| `{name}` |" not in PAGES["docs/model_zoo.md"]] == []


def test_model_zoo_has_best_response_of_card():
    """The card's row has a longer name, so the page once reported no measurement."""
    (row,) = [line for line in PAGES["docs/model_zoo.md"].splitlines() if line.startswith("| `dogfight_bots_only`")]
    assert "cold 0.5, 3.3, 0.3 %; warm 99.5, 100, 100 %" in row
    head = next(line for line in PAGES["docs/model_zoo.md"].splitlines() if line.startswith("| name"))
    assert re.findall(r"\| ([a-z]+(?: response| out)?)", head) == [
        *("name", "game", "weights", "bots", "held out", "best response", "attack")
    ]
    (strong,) = [line for line in PAGES["docs/model_zoo.md"].splitlines() if line.startswith("| `dogfight_strong`")]
    assert "| mean 70.8, worst 0.0 (runner) |" in strong


def test_foreign_option_names_map_to_existing_options():
    """This includes options suggested for unknown foreign names."""
    page = PAGES["docs/coming_from.md"]
    keys = {key for kind in run_kinds() for key in declared(kind)}
    named = set(re.findall(r"`((?:ppo|env|network|logger)\.\w+)`", page))
    assert len(named) > 20
    assert named <= keys
    rows = [line.replace("-", "_").split("|")[1:4] for line in page.splitlines() if line.startswith("| ")]
    known = [
        (POLICIES[name].key, ours)
        for *theirs, ours in rows
        for name in re.findall(r"\w+", " ".join(theirs))
        if name in POLICIES and name not in ("normalize", "total_timesteps", "cuda", "track")
    ]
    assert len(known) > 12
    assert [(key, ours) for key, ours in known if key not in ours] == []
