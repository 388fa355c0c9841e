"""Code that victim processes run: repeated saves, and small runs with a fault planted at a chosen place.

Every function here is called in a process of its own (`victims.start`) and changes the code it meets as it likes.
"""

import itertools
import os
import resource
import shutil
import signal
import sys

import torch

from sparring import train
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.policy import Policy
from sparring.agents.ppo.trainer import PPOTrainer
from sparring.agents.run.states import StateFolder
from sparring.configs.core.session import LoggerConfig
from sparring.configs.schema import NetworkConfig
from sparring.curriculum.pool import Pool
from tests.agents.ppo.small_run import long

CONTRACT = {"id": "x", "version": 1, "rules": "classic", "obs_dim": 4, "observe_physics": True, "continuous": 2}
CONTRACT |= {"binary": 1, "action_repeat": 10, "mirror": False}


def policy(update):
    """Return a network whose weights all encode the update after which it was saved."""
    network = ActorCritic(4, 2, 1, NetworkConfig(hidden=4, log_std_max=5.0))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(update)
    return network


def save(folder, update, keep):
    """Save what a run saves after an update: a snapshot, a policy and a state; at the end the last state again."""
    network, shape = policy(update), policy(0).shape
    Pool(folder / "pool", 3, shape=shape).add(update, network.state_dict())
    save_checkpoint(folder / "final.pt", network, contract=CONTRACT, training={"update": update})
    states = StateFolder(folder / "state", keep, alert=print)
    for _ in range(2):
        states.publish(update, {"w": torch.full((1000,), float(update)), "n": [update]}, {"update": update})


def save_and_die(folder, update, keep, at):
    """Save once, and exit just before file operation number `at`, counted from 0."""
    count = itertools.count()

    def die(event, arguments):
        if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod") and next(count) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    save(folder, update, keep)


# ---- whole runs


def run(config):
    """Run like the command line: exit codes and messages for a person."""
    train.load = lambda arguments: config
    sys.exit(train.main(["seed=1"]))


def run_telling(root, sender, **options):
    """Run the long small run, reporting each update when its row is written."""
    _after(PPOTrainer, "advance", lambda *_: sender.send(True))
    run(long(root, **options))


def run_signalled(root, place, numbers, **options):
    """Run the long small run, sending these signals at a place in its sixth update."""
    arm = {"now": False}

    def strike():
        if arm.pop("now", False):
            for number in numbers:
                os.kill(os.getpid(), number)

    _after(PPOTrainer, "_prepare", lambda trainer: arm.update(now=trainer.plan.update == 5))
    owner, name = {
        "rollout": (LearnerEnv, "step"),
        "check": (Policy, "step"),
        "save of a policy": (os, "fsync"),
        "save of a state": (os, "fsync"),
    }[place]
    if not place.startswith("save"):
        _after(owner, name, lambda *_: strike())
    else:
        saver = (PPOTrainer, "write_policy") if place.endswith("policy") else (StateFolder, "publish")
        inside = _inside(*saver)
        _after(owner, name, lambda *_: strike() if inside else None)
    run(long(root, **options))


def run_on_a_full_disk(root, full_after, **options):
    """Run the long small run; after that many updates files cannot grow beyond a few bytes."""
    _once(full_after, lambda session: resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY)))
    run(long(root, **options))


def run_without_folder(root, after, how, **options):
    """Run the long small run; after that many updates its folder is missing, a file, or not accessible."""

    def lose(session):
        session.folder.path.rename(root / "elsewhere")
        if how == "a file":
            session.folder.path.write_text("")
        elif how == "another one":
            shutil.copytree(root / "elsewhere", session.folder.path)
            for name in ("state", "pool", "manifest.json"):
                path = session.folder.path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                path.write_text("")

    _once(after, lose)
    run(long(root, **options))


def run_with_secrets(root, secret, mode):
    """Run the long small run with W&B logging, started by a program with secrets in its environment."""
    names = ("WANDB_API_KEY", "SPARRING_TOKEN", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY")
    os.environ.update({name: f"{secret}{index:027d}" for index, name in enumerate(names)})
    sys.argv = ["launcher.py", f"--token={secret}"]
    run(long(root, logger=LoggerConfig(progress=False, wandb=mode, wandb_project="a-project")))


def _after(owner, name, action):
    """Let `action` follow every call of a function, with its arguments."""
    original = getattr(owner, name)

    def followed(*arguments, **options):
        result = original(*arguments, **options)
        action(*arguments)
        return result

    setattr(owner, name, followed)


def _once(updates, action):
    """Let `action` follow the update with that number, counted from 1, before anything is saved."""
    _after(PPOTrainer, "_learn", lambda one: action(one.session) if one.plan.update + 1 == updates else None)


def _inside(owner, name):
    """A list that is not empty while a method runs."""
    original, running = getattr(owner, name), []

    def watched(*arguments, **options):
        running.append(name)
        try:
            return original(*arguments, **options)
        finally:
            running.pop()

    setattr(owner, name, watched)
    return running
