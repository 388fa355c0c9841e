"""Mistakes that such projects have made unnoticed and that no other test would catch.

Work per environment in Python, answers read back from the device in every step, a device or an action repeat that is
the same whatever was asked for, and an evaluation that reports a number although nothing was played.
"""

import ast
import gc
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.ppo.trainer import PPOTrainer
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import BOTS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("agents", "configs", "curriculum", "envs", "eval")
READS_BACK = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::masked_select")


class Operators(TorchDispatchMode):
    """Count torch operators by name; indexing by a mask counts as aten::nonzero."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name.startswith("aten::index") and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool
            for argument in args
            if isinstance(argument, list | tuple)
            for index in argument
        ):
            name = "aten::nonzero"
        self.counts[name] = self.counts.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


class Calls:
    """Count Python calls, including those into C, except by the garbage collector."""

    def __enter__(self):
        self.count = 0
        gc.collect()
        gc.disable()  # it runs when it likes, and calls the finalizers of what others left
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)
        gc.enable()

    def _see(self, frame, event, argument):
        self.count += event in ("call", "c_call")


def collection(num_envs, steps=6):
    """Collect a rollout as on an accelerator: bots and two snapshots, matches ending every second step."""
    batch = DogfightBatch(num_envs, threads=1, max_ticks=20)
    network = ActorCritic(59, 2, 1, NetworkConfig(hidden=4))
    env = LearnerEnv(batch, bots=BOTS, slots=2, network_shape=network.shape, seed=0)
    env.assign(np.arange(num_envs) % (len(BOTS) + 2))
    rollout = Rollout(network, steps, env)
    rollout.device = env.device = torch.device("meta")
    return rollout, lambda: rollout.collect(env, network, torch.Generator().manual_seed(0))


def calls(num_envs):
    rollout, collect = collection(num_envs)
    collect()  # the first time fills caches
    with Calls() as seen:
        collect()
    assert rollout.truncated.sum() == 3 * num_envs
    return seen.count


def test_python_work_is_independent_of_match_count():
    assert calls(7) == calls(700)


def test_kernels_do_not_add_across_matches():
    """Otherwise sums would depend on thread order, and equal seeds would differ on a GPU."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "envs" / "dogfight").rglob("*.py")]
    assert not [source for source in sources if re.search(r"\batomic_(add|sub|min|max|cas|exch|and|or|xor)", source)]


@pytest.mark.parametrize("steps", [2, 20])
def test_collection_reads_back_only_one_check(steps):
    _, collect = collection(7, steps)
    with Operators() as seen:
        collect()
    assert {name: seen.counts[name] for name in READS_BACK if name in seen.counts} == {"aten::_local_scalar_dense": 1}
    assert seen.counts["aten::copy_"] > steps


def test_counters_detect_their_faults():
    x = torch.zeros(3)
    with Operators() as seen:
        x[x > 1] = 0.0
        x[x > 1]
        bool(x.any())
    assert (seen.counts["aten::nonzero"], seen.counts["aten::_local_scalar_dense"]) == (2, 1)
    with Calls() as few:
        [abs(i) for i in range(7)]
    with Calls() as many:
        [abs(i) for i in range(700)]
    assert many.count - few.count == 693


def test_every_environment_option_reaches_simulator(tmp_path):
    options = ["env.num_envs=6", "env.action_repeat=7", "env.observe_physics=false"]
    sizes = ["ppo.rollout_steps=4", "ppo.minibatch_size=8", "device=cpu", "threads=1", "logger.progress=false"]
    config = load(["+run=quickstart", *options, *sizes, f"checkpoint_dir={tmp_path}"])
    run = PPOTrainer(config)
    batch = run.task.batch
    run.close()
    assert (batch.num_envs, batch.action_repeat, batch.rules, batch.obs_dim) == (6, 7, "classic", 46)
    assert run.task._setting.action_repeat == 7


def names_of_cuda(source):
    """Return lines that name cuda other than in comparisons."""
    tree = ast.parse(source)
    compared = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in compared]
    return [node.lineno for node in texts if re.match(r"cuda(:\d+)?$", str(node.value))]


def test_only_device_modules_name_devices():
    files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    naming = [str(path.relative_to(ROOT)) for path in files if names_of_cuda(path.read_text())]
    assert naming == ["configs/core/device.py", "configs/foreign_names.py", "configs/schema.py"]  # an option of others
    assert names_of_cuda("x.to('cuda')\nif x.type == 'cuda':\n    f(device='cuda:0')") == [1, 3]


def test_unplayable_evaluation_fails_without_table():
    code = "import sys; sys.modules['warp'] = None; from sparring.eval.run import main; main(['--ckpt', 'bot:ace'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "warp" in done.stderr
    assert done.stdout == ""
