"""`sparring.load`: a trained policy by its path or name, ready to act in a script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.opponents.players import find_player, trains_language_model
from sparring.configs.core.errors import InputError
from sparring.configs.core.paths import user_path
from sparring.envs.game import game_named
from sparring.envs.game import load as load_reference
from sparring.eval.command import prepare_torch
from sparring.eval.run import GYMNASIUM, env_of_player

if TYPE_CHECKING:
    from sparring.agents.policies.loaded_policy import LoadedPolicy


def load(
    policy: str | Path, *, device: str = "cpu", module: str = "", vecnormalize: str | Path | None = None
) -> LoadedPolicy:
    """Load a trained policy, named as in `eval/run.py --ckpt`.

    `policy` is a file (.pt, an ONNX agent, a .zip of Stable-Baselines3), a run's name, `final.pt` for the run that
    saved last, or a released policy, such as `released/dogfight_quickstart`. `module` may be imported to make an
    environment named "module:id"; no code that only a file names is run. `vecnormalize` is the file of SB3's
    `VecNormalize` that belongs to a .zip; one beside it under a usual name is read by itself.

    Raises `InputError`, in one line, for an unknown name, a damaged file, and players that take no observations: bots
    and language models.
    """
    found = find_player(str(policy))
    if vecnormalize is not None and Path(str(found)).suffix != ".zip":
        raise InputError(f"vecnormalize={vecnormalize}: goes with a zip of Stable-Baselines3; {policy} is none")
    prepare_torch()
    if isinstance(found, str) or found.is_dir() or trains_language_model(found.parent / "config.yaml"):
        raise InputError(
            f"{policy}: is a bot or a language model, which does not act on observations; name it as an opponent, or "
            f"play it with sparring.evaluate({str(policy)!r})"
        )
    env = env_of_player(found)
    if env == GYMNASIUM:
        from sparring.eval.episodes import load_episode_policy

        return load_episode_policy(found, device, module)
    game = game_named(env)
    if not game.policy_loader:
        raise InputError(f"{policy}: is a language model, which plays {game.title} in text; use sparring.evaluate")
    given = {} if vecnormalize is None else {"vecnormalize": user_path("vecnormalize", vecnormalize)}
    loaded: LoadedPolicy = load_reference(game.policy_loader)(found, device, **given)
    return loaded
