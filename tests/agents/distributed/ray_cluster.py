"""A Ray cluster of two nodes on this machine, for slow tests."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def two_nodes():
    """Yield the cluster's address and a function that kills the worker node."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        other = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster.address, lambda: cluster.remove_node(other, allow_graceful=False)
    finally:
        ray.shutdown()
        cluster.shutdown()


def wait_for_one_node():
    """Wait until the cluster notices the lost node; the test has a limit."""
    import ray

    while sum(node["Alive"] for node in ray.nodes()) > 1:
        time.sleep(1.0)


def call_apart(module, name, *arguments):
    """Call a function in its own process: nodes use the machine's address, which other tests may not reach."""
    pytest.importorskip("ray")
    call = f"{name}({', '.join(repr(str(argument)) for argument in arguments)})"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {
        "PYTHONPATH": paths,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": "300",
    }
    command = [sys.executable, "-c", f"from {module} import {name}; {call}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
