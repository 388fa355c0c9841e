"""Evaluate a policy in a Gymnasium environment: `python eval/run.py --ckpt RUN`, for a RUN trained in one.

Plays episodes with the deterministic policy and prints returns and lengths. Observations are normalized with the
training statistics stored in the checkpoint; rewards are not normalized. Writes eval.json and eval.md next to the
checkpoint. A policy may name an environment "module:id"; its module is imported only if --import names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparring.agents.opponents.players import display_name, display_path, find_checkpoint, results_place
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.status import say
from sparring.configs.core.typed import naming
from sparring.configs.games import OWN
from sparring.envs.game import game_of
from sparring.eval.command import Evaluation, GameEvaluation, make_folders, place_of, use_machine
from sparring.eval.options import CONDITIONS, RESULTS, SEED, CommandText, EvaluateOptions, argument, check_suffix

if TYPE_CHECKING:
    from PIL.Image import Image

    from sparring.agents.policies.checkpoint import Checkpoint
    from sparring.agents.policies.loaded_policy import LoadedPolicy
    from sparring.envs.imported.training.gymnasium import GymnasiumEnvs

SCHEMA_VERSION = 1
EPISODES = "[2, 1000000]"
COPIES = 10
"""Number of parallel environments. Episodes are split evenly among them, so that short ones are not favoured."""
FPS = 30
"""Frames per second if the environment does not specify render_fps."""

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt quick-hawk-gymnasium                 100 episodes
  python eval/run.py --ckpt final.pt --episodes 20 --seed 7 --video episode.gif

exit codes: 0 done, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(EvaluateOptions):
    """Options of the command."""

    TEXT = CommandText(
        "eval/run.py",
        "Play episodes of an environment registered with Gymnasium with the deterministic policy that was trained in "
        "it, and print returns and lengths. eval.json and eval.md are written beside final.pt.",
        _EXAMPLES,
        env="gymnasium",
    )
    episodes: int = argument(100, EPISODES, metavar="N", group=CONDITIONS)
    """Number of episodes."""
    seed: int = argument(0, SEED, metavar="N", group=CONDITIONS)
    """Seed of the environments (default: 0)."""
    module: str = argument("", metavar="MODULE", group=CONDITIONS, flags=["--import"])
    """Import it to register the policy's environment."""
    video: Path | None = argument(None, metavar="GIF", group=RESULTS)
    """The first episode as a picture."""

    def check(self) -> None:
        """Raise `InputError` for a missing policy, and a video of another form."""
        self.require_given("ckpt", "give a path, a run's name, or final.pt for the newest run")
        check_suffix("--video", self.video, ".gif")


def play(checkpoint: Checkpoint, episodes: int, seed: int, device: str = "cpu") -> np.ndarray:
    """Play with the deterministic policy; return float64 [episodes, 2] (return, length), copy by copy."""
    copies = min(COPIES, episodes)
    quota = [episodes // copies + (copy < episodes % copies) for copy in range(copies)]
    envs = make_envs(checkpoint, copies, seed, device)
    for note in envs.copies.masks.notes:
        say(note)
    finished: list[list[tuple[float, int]]] = [[] for _ in quota]
    while any(len(done) < most for done, most in zip(finished, quota, strict=True)):
        envs.step(checkpoint.network.act(envs.obs, deterministic=True)[0])
        for copy, value, length in envs.finished:
            finished[copy].append((value, length))
        envs.finished.clear()
    envs.close()
    if left_out := int(envs.quarantined):
        say(f"{left_out} episodes are left out: a reward or an observation was not finite")
    return np.array([row for done, most in zip(finished, quota, strict=True) for row in done[:most]], np.float64)


def make_envs(
    checkpoint: Checkpoint, copies: int, seed: int, device: str, render_mode: str | None = None
) -> GymnasiumEnvs:
    """Make copies of a policy's training environment with the same observations. Raises `ConfigError`."""
    import torch

    from sparring.configs.schema import GymnasiumRunConfig
    from sparring.configs.serialization import from_stored
    from sparring.envs.imported.training.gymnasium import GymnasiumEnvs, check_version

    config = from_stored(checkpoint.training["config"])
    if not isinstance(config, GymnasiumRunConfig) or config.env.id != checkpoint.contract["id"]:
        raise InputError(f"{checkpoint.path}: its training.config is of another environment; train a new policy")
    config.env.num_envs, config.env.normalize_reward, config.env.vector = copies, False, False
    config.env.scale_actions = checkpoint.contract.get("scale_actions", False)  # earlier versions clipped
    statistics = checkpoint.contract["normalizer"]
    with naming(checkpoint.path, InputError, "train a new policy"):
        envs = GymnasiumEnvs(config, torch.device(device), seed=seed, statistics=statistics, render_mode=render_mode)
    check_version(config.env.id, checkpoint.contract["version"], envs.contract["version"])
    return envs


def write_video(path: Path, checkpoint: Checkpoint, seed: int, device: str) -> None:
    """Write the first episode as an animated GIF. Raises `InputError` if the environment cannot be rendered."""
    import gymnasium
    from gymnasium.error import Error as GymnasiumError

    metadata = gymnasium.make(checkpoint.contract["id"]).metadata
    if "rgb_array" not in metadata.get("render_modes", ()):
        raise InputError(f"--video: {checkpoint.contract['id']} cannot be drawn (no render mode rgb_array)")
    envs = make_envs(checkpoint, 1, seed, device, render_mode="rgb_array")
    pictures = _pictures(checkpoint, envs)
    delay = 10 * max(2, round(100 / metadata.get("render_fps", FPS)))  # GIF delays have a resolution of 1/100 s.
    try:
        first, written = next(pictures), BytesIO()
        first.save(written, "GIF", save_all=True, append_images=pictures, duration=delay, loop=0)
    except (GymnasiumError, ImportError) as error:
        raise InputError(f"--video: {checkpoint.contract['id']} cannot be drawn: {error}") from error
    envs.envs.close()
    write_atomically(path, written.getvalue())


def _pictures(checkpoint: Checkpoint, envs: GymnasiumEnvs) -> Iterator[Image]:
    """Play one episode. Yield a frame before every step, since the last step already resets the environment."""
    from PIL import Image

    while not envs.finished:
        (picture,) = envs.envs.render() or [None]
        yield Image.fromarray(np.asarray(picture)).convert("P", palette=Image.Palette.ADAPTIVE)
        envs.step(checkpoint.network.act(envs.obs, deterministic=True)[0])


def evaluate(options: EpisodeOptions) -> Evaluation:
    """Play the episodes of `options`. Raises `InputError` for bad input."""
    path = find_checkpoint(options.ckpt)
    make_folders([options.out], files=[options.video])
    device, _ = use_machine(options.device, options.threads, quiet=options.quiet)
    checkpoint = _load(path, device)
    _check_module(checkpoint, options.module)
    content = _summarize(options, checkpoint, play(checkpoint, options.episodes, options.seed, device), device)
    stem = place_of(options.out, results_place(path), "")
    data = json.dumps(content, indent=1, allow_nan=False) + "\n"
    draw = partial(write_video, checkpoint=checkpoint, seed=options.seed, device=device)
    outputs = {options.video: draw} if options.video else {}
    return Evaluation(_markdown(content), data, stem, outputs, quiet=options.quiet)


def _load(path: Path, device: str) -> Checkpoint:
    from sparring.agents.policies.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path, device)
    if game := game_of(checkpoint.contract["id"]):
        raise InputError(f"{path}: plays {game.title}; evaluate it with eval/run.py --env {game.name}")
    if "normalizer" not in checkpoint.contract or "config" not in checkpoint.training:
        raise InputError(f"{path}: does not say how {checkpoint.contract['id']} was shown to it; train a new policy")
    trained = trained_env(checkpoint.training["config"])
    if trained != checkpoint.contract["id"]:
        raise InputError(
            f"{path}: is a policy of {checkpoint.contract['id']}, but its run was in {trained}; it is damaged"
        )
    return checkpoint


def trained_env(config: Any) -> Any:
    """Return the `env.id` of a policy's stored configuration, plain data from a file; None without one."""
    env = config.get("env") if isinstance(config, dict) else None
    return env.get("id") if isinstance(env, dict) else None


def load_episode_policy(path: Path, device: str, module: str = "") -> LoadedPolicy:
    """Load the policy in the file `path` for `sparring.load`; its environment may be made by importing `module`."""
    from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
    from sparring.agents.policies.policy import Policy
    from sparring.envs.spaces import to_actions

    checkpoint, name = _load(path, device), display_name(path)
    _check_module(checkpoint, module)
    envs = make_envs(checkpoint, 1, 0, device)
    envs.close()
    acted = partial(to_actions, envs.action_space, scale=envs.scale_actions)
    spaces = PolicySpaces(
        envs.observation_space,
        envs.action_space,
        acted,
        lambda rows: envs.encode(rows.cpu().numpy()).to(rows.device),
    )
    return LoadedPolicy(
        name, path, Policy(checkpoint.network, checkpoint.contract, name=name), spaces, checkpoint.training
    )


def _check_module(checkpoint: Checkpoint, allowed: str) -> None:
    """Refuse to import a module that only the file names, because importing runs its code."""
    module, colon, _ = str(checkpoint.contract["id"]).partition(":")
    if colon and module not in (allowed, OWN):
        raise InputError(
            f"{checkpoint.path}: plays {checkpoint.contract['id']}, and making that runs the code of the module "
            f"{module}; if you trust it, add --import {module}"
        )
    if allowed and not colon:
        raise InputError(f"--import {allowed}: {checkpoint.contract['id']} needs no module; leave it out")


def _summarize(options: EpisodeOptions, checkpoint: Checkpoint, played: np.ndarray, device: str) -> dict[str, Any]:
    """Return the content of eval.json; deterministic in the arguments."""
    from sparring.eval.stats.aggregate import mean_estimate

    head: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "episodes",
        "player": display_name(checkpoint.path),
    }
    head |= {"checkpoint": display_path(checkpoint.path), "run": checkpoint.training.get("run")}
    head |= {"env": checkpoint.contract["id"], "deterministic": True, "device": device}
    head |= {name: getattr(options, name) for name in ("episodes", "seed", "command")}
    for name, values in zip(("return", "length"), played.T, strict=True):
        mean = mean_estimate(values)
        head[name] = {"mean": mean.value, "interval": mean.interval, "median": float(np.median(values))}
        head[name] |= {"least": float(values.min()), "most": float(values.max())}
    return head | {"training": checkpoint.training}


def _markdown(content: dict[str, Any]) -> str:
    from sparring.eval.stats.tables import table

    head = ("", "mean", "95 % interval", "median", "least", "most")
    rows = []
    for name in ("return", "length"):
        estimate = content[name]
        values = [*estimate["interval"], *(estimate[key] for key in head if key in estimate)]
        low, high, *numbers = (f"{value:.2f}" for value in values)
        rows.append([name, numbers[0], f"{low} to {high}", *numbers[1:]])
    about = f"{content['episodes']} episodes of the deterministic policy, seed {content['seed']}; Student's t interval."
    origin = f"Checkpoint: `{content['checkpoint']}`  \nCommand: `{content['command']}`"
    return f"# {content['player']}: {content['env']}\n\n{about}\n\n{table(head, rows)}\n\n{origin}\n"


EVALUATION = GameEvaluation(
    EpisodeOptions,
    evaluate,
    {".gif": "video"},
    {"episodes": 2},
    "sparring.envs.imported.evaluation.episodes:load_episode_policy",
)
