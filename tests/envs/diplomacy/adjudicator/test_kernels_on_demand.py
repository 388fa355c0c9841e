"""Kernels are loaded when they are first used, and all at once by those who ask for it, as a batch on a GPU does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
MODULES = ("adjudicator.phase", "bots.simple", "bots.dumbbot", "bots.seed_bots", "orders.listing_kernel")

CODE = """
import warp as wp
from sparring.envs.diplomacy.batch import DiplomacyBatch

def loaded():
    modules = {name: wp.get_module("sparring.envs.diplomacy." + name) for name in %r}
    return " ".join(name for name, module in modules.items() if module.execs)

batch = DiplomacyBatch(2, threads=2)
print(loaded())
for use in (%s):
    use()
    print(loaded())
"""


def said(uses):
    """Return the modules a fresh interpreter has loaded, before and after each of the `uses` of a batch."""
    done = subprocess.run(
        [sys.executable, "-c", CODE % (MODULES, uses)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_kernel_is_loaded_when_it_is_first_used():
    uses = "batch.process, lambda: batch.legal_orders(0), lambda: batch.draw_orders(1)"
    assert said(uses) == ["", MODULES[0], f"{MODULES[0]} {MODULES[4]}", " ".join(MODULES)]


def test_what_plays_a_game_can_be_loaded_at_once():
    assert said("batch.load_kernels,") == ["", " ".join(MODULES[:4])]
