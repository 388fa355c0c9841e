"""Untrained policies of imported games, saved like those of a run."""

from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.schema import NetworkConfig
from sparring.envs.imported.batch import make_batch

DUEL = "tests.envs.imported.own_game"


def save_run(folder, package, game_id, kwargs=None, *, outcome="", **network):
    """Save an early and a final policy in `folder`; return the final one's path."""
    folder.mkdir(parents=True, exist_ok=True)
    batch = make_batch(package, game_id, kwargs or {}, 1, 0)
    batch.close()
    shape = shape_for(batch.contract, NetworkConfig(hidden=8, blocks=0, **network))
    env = {"package": package, "id": game_id, "outcome": outcome}
    for steps, name in ((1000, "update_000010.pt"), (5000, "final.pt")):
        training = {"run": folder.name, "env_steps": steps, "update": steps // 100, "config": {"env": env}}
        save_checkpoint(folder / name, build_network(shape, seed=steps), contract=batch.contract, training=training)
    return folder / "final.pt"
