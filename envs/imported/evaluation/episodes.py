"""Evaluate a policy in a Gymnasium environment: `python eval/run.py --ckpt RUN`.

Plays episodes with the deterministic policy and prints returns and lengths. Observations are normalized with the
training statistics stored in the checkpoint; rewards are not normalized. Writes eval.json and eval.md next to the
checkpoint. A policy may name an environment "module:id"; its module is imported only if --import names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from sparring.agents.opponents.players import ONNX, display_name, display_path, find_checkpoint
from sparring.configs.core.device import LOCAL
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.status import say
from sparring.configs.core.typed import naming
from sparring.configs.games import OWN
from sparring.envs.game import FOREIGN_POLICIES, game_of
from sparring.eval.command import GameEvaluation
from sparring.eval.options import CONDITIONS, RESULTS, SEED, WHO, CommandText, Pairs, argument, check_suffix
from sparring.eval.paired.duels import FILES, DuelEvaluationOptions
from sparring.eval.paired.evaluation import (
    Cell,
    Matches,
    PairedGame,
    PairedPlayers,
    Plan,
    Played,
    evaluate,
    play_cells,
)
from sparring.eval.stats.requirements import Requirement

if TYPE_CHECKING:
    from PIL.Image import Image
    from tqdm import tqdm

    from sparring.agents.policies.checkpoint import Checkpoint
    from sparring.agents.policies.loaded_policy import LoadedPolicy
    from sparring.envs.imported.training.gymnasium import GymnasiumEnvs

SCHEMA_VERSION = 1
EPISODES = "[2, 1000000]"
MEANS = ("return", "length")
"""Measured quantities of an episode."""
ALONE = "Gymnasium environments have a single player; compare returns with eval/seeds.py RUN RUN"
COPIES = 10
"""Number of parallel environments. Episodes are split evenly among them, so short ones are not favoured."""
MOST_LEFT_OUT = 10
"""Non-finite episodes allowed per requested episode before the evaluation stops."""
FPS = 30
"""Frames per second if the environment does not specify render_fps."""

_EXAMPLES = """\
examples:
  python eval/run.py --ckpt quick-hawk-gymnasium                 100 episodes
  python eval/run.py --ckpt final.pt --episodes 20 --seed 7 --video episode.gif
  python eval/run.py --ckpt final.pt --require "return>=195"     exit code 1 below it
  python eval/run.py --ckpt agent.onnx                           a model that eval/export.py wrote
  python eval/run.py --env gymnasium --ckpt model.zip --id CartPole-v1    a policy of Stable-Baselines3

exit codes: 0 done, 1 a --require failed, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(DuelEvaluationOptions):
    """Options of the command. Without opponents the others of `PairedEvaluationOptions` are not options here."""

    ABSENT: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("--opponents", "--ladder", "--anchor", "--sprt"), ALONE),
        "--games": "counts matches; give --episodes",
        "--regimes": "an environment uses its registered parameters; register other parameters under another id",
        "--replay": "applies to multi-player games; use --video",
    }
    OUTPUTS: ClassVar[Sequence[str]] = ("video",)
    MISSING: ClassVar[str] = "give a path, a run's name, or final.pt for the newest run"
    TEXT = CommandText(
        "eval/run.py",
        "Play episodes of a registered Gymnasium environment with the deterministic policy that was trained in "
        "it, and print returns and lengths. Write eval.json and eval.md next to final.pt.",
        _EXAMPLES,
        env="gymnasium",
    )
    ckpt: str = argument("", metavar="C", group=WHO)
    """A path (.pt, .onnx or a .zip of Stable-Baselines3), a run's name, or final.pt (the newest run's)."""
    id: str = argument("", metavar="ID", group=WHO)
    """The environment of a zip or model that does not name one, such as CartPole-v1."""
    episodes: int = argument(100, EPISODES, metavar="N", group=CONDITIONS)
    """Number of episodes."""
    seed: int = argument(0, SEED, metavar="N", group=CONDITIONS)
    """Seed of the environments (default: 0)."""
    module: str = argument("", metavar="MODULE", group=CONDITIONS, flags=["--import"])
    """Module that registers the policy's environment."""
    video: Path | None = argument(None, metavar="GIF", group=RESULTS)
    """Write the first episode as an animated GIF."""

    opponents: tuple[str, ...] = ()
    require: tuple[str, ...] = argument((), metavar="R", group=RESULTS, repeat=True)
    """Minimum mean, as in "return>=195" or "length>=100"; repeatable."""
    anchor: str | None = None
    stochastic: bool = False
    ladder: bool = False
    sprt: Pairs | None = None
    games: int = 0
    max_games: int = 0
    executor: str = LOCAL
    address: str = ""
    workers: int = 1

    def check(self) -> None:
        """Raise `InputError` for a missing policy or an unknown video format."""
        super().check()
        check_suffix("--video", self.video, ".gif")
        self.check_opponents(())

    def check_opponents(self, names: Sequence[str], regimes: Sequence[str] = ()) -> None:
        """Raise `InputError` for a requirement on an unknown quantity."""
        for text in self.require:
            Requirement.parse(text, means=MEANS)

    def failures(self, records: Sequence[EpisodeRecord]) -> tuple[str, ...]:
        """Return a line for each requirement that the means do not meet."""
        means = {name: float(np.mean(values)) for name, values in records[0].values.items()} if self.require else {}
        requirements = [Requirement.parse(text, means=MEANS) for text in self.require]
        return tuple(line for wanted in requirements for line in wanted.of_mean(means[wanted.opponent]))


@dataclass(frozen=True)
class EpisodePlayer:
    """A policy with its file."""

    name: str
    checkpoint: Checkpoint

    @property
    def path(self) -> Path:
        """Its file."""
        return self.checkpoint.path


@dataclass(frozen=True)
class EpisodeRecord:
    """Episodes of a player: their returns and lengths."""

    player: str
    values: dict[str, list[float]]
    """By the names in `MEANS`."""


@dataclass(frozen=True)
class Episodes(Matches):
    """Episodes of the environment of a policy."""

    unit: ClassVar[str] = "episode"
    machine: str

    @property
    def record(self) -> Any:
        """Type of the records."""
        return EpisodeRecord

    @property
    def device(self) -> str:
        """Device of the policy."""
        return self.machine

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[EpisodeRecord, list[Any]]:
        """Play the episodes of a cell."""
        (player,), plan = cell.pair, cell.plan
        columns = play(player.checkpoint, plan.games, plan.seed, self.machine).T.tolist()
        return EpisodeRecord(player.name, dict(zip(MEANS, columns, strict=True))), []

    def stated(self) -> dict[str, Any]:
        """Return nothing: the policy determines the game."""
        return {}

    def identity(self, player: EpisodePlayer) -> tuple[Any, Path | None] | None:
        """Return environment and file; None for code and for statistics next to a zip, since these may have changed."""
        env_id = str(player.checkpoint.contract["id"])
        return None if ":" in env_id or player.path.suffix not in FILES else (env_id, player.path)


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
        if (left_out := int(envs.quarantined)) > MOST_LEFT_OUT * episodes:
            envs.close()
            raise InputError(
                f"{checkpoint.path}: {left_out} episodes of {checkpoint.contract['id']} were left out before "
                f"{episodes} were played: a reward or an observation was not finite; check step() of the environment"
            )
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

    from sparring.configs.serialization import from_stored
    from sparring.envs.imported.config import GymnasiumEnvConfig, GymnasiumRunConfig
    from sparring.envs.imported.training.gymnasium import GymnasiumEnvs, check_version

    stored = checkpoint.training.get("config")  # policies of other libraries have none
    foreign = GymnasiumRunConfig(env=GymnasiumEnvConfig(id=checkpoint.contract["id"]))
    config = foreign if stored is None else from_stored(stored)
    if not isinstance(config, GymnasiumRunConfig) or config.env.id != checkpoint.contract["id"]:
        raise InputError(f"{checkpoint.path}: its training.config belongs to another environment; train a new policy")
    config.env.num_envs, config.env.normalize_reward, config.env.vector = copies, False, False
    config.env.scale_actions = checkpoint.contract.get("scale_actions", False)  # earlier versions clipped
    statistics = checkpoint.contract.get("normalizer")
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


def open_player(
    options: EpisodeOptions, located: Path, opponents: Sequence[Any], device: str, like: Any = None
) -> PairedPlayers:
    """Load the policy. Raises `InputError` for a file that cannot be used."""
    checkpoint, notes = _load(located, device, options.module, options.id, options.vecnormalize)
    return PairedPlayers(EpisodePlayer(display_name(located), checkpoint), [], notes)


def meet(options: EpisodeOptions, players: PairedPlayers, plan: Plan, played: Played) -> None:
    """Play the episodes."""
    play_cells(plan, [Cell((players.player,), "", plan)], played)


def texts(options: EpisodeOptions, players: PairedPlayers, plan: Plan, played: Played) -> tuple[str, str]:
    """Return the table of returns and lengths, and the JSON."""
    (record,) = played.records
    content = _summarize(options, players.player.checkpoint, record.values, plan.matches.device)
    content |= {"notes": list(players.notes)} if players.notes else {}
    return _markdown(content), json.dumps(content, indent=1, allow_nan=False) + "\n"


def outputs(
    options: EpisodeOptions, players: PairedPlayers, plan: Plan, played: Played
) -> dict[Path, Callable[[Path], None]]:
    """Return the writer of --video."""
    how = {"checkpoint": players.player.checkpoint, "seed": options.seed, "device": plan.matches.device}
    return {options.video: partial(write_video, **how)} if options.video else {}


def _load(
    path: Path, device: str, module: str, env_id: str = "", vecnormalize: Path | None = None
) -> tuple[Checkpoint, tuple[str, ...]]:
    """Load a policy and notes on it; `env_id` is the environment of a file that does not name it."""
    if path.suffix not in FOREIGN_POLICIES:
        if env_id:
            raise InputError(f"--id {env_id}: {path} names its environment; leave it out")
        checkpoint = _own(path, device)
        _check_module(path, checkpoint.contract["id"], module)
        return checkpoint, ()
    from sparring.agents.opponents.onnx_file import read_contract
    from sparring.envs.imported.training.foreign_policies import load_foreign

    stated = read_contract(path) if path.suffix == ONNX else {}
    named = str(stated.get("id", ""))
    _check_game(path, named)
    if not (env_id or named):
        raise InputError(f"{path}: does not name its environment; add --id, as in --id CartPole-v1")
    if env_id and named not in ("", env_id):
        raise InputError(f"--id {env_id}: {path} belongs to {named}; leave it out")
    if not env_id:  # a typed id allows its code
        _check_module(path, named, module)
    return load_foreign(path, device, env_id or named, stated, vecnormalize)


def _check_game(path: Path, env_id: str) -> None:
    if game := game_of(env_id):
        raise InputError(f"{path}: plays {game.title}; evaluate it with eval/run.py --env {game.name}")


def _own(path: Path, device: str) -> Checkpoint:
    """Load a policy of this project."""
    from sparring.agents.policies.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path, device)
    _check_game(path, checkpoint.contract["id"])
    if "normalizer" not in checkpoint.contract or "config" not in checkpoint.training:
        raise InputError(f"{path}: does not store how {checkpoint.contract['id']} was observed; train a new policy")
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

    (checkpoint, _), name = _load(path, device, module), display_name(path)
    envs = make_envs(checkpoint, 1, 0, device)
    envs.close()
    acted = partial(to_actions, envs.action_space, scale=envs.scale_actions)
    spaces = PolicySpaces(
        envs.observation_space,
        envs.action_space,
        acted,
        lambda rows: envs.encode(rows.cpu().numpy()).to(rows.device),
    )
    foreign = getattr(checkpoint.network, "policy", None)
    policy = foreign or Policy(checkpoint.network, checkpoint.contract, name=name)
    return LoadedPolicy(name, path, policy, spaces, checkpoint.training)


def _check_module(path: Path, env_id: str, allowed: str) -> None:
    """Raise `InputError` for a module that only the file names, because importing it runs its code."""
    module, colon, _ = env_id.partition(":")
    if colon and module not in (allowed, OWN):
        raise InputError(
            f"{path}: plays {env_id}, and creating that environment runs the code of the module "
            f"{module}; if you trust it, add --import {module}"
        )
    if allowed and not colon:
        raise InputError(f"--import {allowed}: {env_id} needs no module; leave it out")


def _summarize(
    options: EpisodeOptions, checkpoint: Checkpoint, played: Mapping[str, list[float]], device: str
) -> dict[str, Any]:
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
    for name, values in ((name, np.array(numbers)) for name, numbers in played.items()):
        mean = mean_estimate(values)
        head[name] = {"mean": mean.value, "interval": mean.interval, "median": float(np.median(values))}
        head[name] |= {"least": float(values.min()), "most": float(values.max())}
    return head | {"training": checkpoint.training}


def _markdown(content: dict[str, Any]) -> str:
    from sparring.eval.stats.tables import notes_markdown, table

    head = ("", "mean", "95 % interval", "median", "least", "most")
    rows = []
    for name in MEANS:
        estimate = content[name]
        values = [*estimate["interval"], *(estimate[key] for key in head if key in estimate)]
        low, high, *numbers = (f"{value:.2f}" for value in values)
        rows.append([name, numbers[0], f"{low} to {high}", *numbers[1:]])
    about = f"{content['episodes']} episodes of the deterministic policy, seed {content['seed']}; Student's t interval."
    about += notes_markdown(content.get("notes", ()))
    origin = f"Checkpoint: `{content['checkpoint']}`  \nCommand: `{content['command']}`"
    return f"# {content['player']}: {content['env']}\n\n{about}\n\n{table(head, rows)}\n\n{origin}\n"


ENVIRONMENTS = PairedGame(
    None,
    lambda name, opponent: find_checkpoint(name),
    open_player,
    lambda options, players, device, threads: Episodes(device),
    games=lambda options, matches: int(options.episodes),
    play=meet,
    texts=texts,
    outputs=outputs,
)
EVALUATION = GameEvaluation(
    EpisodeOptions,
    partial(evaluate, ENVIRONMENTS),
    {".gif": "video"},
    {"episodes": 2},
    "sparring.envs.imported.evaluation.episodes:load_episode_policy",
)
