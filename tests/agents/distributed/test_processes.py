"""Distributed processes: sharded matches and random numbers, generator states, two halves in parallel."""

import copy
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from sparring.agents.distributed.processes import (
    ALONE,
    ParallelHalves,
    Processes,
    Shard,
    ShardedGenerator,
    draw,
    joined,
    restore_generator,
)
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.losses import Joint, Samples
from sparring.agents.ppo.tasks.task import SEEDS
from sparring.agents.run.states import read_state
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.configs.schema import PhaseConfig, PPOConfig
from sparring.envs.imported.config import GymnasiumEnvConfig, GymnasiumRunConfig
from sparring.envs.imported.training.task import ImportedTask
from tests.agents.distributed.launch_processes import end, start
from tests.agents.ppo.small_run import config, metrics
from tests.agents.ppo.test_resume import long, untimed

ROOT = Path(__file__).resolve().parents[3]
CLOSE = {"rtol": 1e-6, "atol": 5e-6}
"""Sums in another order; Adam's steps of 1e-3 enlarge them where a gradient is near 0."""


def content(root, update):
    return read_state(root / "small" / "state" / f"update_{update:06d}").content


def compare(found, expected, key=""):
    """Compare two states: tensors to 5e-6, numbers to 1e-6, text exactly; ignore log sizes and file hashes."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), key
        for name in expected.keys() - {"bytes", "sha256"}:
            compare(found[name], expected[name], f"{key}/{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), key
        for index, pair in enumerate(zip(found, expected, strict=True)):
            compare(*pair, f"{key}/{index}")
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, **CLOSE, msg=lambda text: f"{key}: {text}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), key
    else:
        assert found == expected, key


def without_bytes(state):
    """Drop raw simulator bytes, which contain floats; the observed values are compared instead."""
    state = copy.copy(state)
    if "duel" in state:
        batch = {name: value for name, value in state["duel"]["batch"].items() if name != "arrays"}
        state["duel"] = {**state["duel"], "batch": batch}
    return state


def succeed(processes):
    ended = end(processes)
    assert [code for code, _ in ended] == [0] * len(processes), ended
    return ended


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    root = tmp_path_factory.mktemp("one")
    train(long(root, max_updates=5))
    train(long(root))
    return root


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Run five updates in two processes: a curriculum, an event, snapshots, and self-play."""
    root = tmp_path_factory.mktemp("two")
    ended = succeed(start(long(root, max_updates=5), 2, root))
    assert "done after 5 updates" in ended[0][1]
    assert ended[1][1] == ""  # only the first one speaks
    return root


def test_two_processes_match_one(one, two):
    compare(without_bytes(content(two, 5)), without_bytes(content(one, 5)))
    for found, expected in zip(untimed(metrics(two)), untimed(metrics(one)), strict=False):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_one_process_resumes_state_of_two(one, two, capsys):
    train(long(two))
    assert "inexact resume: processes was 2 and is 1" in capsys.readouterr().out
    compare(without_bytes(content(two, 8)), without_bytes(content(one, 8)))


LIST_THREADS = """
import atexit, os
from pathlib import Path

def listed():
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    Path(os.environ["SPARRING_TEST_THREADS"], os.environ["RANK"]).write_text("\\n".join(threads))

if "RANK" in os.environ and os.path.isdir("/proc/self/task"):
    atexit.register(listed)
"""


def test_torchrun_works_and_leaves_no_connection_thread(tmp_path):
    """A surviving gloo thread can abort the process at interpreter exit."""
    sizes = ["env.num_envs=8", "ppo.rollout_steps=4", "ppo.minibatch_size=32", "max_updates=1", "device=cpu"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "train.py", "+run=quickstart", *sizes, "logger.progress=false", f"checkpoint_dir={tmp_path}"]
    (tmp_path / "sitecustomize.py").write_text(LIST_THREADS)
    (tmp_path / "threads").mkdir()
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": paths, "SPARRING_TEST_THREADS": str(tmp_path / "threads")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done after 1 update:") == 1
    (final,) = tmp_path.glob("*/final.pt")
    assert load_checkpoint(final).training["env_steps"] == 32
    if sys.platform == "linux":  # threads are listed by /proc
        assert sorted(path.name for path in (tmp_path / "threads").iterdir()) == ["0", "1"]
        assert not [path for path in (tmp_path / "threads").iterdir() if "gloo" in path.read_text()]


def cart_poles(root):
    """Observations are normalized by shared statistics, and episodes end within the rollout."""
    env = GymnasiumEnvConfig(id="CartPole-v1", num_envs=4, normalize_obs=True, normalize_reward=True)
    ppo = PPOConfig(rollout_steps=32, epochs=2, minibatch_size=48, precision="fp32")
    small, names = (
        config(root),
        ("name", "checkpoint_dir", "device", "threads", "checkpoint_every", "network", "logger"),
    )
    shared = {name: getattr(small, name) for name in names}
    return GymnasiumRunConfig(**shared, env=env, ppo=ppo, phases=[PhaseConfig("all", 3)])


def test_gymnasium_envs_share_statistics(tmp_path):
    succeed(start(cart_poles(tmp_path / "two"), 2, tmp_path))
    train(cart_poles(tmp_path / "one"))
    found, expected = (content(tmp_path / name, 3) for name in ("two", "one"))
    for state in (found, expected):
        state["gymnasium"]["recent"].sort()  # episodes that ended in the same rollout have no common order
    compare(found, expected)
    for name in ("rollout/episodes", "rollout/return", "train/explained_variance", "train/value_loss"):
        pairs = zip(metrics(tmp_path / "two"), metrics(tmp_path / "one"), strict=True)
        assert all(a[name] == pytest.approx(b[name], rel=1e-5, abs=1e-6) for a, b in pairs)


POKER = [
    *("env=openspiel", "env.id=kuhn_poker", "env.num_envs=8", "network.hidden=8", "threads=1", "device=cpu"),
    *("ppo.rollout_steps=8", "ppo.minibatch_size=24", "ppo.epochs=1"),
    *("phases.0.updates=3", "phases.0.scripted_start=0.3", "phases.0.scripted_end=0.3", "self_play.pool_share=0.3"),
    *("self_play.snapshot_every=1", "self_play.slots=2", "evaluation.every=2", "evaluation.games=2"),
    *("name=small", "checkpoint_every=2", "logger.progress=false"),
]


def test_turn_based_games_are_split_between_processes(tmp_path):
    """Two processes resume what one started, against a random player, snapshots and the policy itself."""
    pytest.importorskip("pyspiel")
    one, two = ([*POKER, f"checkpoint_dir={tmp_path / name}"] for name in ("one", "two"))
    train(load([*two, "max_updates=1"]))
    succeed(start(load(two), 2, tmp_path))
    train(load(one))
    for update in (2, 3):
        compare(content(tmp_path / "two", update), content(tmp_path / "one", update))
    for found, expected in zip(untimed(metrics(tmp_path / "two")), untimed(metrics(tmp_path / "one")), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("network.memory=gru", "network.memory=gru: requires a single process; start it without torchrun, or set "),
        (
            "env.num_envs=6",
            r"env\.num_envs=6: must be a multiple of 4, to play every seat equally often in each of 2 ",
        ),
    ],
)
def test_options_unsupported_by_several_processes_are_rejected(option, text):
    pytest.importorskip("pyspiel")
    config = load(["env=openspiel", "env.id=kuhn_poker", "ppo.minibatch_size=64", option])
    with pytest.raises(ConfigError, match=text):
        ImportedTask(config, torch.device("cpu"), 1, seeds=dict.fromkeys(SEEDS, 0), processes=Processes(1, 2))


def test_uneven_matches_are_rejected_with_valid_number():
    assert [Processes(rank, 4).share(12) for rank in (0, 3)] == [Shard(0, 3, 12), Shard(9, 3, 12)]
    assert ALONE.share(7).whole
    with pytest.raises(ConfigError, match=r"env\.num_envs=9: must be a multiple of 4, the processes; use 8 or 12"):
        Processes(0, 4).share(9)
    with pytest.raises(ConfigError, match=r"env\.num_envs=2: must be a multiple of 4, the processes; use 4"):
        Processes(0, 4).share(2)


def test_incomplete_distributed_environment_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with (
        pytest.raises(ConfigError, match="WORLD_SIZE=2: MASTER_ADDR is not set; start with torchrun"),
        joined(8, "cpu", 10.0),
    ):
        pass


@pytest.mark.parametrize("kind", [torch.randn, torch.rand])
def test_noise_shards_equal_noise_of_one_process(kind):
    whole = draw(kind, torch.Size((6, 2)), torch.Generator().manual_seed(3), torch.device("cpu"))
    for first in (0, 2, 4):
        noise = ShardedGenerator.of(Shard(first, 2, 6), torch.Generator().manual_seed(3))
        part = draw(kind, torch.Size((2, 2)), noise, torch.device("cpu"))
        assert torch.equal(part, whole[first : first + 2])
    assert isinstance(ShardedGenerator.of(Shard(0, 6, 6), torch.Generator()), torch.Generator)


def test_minibatch_shards_equal_minibatches_of_one_process():
    """T = 5 steps of N = 6 matches: obs identifies the sample, and advantages and means cover all samples."""
    generator = torch.Generator().manual_seed(0)
    advantage, value, returns = torch.randn(3, 30, generator=generator)
    every = Samples(torch.arange(30.0), returns, returns, value, advantage, returns)
    options = PPOConfig(minibatch_size=8, epochs=2)
    expected = list(every.minibatches(options, torch.Generator().manual_seed(1)))
    shares = []
    for first in (0, 2, 4):
        own = Samples(*(tensor.view(5, 6)[:, first : first + 2].flatten() for tensor in every))
        row = torch.full((5, 6), -1)
        row[:, first : first + 2] = torch.arange(10).view(5, 2)
        joint = Joint(row.flatten(), advantage, value, returns)
        shares.append(list(own.minibatches(options, torch.Generator().manual_seed(1), joint)))
    for whole, *parts in zip(expected, *shares, strict=True):
        assert sorted(torch.cat([part.obs for part in parts]).tolist()) == sorted(whole.obs.tolist())
        by_sample = dict(zip(whole.obs.tolist(), whole.advantage.tolist(), strict=True))
        assert all(
            by_sample[obs.item()] == a.item() for part in parts for obs, a in zip(part.obs, part.advantage, strict=True)
        )
        assert sum(part.mean(part.returns) for part in parts).item() == pytest.approx(whole.mean(whole.returns).item())
        assert {part.size for part in parts} == {len(whole.obs)}


def test_state_names_processes_and_holds_all_matches(two):
    manifest = json.loads((two / "small" / "state" / "update_000005" / "manifest.json").read_text())
    assert (manifest["summary"]["processes"], manifest["summary"]["num_envs"]) == (2, 8)
    assert content(two, 5)["duel"]["batch"]["match_id"].tolist() == list(range(8))


@pytest.fixture(params=[True, False])
def pair(request):
    pair = ParallelHalves(parallel=request.param)
    yield pair
    pair.close()


def test_both_results_are_returned_in_order(pair):
    assert pair.both(lambda: "policy", lambda: "value") == ("policy", "value")


def test_both_halves_run_concurrently():
    pair, barrier = ParallelHalves(parallel=True), threading.Barrier(2)
    pair.both(lambda: barrier.wait(10), lambda: barrier.wait(10))  # alone, either would wait in vain
    pair.close()


def test_thread_uses_torch_threads_of_its_creator():
    pair = ParallelHalves(parallel=True)
    assert len(set(pair.both(torch.get_num_threads, torch.get_num_threads))) == 1
    pair.close()


def fail():
    raise FloatingPointError("broken")


def test_errors_are_raised_after_both_halves_end(pair):
    for first, second in ((fail, bool), (bool, fail)):
        with pytest.raises(FloatingPointError, match="broken"):
            pair.both(first, second)
    assert pair.both(int, str) == (0, "")


def draws(generator):
    return torch.rand(5, generator=generator).tolist()


def test_generator_state_of_same_device_is_restored():
    generator = torch.Generator().manual_seed(3)
    state, wanted = generator.get_state(), draws(generator)
    other = torch.Generator().manual_seed(4)
    restore_generator(other, state, "shuffle")
    assert draws(other) == wanted


def test_generator_state_of_other_device_is_used_as_seed():
    ours, same, unlike = (torch.Generator() for _ in range(3))
    restore_generator(ours, torch.arange(16, dtype=torch.uint8), "shuffle")
    restore_generator(same, torch.arange(16, dtype=torch.uint8), "shuffle")
    restore_generator(unlike, torch.arange(1, 17, dtype=torch.uint8), "shuffle")
    first = draws(ours)
    assert first == draws(same)
    assert first != draws(unlike)
