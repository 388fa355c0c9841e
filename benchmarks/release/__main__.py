"""Build wheel and sdist of HEAD and use each outside the repository: `make release-check`.

It clones into a temporary folder and runs `python -m build` there. Each of the two files is installed by pip in its own
environment with the base packages only. There, commands without torch and Warp must work, other commands must say in
one line what is missing, and an older Python must be refused. Then a short run and its evaluation use the wheel with
this environment's packages instead of the extra `train`. Only pip and pipx use the network, for their configured index.
Exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.configs.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
ACT = """\
import numpy, sparring
print(sparring.load("released/dogfight_strong", device="numpy").act(numpy.ones((2, 59), numpy.float32)))"""
REFUSAL = "needs the extra train, and"
KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
"""Environment variables of a user without the repository; pip's own are added."""


@dataclass(frozen=True)
class Step:
    """A command line as a user types it, the exit code, and a text that it must print."""

    words: tuple[str, ...]
    text: str
    code: int = 0

    @property
    def title(self) -> str:
        """The command line, of a script its last line."""
        return " ".join(self.words).rpartition("\n")[2][:60]


BASE = (
    Step(("sparring",), "usage: sparring COMMAND"),
    Step(("sparring", "play", "--help"), "--opponent"),
    Step(("sparring", "train", "--help"), "sparring train +run=NAME"),
    Step(("sparring", "policies"), "released/dogfight_strong"),
    Step(("sparring", "watch"), "fly-released-dogfight_strong.html"),
    Step(("sparring", "bench", "--seconds", "0.1"), "policy, NumPy actor"),
    Step(("sparring", "runs", "list"), ""),
    Step(("python", "-c", ACT), "[["),
    Step(("sparring", "train", "+run=quickstart"), REFUSAL, 2),
    Step(("sparring", "play", "--opponent", "ace"), REFUSAL, 2),
    Step(("sparring", "play", "--env", "chess"), "sparring install train play chess", 2),
    Step(("python", "-m", "pip", "check"), "No broken requirements"),
)
TRAIN = (
    Step(("sparring", "train", "+run=quickstart", "scale=0.001", "name=first", "threads=1"), ""),
    Step(("sparring", "eval", "--ckpt", "first", "--opponents", "ace", "--games", "2"), "ace"),
)


class Report:
    """Rows of the table: what was done, its seconds, and whether it held."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.failed = False

    def add(self, what: str, result: Callable[[], str]) -> None:
        """Do one thing; `result` returns what to say of it, and raises `InputError` if it did not hold."""
        start = time.monotonic()
        try:
            said = result()
        except InputError as error:
            said, self.failed = f"**failed**: {error}", True
        self.rows.append((what, f"{time.monotonic() - start:.1f}", said))
        print(f"{what}: {said}", file=sys.stderr)


def main() -> int:
    """Run the check and return the exit code."""
    args = parse()
    report, title = Report(), heading("Release check")
    with tempfile.TemporaryDirectory(prefix="sparring-release-") as folder:
        check(Path(folder), report, train=args.train, pipx=args.pipx)
    publish(f"{title}\n{table(('', 'clock, s', 'result'), report.rows)}", args.out)
    return int(report.failed)


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.release", description=__doc__)
    parser.add_argument("--no-train", dest="train", action="store_false", help="leave out the short run from the wheel")
    parser.add_argument("--pipx", action="store_true", help="also `pipx run --spec` the wheel, with a pipx from pip")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_args()


def check(folder: Path, report: Report, *, train: bool, pipx: bool) -> None:
    """Do all steps below `folder`."""
    source, dist = folder / "source", folder / "dist"
    tools = environment(folder / "tools")
    report.add("clone of HEAD", lambda: cloned(source))
    report.add("python -m build", lambda: built(tools, source, dist))
    for made in sorted(dist.glob("sparring-*")):
        home = environment(folder / made.name)
        report.add(f"pip install {made.name}", lambda: installed(home, made))  # noqa: B023 - called at once
        with empty_folder(folder) as place:
            for step in BASE:
                report.add(step.title, lambda: used(home, step, place))  # noqa: B023
    for wheel in dist.glob("*.whl"):
        report.add("an older Python is refused", lambda: refused(tools, wheel))  # noqa: B023
        if train:
            beside(folder, wheel, report)
        if pipx:
            report.add("pipx run sparring policies", lambda: piped(tools, wheel, folder))  # noqa: B023


def cloned(source: Path) -> str:
    """Clone the repository and return the commit."""
    ran(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(source)])
    return ran(["git", "-C", str(source), "rev-parse", "--short", "HEAD"])


def environment(home: Path) -> Path:
    """Make an environment with pip only, and return its folder of programs."""
    ran([sys.executable, "-m", "venv", str(home)])
    return home / "bin"


def built(tools: Path, source: Path, dist: Path) -> str:
    """Build both files, each in pip's isolation, the wheel from the sdist; return their sizes."""
    ran([str(tools / "python"), "-m", "pip", "install", "-q", "build"])
    ran([str(tools / "python"), "-m", "build", "--outdir", str(dist), str(source)])
    made = sorted(dist.iterdir())
    if [path.suffix for path in made] != [".whl", ".gz"]:
        raise InputError(f"{dist}: holds {', '.join(path.name for path in made)}, not a wheel and an sdist")
    return ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in made)


def installed(programs: Path, made: Path) -> str:
    """Install a built file with its base packages; return their number and size."""
    ran([str(programs / "python"), "-m", "pip", "install", "-q", str(made)])
    site = Path(ran([str(programs / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))
    names = {path.name.partition("-")[0] for path in site.glob("*.dist-info")} - {"pip", "setuptools"}
    if heavy := names & {"torch", "warp_lang", "scipy", "hydra_core"}:
        raise InputError(f"the base install has {', '.join(sorted(heavy))}")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    return f"{len(names)} packages, {size / 1e6:.0f} MB with pip"


def used(programs: Path, step: Step, place: Path) -> str:
    """Run a step in an empty folder; raises `InputError` unless it ends and says what it should."""
    program, *words = step.words
    done = process([str(programs / program), *words], place)
    said = done.stdout + done.stderr
    if (done.returncode, step.text in said) != (step.code, True) or "Traceback" in said:
        raise InputError(f"exit code {done.returncode}: {said[-500:]}")
    if step.code and done.stderr.count("\n") != 1:
        raise InputError(f"not one line: {done.stderr[-500:]}")
    return f"one line, exit code {step.code}" if step.code else "ok"


def refused(tools: Path, wheel: Path) -> str:
    """Return what pip says where the Python is too old; without dependencies, as their markers see this Python."""
    target = ["--python-version", "3.10", "--only-binary=:all:", "--no-deps", "-q", "-d", str(wheel.parent / "old")]
    done = process([str(tools / "python"), "-m", "pip", "download", *target, str(wheel)], wheel.parent)
    if done.returncode == 0 or "requires a different Python" not in done.stderr:
        raise InputError(f"exit code {done.returncode}: {done.stderr[-500:]}")
    return done.stderr.strip().splitlines()[-1]


def beside(folder: Path, wheel: Path, report: Report) -> None:
    """Train and evaluate from the wheel, with the packages of this environment behind those of its own."""
    programs = environment(folder / "train")
    ran([str(programs / "python"), "-m", "pip", "install", "-q", "--no-deps", str(wheel)])
    site = ran([str(programs / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    packages = [path for path in sys.path if path.endswith("site-packages")]
    Path(site, "packages.pth").write_text("\n".join(packages) + "\n", encoding="utf-8")
    with empty_folder(folder) as place:
        for step in TRAIN:
            report.add(step.title, lambda: used(programs, step, place))  # noqa: B023


def piped(tools: Path, wheel: Path, folder: Path) -> str:
    """Run the wheel by pipx from an empty home."""
    ran([str(tools / "python"), "-m", "pip", "install", "-q", "pipx"])
    words = [str(tools / "python"), "-m", "pipx", "run", "--spec", str(wheel), "sparring", "policies"]
    with empty_folder(folder) as place:
        done = process(words, place, PIPX_HOME=str(folder / "pipx"), PIPX_BIN_DIR=str(folder / "pipx-bin"))
    if done.returncode or "released/dogfight_strong" not in done.stdout:
        raise InputError(f"exit code {done.returncode}: {done.stderr[-500:]}")
    return "ok"


@contextmanager
def empty_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        yield Path(place)


def process(command: Sequence[str], place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `place` as a user without the repository would: no display, no PYTHONPATH."""
    env = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("PIP_")}
    env |= {"XDG_CACHE_HOME": str(place), **more}
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)


def ran(command: Sequence[str]) -> str:
    """Return what a command prints. Raises `InputError` with the end of its messages if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{' '.join(command)[:200]}: {done.stderr[-800:] or done.stdout[-800:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(run_script(main, "python -m benchmarks.release"))
