"""What a run must not tell: values from the environment, keys of Weights & Biases, how its program was called.

Nothing of it may be in any file that the run leaves, in whatever folder of a log. What a person writes into the
configuration (`logger.wandb_project`) is theirs to publish and is there.
"""

import importlib.util

import pytest

from tests.agents.faults import planted, victims

SECRET = "canary7c5e2f9ab1d3"
SPELLINGS = (SECRET, SECRET.upper(), SECRET[::-1], SECRET.encode().hex())


@pytest.mark.parametrize("mode", ["off", "offline"])
def test_no_secret_is_in_any_file_of_a_run(tmp_path, mode):
    if mode == "offline" and importlib.util.find_spec("wandb") is None:
        pytest.skip("Weights & Biases is not installed")
    code = victims.finish(planted.run_with_secrets, tmp_path, SECRET, mode, out=tmp_path / "said")
    said = (tmp_path / "said").read_text()
    assert code == 0, said
    assert "is off for the rest" not in said
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool([path for path in files if path.suffix == ".wandb"]) == (mode == "offline")
    found = [str(path) for path in files for word in SPELLINGS if word.encode() in path.read_bytes()]
    assert found == []
    assert [path for path in files if b"a-project" in path.read_bytes()], "the search finds what is there"
