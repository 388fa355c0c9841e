"""No test reaches the network or leaves a registered opponent behind.

Any connection off loopback fails, and so does a look-up of a foreign name. W&B's own service is a separate process; it
is pointed at an address of loopback where nothing listens, unless a test starts a server there. Processes that tests
start inherit these variables.
"""

import gc
import ipaddress
import logging
import os
import pickle
import re
import socket
import sys
from copy import deepcopy
from functools import lru_cache
from pathlib import Path

import absl.logging
import pytest
import yaml
from hypothesis import settings

from benchmarks.structure_parts.parts import CORE, PARTS, part_of_test
from sparring.agents.distributed import pools, tasks
from sparring.agents.opponents import players
from sparring.configs import opponents
from sparring.configs.core import files, status

# Drawn examples of a property: few in every run, many in `make slow`. A busy machine is no failure: no deadline.
settings.register_profile("few", max_examples=25, deadline=None)
settings.register_profile("many", max_examples=1000, deadline=None)
settings.load_profile("few")

# absl's handler closes the stream it was made with when a library configures logging, as submitit does on import,
# unless that is a standard stream. Made while pytest captures, it would close pytest's own file for all later tests.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

# pytest's capture of logs is off (pyproject.toml); without any handler, warnings go to stderr, which tests read.
logging.lastResort = logging.NullHandler()
logging.getLogger().addHandler(logging.lastResort)

TESTS = Path(__file__).parent
LONG = ("test_tutorials.py", "test_wheel.py", "test_site.py", "test_fuzz.py", "test_every_run.py", "test_gpu.py")
LONG += ("test_architecture.py", "test_api_page.py", "test_live.py", "test_other_package.py")
LONG += ("test_file_operations.py", "test_kernel_bots.py", "test_imported_task.py")  # each with a test of 15 s or more
"""Files whose tests take longest. They come first: at the end, one process would wait for the other's last."""
FORKING = ("test_kills.py", "test_logs.py", "test_no_disk.py", "test_shutdown.py", "test_file_operations.py")
FORKING += ("test_processes.py", "test_grpo_processes.py", "test_grpo_loop.py", "test_grpo_options.py")
FORKING += ("test_rollout_workers.py", "test_division.py", "test_attacks.py", "test_fuzz.py")
"""Files whose tests fork processes of `tests.agents.faults.victims`. Beside each other they come to one process of the
tests, so that what is forked is loaded once, which takes 15 s."""
NOWHERE = "http://127.0.0.1:9"
LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", socket.gethostname(), "", None}


def is_local(address):
    """Return whether a connect() address or host name is local."""
    host = address[0] if isinstance(address, tuple) else address
    host = host.decode() if isinstance(host, bytes) else host
    if host in LOCAL_NAMES or not isinstance(host, str):
        return True
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


class OffLoopbackError(AssertionError):
    """A test tried to reach another machine."""


@pytest.fixture(scope="session", autouse=True)
def no_network():
    """Refuse connections off loopback in this process, and unset variables that lead others to a server."""
    patch = pytest.MonkeyPatch()
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guard(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_local(address):
            raise OffLoopbackError(f"a test connects to {address}")

    def guarded_connect(self, address):
        guard(self, address)
        return connect(self, address)

    def guarded_connect_ex(self, address):
        guard(self, address)
        return connect_ex(self, address)

    def guarded_look_up(host, *arguments, **options):
        if not is_local(host):
            raise OffLoopbackError(f"a test looks up {host!r}")
        return look_up(host, *arguments, **options)

    patch.setattr(socket.socket, "connect", guarded_connect)
    patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    patch.setattr(socket, "getaddrinfo", guarded_look_up)
    patch.setenv("WANDB_BASE_URL", NOWHERE)
    patch.setenv("WANDB_ERROR_REPORTING", "false")
    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setenv("SDL_VIDEODRIVER", "dummy")  # windows of render_mode="human" need no screen
    for name in ("WANDB_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        if name in os.environ:
            patch.delenv(name)
    yield
    patch.undo()


@pytest.fixture(scope="module", autouse=True)
def no_opponent_left_behind():
    """Unregister what a file's tests registered, since error messages list those names."""
    before = dict(opponents._registered)
    yield
    opponents._registered.clear()
    opponents._registered.update(before)


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Return the folder of a toy language model and tokenizer for `model.name`."""
    from tests.agents.language.grpo.toy_folder import toy_folder  # transformers takes seconds to load

    return toy_folder(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Make fsync a no-op: tests do not cut the power, and failing-disk tests replace it in victims."""
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda descriptor: None)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def yaml_read_once():
    """Parse each YAML text once, since parsing dominates the time of composing a configuration."""
    patch, load = pytest.MonkeyPatch(), yaml.load
    parsed = lru_cache(256)(load)

    def copied(stream, Loader):  # noqa: N803 - the name in PyYAML
        return deepcopy(parsed(stream, Loader)) if isinstance(stream, str) else load(stream, Loader)

    patch.setattr(yaml, "load", copied)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Use one thread: tests share the machine, and waiting threads are slow."""
    import torch  # not where nothing runs, as in the process that hands out tests

    patch, threads = pytest.MonkeyPatch(), torch.get_num_threads()
    torch.set_num_threads(1)
    patch.setenv("OMP_NUM_THREADS", "1")  # of processes that tests start
    yield
    torch.set_num_threads(threads)
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def no_trial(one_thread):
    """Skip the length estimate of PPO runs, which costs as much as two updates."""
    from sparring.agents.ppo import trainer

    patch, estimate = pytest.MonkeyPatch(), trainer.estimate_seconds
    patch.setattr(trainer, "estimate_seconds", lambda *_, **__: 0.0)
    yield estimate
    patch.undo()


@pytest.fixture
def with_trial(no_trial, monkeypatch):
    """Run with the length estimate, as for users."""
    from sparring.agents.ppo import trainer

    monkeypatch.setattr(trainer, "estimate_seconds", no_trial)


def pytest_addoption(parser):
    parser.addoption("--part", choices=PARTS, help="run the tests of the core and of this part only")


def pytest_ignore_collect(collection_path, config):
    """Leave out the tests of other parts than that of `--part`; None lets pytest decide."""
    wanted = config.getoption("--part")
    if not wanted or not collection_path.is_relative_to(TESTS):
        return None
    return part_of_test(collection_path.relative_to(TESTS)) not in (CORE, wanted) or None


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: (item.path.name not in FORKING, item.path.name not in LONG))


def pytest_collectstart():
    """Disable garbage collection during imports, since imported objects stay alive."""
    gc.disable()


def pytest_collection_finish(session):
    """Enable garbage collection again, with imported objects frozen."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def error_line(capsys):
    """Return a function that calls a command with invalid arguments and returns its one-line error."""

    def call(main, words, code=2):
        capsys.readouterr()
        assert main(words) == code
        out, err = capsys.readouterr()
        err = err.removeprefix(f"{status.LOADING}\n")  # where it takes more than the command line to know
        assert (out, err.count("\n")) == ("", 1), out + err
        script = main.__module__.removeprefix("sparring.").replace(".", "/") + ".py"
        own = re.fullmatch(r"train\.py|eval/\w+\.py", script)  # a game's command is called by the script
        assert err.startswith(f"{script}: " if own else ("eval/", "sparring")), err
        return err

    return call


@pytest.fixture
def without_runs(monkeypatch):
    """Hide the runs of the checkout, such as the demo's, from messages that list runs; those of a test stay."""
    for name in ("runs_of", "runs_with"):
        listed = getattr(players, name)
        monkeypatch.setattr(players, name, lambda *given, listed=listed: [] if own() else listed(*given))

    def own():
        return players.CHECKPOINTS == files.CHECKPOINTS


@pytest.fixture
def check_row(error_line, tmp_path, without_runs):
    """Return a function that calls a command with the arguments of a `messages` row and compares the answer."""

    def call(main, row, *more):
        code, words = int(row.answer.split(" ")[0]), [word.replace("{tmp}", str(tmp_path)) for word in row.words]
        text = error_line(main, [*words, *more], code).rstrip("\n")
        for folder, name in ((tmp_path, "{tmp}"), (TESTS.parent, "{root}")):
            text = text.replace(str(folder), name)
        row.check(code, re.sub(rf"{re.escape(str(tmp_path.parent))}/(\D+)\d+/", r"{session}/\1/", text))

    return call


@pytest.fixture
def printed(capsys):
    """Return a function that calls a succeeding command and returns its stdout."""

    def call(main, words):
        assert main(words) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def packed_tasks(monkeypatch):
    """Executors of several workers do their tasks here, the last one first, from what workers would get and return.

    The list has each executor used, with the number of its tasks.
    """
    used = []

    def run_tasks(function, given, executor):
        used.append((executor, len(given)))
        return ((task, pickle.loads(pools._done(pools._packed(function, task)))) for task in reversed(given))

    monkeypatch.setattr(tasks, "run_tasks", run_tasks)
    return used
