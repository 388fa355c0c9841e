"""The Python API of evaluation: `sparring.evaluate`, `record`, `load` and the commands of `eval/` as functions.

Options are those of the command lines, with underscores: `games=40`, `regimes=["none", "full"]`, `stochastic=True`.
`eval/run.py --help` lists the options of `evaluate`. Both ways make the same dataclass of options and refuse the same
input. Names are not split: a comma, a space, `=`, `[` or `:` in a path is literal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from sparring.agents.opponents.players import display_name, find_player, trains_language_model
from sparring.agents.policies.array_actor import ArrayActor, read_actor
from sparring.configs.core.errors import InputError, listed, moved
from sparring.configs.core.files import user_path
from sparring.configs.games import PACKAGES
from sparring.envs.game import game_named
from sparring.envs.game import load as load_reference
from sparring.eval import run
from sparring.eval.command import (
    CommandReport,
    Evaluation,
    GameEvaluation,
    prepare_torch,
    publish_evaluation,
    write,
    written,
)
from sparring.eval.options import EvaluateOptions, from_keywords

__getattr__ = moved(
    __name__,
    {
        "check": "sparring.eval.check:check_game",
        "curves": "sparring.eval.curves:read_curves",
        "diplomacy_replay": "sparring.eval.diplomacy_replay:replay_game",
        "exploit": "sparring.eval.exploit:exploit_policy",
        "runs": "sparring.eval.runs:ask_runs",
        "seeds": "sparring.eval.seeds:sum_up_seeds",
    },
)

if TYPE_CHECKING:
    from sparring.agents.policies.loaded_policy import LoadedPolicy


def evaluate(player: Any = None, *, progress: bool = False, **options: Any) -> Evaluation:
    """Evaluate `player` as `python eval/run.py --ckpt PLAYER ...` does, and return the table as data and text.

    `player` is anything that `sparring.load` accepts or returns, a bot (`bot:ace`), a language model or a Python
    object. It is None for `ladder=True`. `options` are the command-line options (`opponents`, `games`, `episodes`,
    `seed`, `regimes`, `require`, `env`...). Prints nothing and writes files only for `out` and `replay`. `progress`
    shows a progress bar.

    The result has `data` (the content of eval.json), `markdown`, and `failures`, one line per failed requirement.
    Raises `InputError` for bad input, in one line.
    """
    game, read = _read(player, options, progress=progress)
    evaluation = game.evaluate(read)
    if read.out is None:
        evaluation = replace(evaluation, stem=None)
    publish_evaluation(replace(evaluation, failures=(), quiet=True))
    return evaluation


def record(player: Any, path: str | Path, *, progress: bool = False, **options: Any) -> Path:
    """Play one match of `player` and write its replay to `path`; return the path.

    The suffix selects the format: .html, a page that replays it (dogfight, Diplomacy, chess), .gif (dogfight, Gymnasium
    environments) or .pgn (chess). `options` are the same as in `evaluate`; each opponent plays one match. No table is
    written. Raises `InputError` for bad input, in one line.
    """
    path = user_path("path", path)
    game = run.evaluation_of(_choice(player, options).game)
    option = game.replays.get(path.suffix.lower())
    if option is None:
        raise InputError(f"{path}: is not a replay format of this game; the name must end in {listed([*game.replays])}")
    game, read = _read(player, {**game.shortest, **options, option: path}, progress=progress)
    evaluation = game.evaluate(read)
    if path in evaluation.outputs:
        write(path, evaluation.outputs[path])
    if evaluation.cut is not None:
        raise evaluation.cut
    return path


def _read(player: Any, options: Mapping[str, Any], *, progress: bool) -> tuple[GameEvaluation, EvaluateOptions]:
    """Return how the game of a player is evaluated, and its options."""
    game = run.evaluation_of(_choice(player, options).game)
    if (statistics := getattr(player, "vecnormalize", None)) is not None:
        options = {"vecnormalize": statistics, **options}
    return game, from_keywords(game.options, {"ckpt": _named(player), **options, "quiet": not progress})


def _choice(player: Any, options: Mapping[str, Any]) -> run.GameChoice:
    names = ("env", "bot", "league", "opponents")
    return from_keywords(
        run.GameChoice, {"ckpt": _named(player)} | {key: options[key] for key in names if key in options}
    )


def _named(player: Any) -> Any:
    """Return the file of a loaded policy, and other players unchanged."""
    return getattr(player, "path", None) or player


@overload
def load(policy: str | Path, *, device: Literal["numpy"]) -> ArrayActor: ...  # type: ignore[overload-overlap]


@overload
def load(
    policy: str | Path, *, device: str = "cpu", module: str = "", vecnormalize: str | Path | None = None
) -> LoadedPolicy: ...


def load(
    policy: str | Path, *, device: str = "cpu", module: str = "", vecnormalize: str | Path | None = None
) -> LoadedPolicy | ArrayActor:
    """Load a trained policy, named as in `eval/run.py --ckpt`.

    `policy` is a file (.pt, an ONNX agent, a Stable-Baselines3 .zip), a run's name, `final.pt` for the newest run, or a
    released policy, such as `released/dogfight_quickstart`. `module` allows the import of a module that defines an
    environment named "module:id" or a PettingZoo game outside PettingZoo's own package. Code that only a file names is
    never run. `vecnormalize` is the SB3 `VecNormalize` file of a .zip; a file with a usual name in the same folder is
    loaded automatically. With `device="numpy"`, a policy of this project runs without torch and has only `act(obs)`,
    which returns deterministic actions as arrays.

    Raises `InputError`, in one line, for an unknown name, a damaged file, and players without observations: bots and
    language models.
    """
    player = find_player(str(policy))
    if device == "numpy":
        if not isinstance(player, Path) or player.suffix != ".pt":
            raise InputError(f"{policy}: device='numpy' requires a policy of this project (.pt)")
        return read_actor(player, display_name(player))
    if vecnormalize is not None and Path(str(player)).suffix != ".zip":
        raise InputError(f"vecnormalize={vecnormalize}: requires a Stable-Baselines3 zip; {policy} is not one")
    prepare_torch()
    if isinstance(player, str) or player.is_dir() or trains_language_model(player.parent / "config.yaml"):
        raise InputError(
            f"{policy}: is a bot or a language model, which does not act on observations; name it as an opponent, or "
            f"play it with sparring.evaluate({str(policy)!r})"
        )
    env = run.env_of_player(player)
    if env == run.GYMNASIUM or env in PACKAGES:  # an environment that may be named "module:id"
        opened: LoadedPolicy = load_reference(run.evaluation_of(env).policy_loader)(player, device, module)
        return opened
    game = game_named(env)
    if not game.policy_loader:
        raise InputError(f"{policy}: is a language model, which plays {game.title} in text; use sparring.evaluate")
    keywords = {} if vecnormalize is None else {"vecnormalize": user_path("vecnormalize", vecnormalize)}
    loaded: LoadedPolicy = load_reference(game.policy_loader)(player, device, **keywords)
    return loaded


def payoff(run: str | Path = "", *, progress: bool = False, **options: Any) -> CommandReport:
    """Play the snapshots of `run` and other players in a round robin, as `python eval/payoff.py --ckpt RUN` does.

    Without a run, only `opponents` play; set `env` if their names do not identify the game. `options` are `opponents`,
    `snapshots`, `games`, `seed`, `regimes`, `anchor` and others. `data` has `players`, the matrix `payoff` of point
    shares, its `intervals`, and ratings. Files are written only with `out`, such as `out="payoff.png"`.

    Raises `InputError` for bad input, in one line.
    """
    from sparring.eval.payoff import PayoffChoice

    keywords = {"ckpt": run or None, **options}
    kind = from_keywords(PayoffChoice, {key: keywords.get(key) for key in ("ckpt", "env", "opponents")}).kind
    return written(kind.payoff(from_keywords(kind.options, {**keywords, "quiet": not progress}), keep=False))


def export(policy: Any, path: str | Path | None = None, *, batch: str | int | None = None) -> Path:
    """Write `policy` as an ONNX file, as `python eval/export.py --ckpt POLICY --out PATH` does; return the path.

    `policy` is a dogfight checkpoint, named as for `sparring.load`, or a loaded policy. By default the file is written
    beside the checkpoint and ends in .onnx. The model accepts batches of any size (`batch="free"`) or one observation,
    which the public challenge requires; that is the default under its rules. Needs the extra `export`.

    Raises `InputError` for bad input, in one line, and for a policy that is too large or differs from torch.
    """
    from sparring.eval.export import ExportOptions, export_policy

    return export_policy(from_keywords(ExportOptions, {"ckpt": policy, "out": path, "batch": batch})).path


def play(opponent: Any = None, **options: Any) -> None:
    """Serve a page for playing against `opponent`, as `python eval/play.py --opponent OPPONENT` does.

    `opponent` is a bot, a policy or a Python object; in Diplomacy `opponents` names several, as a list or by power,
    `{"GERMANY": Mine}`. `env` is the game, by default the opponent's. Other options depend on the game (`python
    eval/play.py --env diplomacy --help`). The address is printed and opened. Returns when the process is interrupted
    with Ctrl-C, by `KeyboardInterrupt`; `static="fly.html"` writes a page without a server and returns.

    Raises `InputError` for bad input, in one line.
    """
    from sparring.eval.play import PlayChoice

    keywords = {"opponent": opponent, **options}
    choice = {key: value for key, value in keywords.items() if key in ("env", "opponent", "opponents")}
    game = from_keywords(PlayChoice, choice).game
    game.play(from_keywords(game.options, keywords))
