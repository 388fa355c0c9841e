"""Every file the product writes goes through `configs/core/files.py`: atomically, and never through a link."""

import ast
import re

import pytest

from sparring.agents.distributed.tasks import KeptResults
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import PACKAGE, append_to, leads_outside

ROOMS = ("configs", "envs", "curriculum", "agents", "eval", "sparring")
WRITERS = {"write_text", "write_bytes", "savefig", "tofile", "imwrite"}


def writes(call):
    """Return whether a call writes a file by a path: `open` with a mode for that, or a method that does."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "savefig":
        return not (isinstance(call.args[0], ast.Name) and call.args[0].id in ("buffer", "written"))
    texts = [one.value for one in (*call.args, *(key.value for key in call.keywords if key.arg == "mode"))
             if isinstance(one, ast.Constant) and isinstance(one.value, str)]  # fmt: skip
    modes = [text for text in texts if len(text) <= 3 and set(text) <= set("rwxabt+") and set(text) & set("wxa+")]
    return name in WRITERS or (name == "open" and bool(modes))


def test_only_files_module_writes_by_path():
    files = {
        path: path.read_text(encoding="utf-8") for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py"))
    }
    assert [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, text in files.items()
        if re.search(rf"\b(open|{'|'.join(WRITERS)})\(", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and writes(node)
    ] == []


def test_stored_results_are_not_appended_through_link(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    for name in ("link", "dangling"):
        (tmp_path / name).symlink_to(outside if name == "link" else tmp_path / "new")
        for use in (
            KeptResults(tmp_path / name, int).read,
            lambda name=name: KeptResults(tmp_path / name, int).add("a", 1),
        ):
            with pytest.raises(InputError, match="is a link"):
                use()
    assert (outside.read_text(), (tmp_path / "new").exists()) == ("mine", False)
    kept = KeptResults(tmp_path / "eval.cells.jsonl", int)
    assert kept.read() == {}
    kept.add("a", 1)
    kept.add("b", 2)
    assert kept.read() == {"a": 1, "b": 2}


def test_hard_link_is_not_appended_to(tmp_path):
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "log").hardlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="second name"):
        append_to(tmp_path / "log")
    assert (tmp_path / "outside").read_text() == "mine"


@pytest.mark.parametrize(
    ("target", "outside"), [("inside", False), ("..", True), ("/", True), ("missing", True), ("self", True)]
)
def test_links_out_of_folder_are_recognized(tmp_path, target, outside):
    (tmp_path / "run" / "inside").mkdir(parents=True)
    link = tmp_path / "run" / "link"
    link.symlink_to("link" if target == "self" else target)
    assert leads_outside(link, tmp_path / "run") is outside
    assert not leads_outside(tmp_path / "run" / "inside", tmp_path / "run")
    assert not leads_outside(tmp_path / "run" / "absent", tmp_path / "run")
