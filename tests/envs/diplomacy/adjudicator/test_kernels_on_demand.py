"""Kernels load on first use, or all at once on request, as a batch on a GPU does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
MODULES = ("adjudicator.phase", "bots.simple", "bots.dumbbot", "bots.seed_bots", "orders.listing_kernel")

CODE = """
import os
import warp as wp
from sparring.envs.diplomacy.batch import DiplomacyBatch

def loaded():
    modules = {name: wp.get_module("sparring.envs.diplomacy." + name) for name in %r}
    return " ".join(name for name, module in modules.items() if module.execs)

def say(uses):
    batch = DiplomacyBatch(2, threads=2)
    print(loaded())
    for use in uses(batch):
        use()
        print(loaded(), flush=True)

one_by_one = lambda batch: (batch.process, lambda: batch.legal_orders(0), lambda: batch.draw_orders(1))
for uses in (one_by_one, lambda batch: (batch.load_kernels,)):
    if os.fork() == 0:  # imports are done, no kernel is loaded
        say(uses)
        os._exit(0)
    os.wait()
"""


def test_kernels_load_on_first_use_or_all_at_once():
    """The test lists loaded kernels of two processes before and after each use of a batch."""
    command = [sys.executable, "-c", CODE % (MODULES,)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    uses = ["", MODULES[0], f"{MODULES[0]} {MODULES[4]}", " ".join(MODULES)]
    assert done.stdout.splitlines() == [*uses, "", " ".join(MODULES[:4])]
