"""The serverless Diplomacy page: rules against the kernels, network against torch, and a game."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sparring.envs.diplomacy.browser import kernel_script, static_page
from sparring.eval import play
from tests.envs.diplomacy.browser.recorded import LAST_YEAR, network_rows, record
from tests.eval.browser.browser import browser, dom_of, needs_chromium

ROOT = Path(__file__).resolve().parents[4]
STUDENT = ROOT / "checkpoints" / "released" / "diplomacy_student.pt"
READY = "window.play && play.state().turn && play.state().turn.state === 'ordering'"


@pytest.fixture(scope="module")
def page():
    return static_page.static_page()


def repeated(folder, phases, decisions):
    """Return differences when the page's script repeats recorded phases, in node or else in Chromium."""
    rows = record(phases)
    data = {"phases": rows, "network": network_rows(rows, STUDENT)[:decisions], "lastYear": LAST_YEAR}
    known = {"rules": static_page.board_rules(), "student": static_page.stored_student(static_page.STUDENT)}
    parts = [f"const G = {json.dumps(known)};\nconst RECORDED = {json.dumps(data)};", static_page.rules_script()]
    parts += [(ROOT / "envs" / "diplomacy" / "browser" / "student.js").read_text("utf-8")]
    parts += [Path(__file__).with_name("check.js").read_text("utf-8")]
    if node := shutil.which("node"):
        (folder / "check.js").write_text("\n".join([*parts, "console.log(told);"]))
        done = subprocess.run([node, folder / "check.js"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)
    text = "\n".join([*parts, "document.body.textContent = 'told:' + told + ':end';"]).replace("</", "<\\/")
    (folder / "check.html").write_text(f"<!doctype html><body><script>{text}</script>")
    return json.loads(dom_of(folder / "check.html", wait="body").split("told:")[1].split(":end")[0])


def check(tally, phases):
    assert tally.pop("phases") == phases
    assert tally.pop("ordered") > 2 * phases
    assert tally.pop("units") > 5
    assert tally.pop("log") < 1e-5
    assert set(tally.values()) == {0}, tally


def test_rules_bots_and_network_match_kernels(tmp_path):
    """Legal orders and DumbBot's choices, adjudicated boards, and network choices are equal."""
    check(repeated(tmp_path, 40, 8), 40)


@pytest.mark.slow
def test_rules_match_in_thousand_phases(tmp_path):
    check(repeated(tmp_path, 1000, 200), 1000)


def test_documentation_page_matches_command_output(page, tmp_path):
    assert play.main(["--env", "diplomacy", "--static", str(tmp_path / "page.html"), "--quiet"]) == 0
    assert (tmp_path / "page.html").read_text("utf-8") == page
    made = "run `python eval/play.py --env diplomacy --static docs/diplomacy.html`"
    assert (ROOT / "docs" / "diplomacy.html").read_text("utf-8") == page, made
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_error_names_untranslated_kernel():
    def strange(number: int) -> int:
        return [number][0]

    strange.func = strange
    with pytest.raises(kernel_script.UntranslatableError, match="strange, line 2: "):
        kernel_script.script_of([strange])


@needs_chromium
def test_game_is_played_by_keyboard_on_small_screen(page, tmp_path):
    (tmp_path / "page.html").write_text(page, "utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open((tmp_path / "page.html").as_uri() + "#FRANCE,mixed", width=400, height=860, mobile=True)
        tab.until(READY)
        assert tab.value("document.documentElement.scrollWidth") <= 400
        assert tab.value("document.querySelector('h1').textContent").startswith("You are France against")
        tab.value("document.querySelector('#order').value = 'A PAR - BUR; f bre - mao'")
        tab.value("document.querySelector('#write').requestSubmit()")
        assert tab.value("play.state().turn.orders.map((one) => one.text)") == ["A PAR - BUR", "F BRE - MAO"]
        tab.value("document.querySelector('#order').value = 'A PAR - MOS'")
        tab.value("document.querySelector('#write').requestSubmit()")
        assert "is not legal now" in tab.value("document.querySelector('#note').textContent")
        tab.value("document.querySelector('#advise').click()")
        assert len(tab.value("play.state().turn.orders")) == 3
        tab.value("document.querySelector('#submit').click()")
        tab.until("play.state().running")
        tab.value("play.settle()")
        assert tab.until("play.state().phase !== 'S1901M' && play.state().phase")[0] in "SF"
        tab.value("play.seek(0)")
        assert tab.value("document.querySelectorAll('#marks .mark').length") == 22
        unnamed = "[...document.querySelectorAll('button, select, input')].filter((one) => !one.closest('[hidden]')"
        named = " && !(one.getAttribute('aria-label') || one.textContent.trim() || one.title)).map((one) => one.id)"
        assert tab.value(unnamed + named) == []
        assert tab.console == []
