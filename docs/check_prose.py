"""Check the English of the documentation and of the code: `python docs/check_prose.py`, which `make lint` runs.

Pages, docstrings, error messages, lines of a run and help texts keep to plain words, keep to 30 words a sentence, and
avoid the patterns of `CLUMSY`. Code blocks and text in backticks are not read.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
BANNED = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever|whom|anew|lately|begun|thereof)\b", re.IGNORECASE)
CLUMSY = re.compile(r"\b(?:(?:is|are) no(?! longer)|has none|that of|of which|so that|likewise)\b", re.IGNORECASE)
"""Patterns of translated English; say "not a", "cannot", the name of the thing, or "so"."""
END = re.compile(r"(?<=[.!?:;])\)?\s+(?=[A-Z`(\[\"'0-9*_])|<br>")
MOST_WORDS = 30
"""Words of a sentence."""
FOLDERS = ("agents", "benchmarks", "configs", "curriculum", "docs", "envs", "eval")
NOT_PROSE = re.compile(r"^ {4}|\S {2,}\S")
"""Indented lines at the beginning of a paragraph of a docstring, or aligned columns: code, a formula or a table."""
HELP = ("help", "description", "epilog")
"""Arguments of argparse and Typer whose text a user reads."""


def pages() -> dict[str, str]:
    """Return the text of every page by its path in the repository; cards and the index of runs are not included."""
    files = [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in sorted(files)}


def sentences(text: str) -> list[str]:
    """Return the sentences of a page without its code blocks; items of lists and cells of tables begin new ones."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |#|\||\s+\w+: )", FENCE.sub("\n\n", text))
    cells = [cell for block in blocks for cell in (block.split("|") if block.lstrip().startswith("|") else [block])]
    return [sentence for cell in cells for sentence in END.split(" ".join(cell.split())) if sentence]


def faults(text: str) -> Iterator[str]:
    """Yield what is wrong with a page, one line a fault."""
    yield from (f"banned word {word!r}" for word in BANNED.findall(text))
    for sentence in sentences(text):
        words = sum(bool(re.search(r"\w", word)) for word in sentence.split())
        if words > MOST_WORDS:
            yield f"{words} words, at most {MOST_WORDS}: {sentence}"
        if found := CLUMSY.search(re.sub(r"`[^`]*`", "``", sentence)):
            yield f"{found[0]!r}: {sentence}"


def code() -> dict[str, str]:
    """Return the source of every product file by its path; those behind the links of `sparring/` only once."""
    files = [*ROOT.glob("*.py"), *(ROOT / "sparring").glob("*.py")]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in sorted(files)}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and messages of a source file with their lines; values in a message are written {}."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            paragraphs = inspect.cleandoc(node.value.value).split("\n\n")
            yield node.lineno, "\n\n".join(text for text in paragraphs if not NOT_PROSE.search(text))
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            messages = node.args[:1] if name == "say" or name.endswith("Error") else []
            messages += [keyword.value for keyword in node.keywords if keyword.arg in HELP]
            yield from ((message.lineno, text) for message in messages if (text := literal(message)))


def literal(node: ast.expr) -> str:
    """Return the literal text of a message, without the values that are inserted."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return literal(node.left) + literal(node.right) if isinstance(node, ast.BinOp) else ""


def main() -> int:
    """Print every fault with its page or line of code; return 1 if there is one."""
    found = [f"{page}: {fault}" for page, text in pages().items() for fault in faults(text)]
    found += [
        f"{path}:{line}: {fault}"
        for path, source in code().items()
        for line, text in texts(source)
        for fault in faults(text)
    ]
    print("\n".join(found), end="\n" * bool(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
