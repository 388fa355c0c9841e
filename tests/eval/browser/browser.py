"""A headless Chromium driven over the DevTools protocol: pages, real key and mouse events, console, screenshots."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest
from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
BROWSER_REQUIRED = "SPARRING_REQUIRE_CHROMIUM"
"""Set to 1 in the environment, as `.ci/run` does, a missing chromium fails these tests instead of skipping them."""


def may_skip(chromium, required):
    return chromium is None and required != "1"


needs_chromium = pytest.mark.skipif(
    may_skip(CHROMIUM, os.environ.get(BROWSER_REQUIRED)),
    reason="no chromium on PATH; on Debian: apt-get update && apt-get install -y chromium",
)


CODES = {
    " ": ("Space", 32),
    "Enter": ("Enter", 13),
    "Escape": ("Escape", 27),
    "ArrowLeft": ("ArrowLeft", 37),
    "ArrowUp": ("ArrowUp", 38),
    "ArrowRight": ("ArrowRight", 39),
    "End": ("End", 35),
}
PATIENCE = 120
"""Seconds until a condition of a page counts as failed, on a machine with other load."""

STILL = """async (element) => {
  for (let last = [];;) {
    element.scrollIntoView({block: 'center', behavior: 'instant'});
    const {x, y, width, height} = element.getBoundingClientRect(), middle = [x + width / 2, y + height / 2];
    if (middle.join() === last.join()) return middle;
    last = middle;
    await new Promise((done) => setTimeout(done, 30));
  }
}"""
"""Middle of an element, once a smooth scroll that a page began has ended."""


class Page:
    """One tab; `console` collects errors of scripts, console messages and refused loads.

    `requests` are the addresses asked for, once the domain Network is enabled.
    """

    def __init__(self, socket):
        self.socket, self.number, self.console, self.requests = socket, 0, [], []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self.socket.recv(timeout=PATIENCE))
            if told.get("id") == self.number:
                assert "error" not in told, told
                return told["result"]
            if told.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.console.append(json.dumps(told["params"]))
            elif told.get("method") == "Network.requestWillBeSent":
                self.requests.append(told["params"]["request"]["url"])

    def open(self, url, *, width=1000, height=900, mobile=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def value(self, expression):
        """Return the value of a JavaScript expression, as JSON."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, expression):
        """Wait until the expression is true, and return its value."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, f"{expression} stayed {found}; console: {self.console}"
            time.sleep(0.03)
        return found

    def key(self, key, *kinds):
        """Press a key, or send only some of keyDown and keyUp."""
        code, number = CODES.get(key, (f"Key{key.upper()}", ord(key[0].upper())))
        for kind in kinds or ("keyDown", "keyUp"):
            typed = "\r" if key == "Enter" else key
            text = {"text": typed} if kind == "keyDown" and len(typed) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number, **text)

    def mouse(self, selector, *kinds):
        """Click the middle of an element once it stops moving, or send only mousePressed or mouseReleased."""
        self.mouse_at(self.value(f"({STILL})({element(selector)})"), *kinds)

    def mouse_at(self, point, *kinds):
        """Click a point of the window, or send only some of mousePressed, mouseMoved and mouseReleased."""
        x, y = point
        for kind in kinds or ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def write(self, text):
        """Type a text into the focused element."""
        self.call("Input.insertText", text=text)

    def choose(self, selector, value):
        """Choose an option of a select, with a change event."""
        change = f"select.value = {json.dumps(value)}; select.dispatchEvent(new Event('change'))"
        self.value(f"(() => {{ const select = {element(selector)}; {change}; return select.value; }})()")

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def element(selector):
    return f"document.querySelector({json.dumps(selector)})"


@contextmanager
def browser(profile):
    """Yield a `Page` in a separate Chromium."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--mute-audio")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic")
    command = [CHROMIUM, *options, *quiet, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors)
        try:
            with connect(_socket_of(Path(profile), process), max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


_open = ExitStack()


@cache
def _shared():
    """Return the tab of the Chromium shared by this process's tests, until `close_shared`."""
    return _open.enter_context(browser(_open.enter_context(tempfile.TemporaryDirectory())))


def close_shared():
    _open.close()
    _shared.cache_clear()


def dom_of(file, fragment="", *, wait="#selftest", size=(800, 600)):
    """Return the page as text once the element `wait` exists, loaded afresh in the shared tab."""
    page = _shared()
    page.open(f"file://{file}#{fragment}", width=size[0], height=size[1])
    page.until(f"!!{element(wait)}")
    text = page.value("document.documentElement.outerHTML")
    page.open("about:blank")  # the same address with another fragment would not load again
    return text


def browse(file, fragment, *options, errors=False):
    """Load the page headless for three seconds of virtual time; return its output, or its lines of stderr."""
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
        *(f"--user-data-dir={file.parent / 'profile'}", "--virtual-time-budget=3000", *options),
        f"file://{file}#{fragment}",
    ]
    ran = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return ran.stderr.decode(errors="replace").splitlines() if errors else ran.stdout.decode()


def selftest(dom):
    found = re.search(r'<pre id="selftest"[^>]*>(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def _socket_of(profile, process):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        file = profile / "DevToolsActivePort"
        if file.is_file() and (lines := file.read_text().splitlines()):
            pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json", timeout=PATIENCE))
            if found := [page for page in pages if page["type"] == "page"]:
                return found[0]["webSocketDebuggerUrl"]
        time.sleep(0.1)
    raise AssertionError("chromium opened no page")
