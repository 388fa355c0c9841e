"""Resuming detects a flipped bit in any listed file of a run."""

import json
from hashlib import sha256

import pytest

import sparring
from sparring.configs.core.errors import InputError

LEAST = [
    *("max_updates=3", "checkpoint_every=1", "self_play.snapshot_every=1", "threads=1", "device=cpu"),
    *("self_play.deal_every=1", "self_play.slots=2", "logger.progress=false", "evaluation.every=0"),
]
SELF_PLAY = ["phases.0.scripted_start=0.5", "phases.0.scripted_end=0.5"]
GAMES = {
    "dogfight": [
        *("env=dogfight", "env.num_envs=8", "network.hidden=8", "ppo.rollout_steps=8", "ppo.minibatch_size=32"),
        *SELF_PLAY,
    ],
    "kuhn_poker": [
        *("env=openspiel", "env.id=kuhn_poker", "env.num_envs=8", "network.hidden=8"),
        *("ppo.rollout_steps=8", "ppo.minibatch_size=32", *SELF_PLAY),
    ],
}


def flip(path, at=0.243):
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= 1 << 5
    path.write_bytes(data)


def events(run):
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [row.get("event", "") for row in rows]


@pytest.fixture(scope="module", params=GAMES)
def rested(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    sparring.train(overrides=[*GAMES[request.param], *LEAST, "name=x", f"checkpoint_dir={root}"])
    index = json.loads((root / "x" / "pool" / "index.json").read_text())
    return request.param, root, {row["name"]: row["sha256"] for row in index}


def resume(root, updates):
    return sparring.train(overrides=["resume=x", f"checkpoint_dir={root}", f"max_updates={updates}"])


def refusal(root):
    try:
        resume(root, 3)
    except InputError as error:
        return str(error)
    return ""


def test_damaged_snapshot_is_rewritten_rejected_or_evicted(rested):
    game, root, listed = rested
    pool, refused = root / "x" / "pool", []
    assert len(listed) > 1
    for name, digest in listed.items():
        path = pool / f"{name}.pt"
        whole = path.read_bytes()
        flip(path)
        before = {file.name: file.read_bytes() for file in pool.iterdir()}
        line = refusal(root)
        if line:
            refused.append(name)
            assert line.startswith(f"{path}: is damaged")
            assert "; restore it from a copy, or remove it to train on without it" in line
            assert {file.name: file.read_bytes() for file in pool.iterdir()} == before
            path.write_bytes(whole)
        else:
            assert sha256(path.read_bytes()).hexdigest() == digest
            assert f"{path}: is damaged; it is written again from the training state" in events(root / "x")
    assert (len(refused) < len(listed)) == (game == "kuhn_poker"), "whose state has all weights of the slots"
    resume(root, 3)
    for name in refused:
        (pool / f"{name}.pt").unlink()
    resume(root, 4)
    for name in refused:
        assert any(f"{name} leaves the pool" in one for one in events(root / "x"))
        assert name not in (pool / "index.json").read_text() + (root / "x" / "league.json").read_text()


@pytest.mark.parametrize("name", ["best.pt", "final.pt"])
def test_damaged_policy_is_named_on_resume(tmp_path, name):
    sparring.train(overrides=[*GAMES["kuhn_poker"], *LEAST, "evaluation.every=1", "evaluation.games=2", "name=x",
                              f"checkpoint_dir={tmp_path}"])  # fmt: skip
    path = tmp_path / "x" / name
    resume(tmp_path, 3)
    assert not any("is damaged" in one for one in events(tmp_path / "x"))
    flip(path)
    resume(tmp_path, 3)
    assert any(f"{path}: is damaged or was replaced" in one for one in events(tmp_path / "x"))
