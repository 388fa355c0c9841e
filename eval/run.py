"""Evaluate a policy: `python eval/run.py --ckpt final.pt`; `--help` lists every option, with examples.

Plays seat-swapped pairs of games against each opponent, prints wins, draws and losses with 95 % intervals, and writes
eval.json and eval.md beside the checkpoint, or eval.<name>.json and .md for one that is not called final.pt. Exit
codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a package missing (one line on stderr),
130 stopped with Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:  # Run as a script: only this repository's packages are meant, whatever else is installed.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from configs.installed import check_installed

    check_installed("eval/run.py")

from configs.files import write_atomically
from configs.names import InputError
from eval.command import make_folders, run_command, use_machine, write
from eval.options import Options, read_options
from eval.ratings import Anchor
from eval.sprt import sprt_markdown
from eval.tables import Record, Report, ladder_markdown, markdown, to_json

if TYPE_CHECKING:
    from agents.matches import Setting
    from eval.arena import Plan
    from eval.entrants import Entrant
    from eval.replay import Recording

FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    return run_command("eval/run.py", _run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    files = [path for path in (options.replay, options.gif) if path is not None]
    make_folders([options.out] if options.out else [], files=files)
    failures = _command(options)(options)
    for line in failures:
        print(f"eval/run.py: {line}", file=sys.stderr)
    return FAILED if failures else 0


def _command(options: Options) -> Callable[[Options], list[str]]:
    if options.ladder:
        return run_ladder
    return run_sprt if options.sprt else run_evaluation


def run_sprt(options: Options) -> list[str]:
    """Test sequentially whether the player is stronger; anything but a yes is returned as a failure."""
    assert options.sprt is not None
    device, threads = use_machine(options.device, options.threads)
    from eval.arena import sequential
    from eval.entrants import load_opponent, load_player

    player = load_player(options.ckpt or "", device, deterministic=not options.stochastic)
    opponent = load_opponent(options.opponents[0], device, deterministic=not options.stochastic)
    plan = _plan(options, [player, opponent], device, threads)
    verdict = sequential((player, opponent), plan, options.sprt, options.max_games)
    text = sprt_markdown(player.name, opponent.name, verdict, options.sprt)
    fields = {"player": player.name, "opponent": opponent.name, "command": options.command}
    data = json.dumps(fields | asdict(options.sprt) | asdict(verdict), indent=1) + "\n"
    _publish(options, _folder(options, player), _name("sprt", player), text, data)
    return [] if verdict.accepted == "H1" else [text.splitlines()[0].removeprefix("# ")]


def run_evaluation(options: Options) -> list[str]:
    """Evaluate the player, show and write the results, and return a line for every requirement that failed."""
    device, threads = use_machine(options.device, options.threads)
    from eval.arena import evaluate
    from eval.entrants import load_opponent, load_player

    player = load_player(options.ckpt or "", device, deterministic=not options.stochastic)
    opponents = [load_opponent(name, device, deterministic=not options.stochastic) for name in options.opponents]
    _check_names(options, opponents)
    plan = _plan(options, [player, *opponents], device, threads)
    watched = options.replay is not None or options.gif is not None
    records, recordings = evaluate(player, opponents, plan, record=watched)
    report = _report(options, plan.setting, records, player)
    _publish(options, _folder(options, player), _name("eval", player), markdown(report), to_json(report))
    _write_recordings(options, records, recordings)
    return [line for requirement in options.require for line in requirement.failures(records)]


def run_ladder(options: Options) -> list[str]:
    """Play everyone against everyone, show and write the results and the ratings; no requirement can fail."""
    device, threads = use_machine(options.device, options.threads)
    from eval.arena import ladder
    from eval.entrants import load_opponent, load_player

    entrants = [load_opponent(name, device, deterministic=not options.stochastic) for name in options.opponents]
    if options.ckpt:
        entrants.append(load_player(options.ckpt, device, deterministic=not options.stochastic))
    _check_distinct(entrants, at_least=2)
    plan = _plan(options, entrants, device, threads)
    names = [entrant.name for entrant in entrants]
    anchor = (options.anchor or Anchor.among(names)).check(names)
    report = _report(options, plan.setting, ladder(entrants, plan), None, anchor)
    _publish(options, options.out, "ladder", ladder_markdown(report), to_json(report))
    return []


def _plan(options: Options, entrants: Sequence[Entrant], device: str, threads: int) -> Plan:
    from eval.arena import Plan, make_setting

    contestants = [entrant.contestant for entrant in entrants]
    setting = make_setting(contestants, rules=options.rules, bot_rate=options.bot_rate, device=device, threads=threads)
    return Plan(options.regimes, options.games, options.seed, setting, progress=not options.quiet)


def _check_names(options: Options, opponents: Sequence[Entrant]) -> None:
    _check_distinct(opponents)
    for requirement in options.require:
        requirement.check_names([opponent.name for opponent in opponents], options.regimes)


def _check_distinct(entrants: Sequence[Entrant], *, at_least: int = 1) -> None:
    names = [entrant.name for entrant in entrants]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"--opponents names {twice[0]} twice; leave one out")
    if len(names) < at_least:
        raise InputError(f"--opponents {names[0]}: a ladder needs at least {at_least}")


def _report(
    options: Options,
    setting: Setting,
    records: Sequence[Record],
    player: Entrant | None,
    anchor: Anchor | None = None,
) -> Report:
    from eval.entrants import display_path

    path = player.path if player else None
    return Report(
        player=player.name if player else None,
        records=records,
        games=options.games,
        seed=options.seed,
        rules=setting.rules,
        bot_rate=setting.bot_rate,
        action_repeat=setting.action_repeat,
        deterministic=not options.stochastic,
        device=setting.device,
        command=options.command,
        checkpoint=display_path(path) if path else None,
        run=player.training.get("run") if player else None,
        training=player.training if player else {},
        anchor=anchor,
    )


def _folder(options: Options, player: Entrant) -> Path | None:
    """Where results go: as asked for, else beside the checkpoint; a bot has none."""
    return options.out or (player.path.parent if player.path else None)


def _name(kind: str, player: Entrant) -> str:
    """The results' name: a run's other checkpoints, beside final.pt, do not overwrite its results."""
    from agents.checkpoint import FINAL

    return kind if player.path is None or player.path.name == FINAL else f"{kind}.{player.path.stem}"


def _publish(options: Options, folder: Path | None, name: str, text: str, data: str) -> None:
    """Print the markdown, and write it and the JSON into `folder` if there is one."""
    if not options.quiet:
        print(text)
    if folder is None:
        return
    write(folder / f"{name}.json", lambda path: write_atomically(path, data))
    write(folder / f"{name}.md", lambda path: write_atomically(path, text))
    if not options.quiet:
        print(f"Wrote {folder / f'{name}.json'} and {name}.md")


def _write_recordings(options: Options, records: Sequence[Record], recordings: list[Recording]) -> None:
    if options.replay is not None:
        from eval.replay import write_replay

        write(options.replay, lambda path: write_replay(path, recordings))
    if options.gif is not None:
        from eval.gif import write_gif

        # The last of the worst: opponents are usually named from easy to hard.
        worst = min(reversed(range(len(recordings))), key=lambda index: records[index].win_rate)
        write(options.gif, lambda path: write_gif(path, recordings[worst], progress=not options.quiet))
    for path in (options.replay, options.gif):
        if path is not None and not options.quiet:
            print(f"Wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
