"""Environments of the user's own modules, `module:Namespace/Env-v0`: imported only where the user typed the module."""

import sys
from textwrap import dedent

import gymnasium
import pytest

from sparring.agents.opponents import players
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.eval.run import main

MODULE, ID = "users_own_envs", "users_own_envs:Team/Guess-v0"
SOURCE = """
    import gymnasium
    from gymnasium.envs.classic_control import CartPoleEnv

    gymnasium.register("Team/Guess-v0", CartPoleEnv, max_episode_steps=20)
    """
SMALL = "env.num_envs=2 ppo.rollout_steps=32 ppo.minibatch_size=32 network.hidden=8 device=cpu threads=1"


@pytest.fixture
def forget(tmp_path, monkeypatch):
    """Write the module to the import path; the value forgets it, as a new process would."""

    def forget():
        sys.modules.pop(MODULE, None)
        gymnasium.registry.pop("Team/Guess-v0", None)

    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / f"{MODULE}.py").write_text(dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    monkeypatch.setattr(players, "ROOT", tmp_path)
    yield forget
    forget()


def options(tmp_path, *more):
    return [*SMALL.split(), f"checkpoint_dir={tmp_path}", "logger.progress=false", *more]


def test_it_is_trained_resumed_and_evaluated_if_its_module_is_typed(tmp_path, forget, capsys):
    train(load(options(tmp_path, "env=gymnasium", f"env.id={ID}", "name=guess", "max_updates=1")))
    forget()
    resume = options(tmp_path, "resume=guess", "max_updates=2")
    with pytest.raises(ConfigError, match=rf"runs the code of the module {MODULE}; if you trust it, add env\.id={ID}"):
        load(resume)
    assert MODULE not in sys.modules
    final = train(load([*resume, f"env.id={ID}"]))
    assert (load_checkpoint(final).contract["id"], load_checkpoint(final).training["update"]) == (ID, 2)
    forget()
    evaluate = ["--ckpt", "guess", "--episodes", "2", "--threads", "1", "--device", "cpu"]
    assert main(evaluate) == 2
    assert f"if you trust it, add --import {MODULE}" in capsys.readouterr().err.splitlines()[-1]
    assert MODULE not in sys.modules
    assert main([*evaluate, "--import", MODULE]) == 0
    assert ID in (final.parent / "eval.md").read_text()


def test_a_missing_module_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"env\.id=no_such_module:A/B-v0: cannot be made: No module named"):
        train(load(options(tmp_path, "env=gymnasium", "env.id=no_such_module:A/B-v0")))
