"""Sparring imports without python-chess, and chess prints how to install it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NEEDS = f"chess is not installed for {sys.executable}; run `sparring install chess`"


def run_without_chess(code):
    start = (
        "import sys; sys.modules['chess'] = None; import sparring, gymnasium; from sparring.envs.game import games; "
    )
    return subprocess.run([sys.executable, "-c", start + code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_sparring_imports_without_python_chess():
    done = run_without_chess("print([game.name for game in games()])")
    names = ["dogfight", "diplomacy", "chess", "air_combat", "openspiel_text"]
    assert (done.stdout.strip(), done.stderr) == (str(names), "")


@pytest.mark.parametrize(
    "code",
    [
        "gymnasium.make('sparring/ChessArbiter-v0')",
        "import sparring.envs.chess.interfaces.aec_env",
        "import sparring.envs.chess.engines.engine",
    ],
)
def test_missing_extra_is_named(code):
    done = run_without_chess(code)
    assert done.stderr.strip().endswith(f"Error: {NEEDS}")


def test_missing_extra_is_named_via_descriptor():
    done = run_without_chess("from sparring.envs.game import load; load('sparring.envs.chess.positions:FIELDS')")
    assert done.stderr.strip().endswith(f"Error: {NEEDS}")
