"""Create positions for the chess tasks: `python -m sparring.envs.chess.data out=FOLDER train=20000 labelled=2000`.

Options are those of `env.data` (seed, plies, train, validation, held_out);
`engine` is `env.engine.path`; `depth`, `processes` and `cache` are as in `env.engine`. The first `labelled` positions
of each split get the engine's analysis, which trains and measures the P task. Without `engine`, Stockfish is taken if
it is installed (`apt-get install stockfish`), else the built-in search, which the summary names. Equal options and
engine give equal files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError, choose
from sparring.envs.chess.config import ChessDataConfig
from sparring.envs.chess.data.positions import SPLITS, draw_positions
from sparring.envs.chess.data.samples import StoredPositions, label, write_positions
from sparring.envs.chess.engines.engine import open_engine
from sparring.envs.chess.engines.searchers import VALUES_VERSION

BAD_INPUT = 2
USAGE = __doc__


@dataclass(frozen=True)
class DataCommand:
    """Options of the command besides those of the data."""

    out: str = ""
    engine: str = ""
    depth: int = 10
    processes: int = 1
    cache: str = ""
    labelled: int = 0
    data: ChessDataConfig = field(default_factory=ChessDataConfig)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return 0, or 2 for bad input."""
    if {"--help", "-h"} & {*arguments}:
        print(USAGE)
        return 0
    try:
        command = read_command(arguments)
        print("\n".join(make(command)))
        return 0
    except (InputError, OSError) as error:
        print(f"sparring.envs.chess.data: {error}", file=sys.stderr)
        return BAD_INPUT


def make(command: DataCommand) -> list[str]:
    """Play the games, label, and write the folder; return a summary. Raises `InputError` and `OSError`."""
    with ExitStack() as stack:
        engine = None
        if command.labelled:
            cache = Path(command.cache) if command.cache else None
            opened = open_engine(command.engine, depth=command.depth, processes=command.processes, cache=cache)
            engine = stack.enter_context(opened)
        positions = draw_positions(command.data)
        chosen = [record for split in SPLITS for record in positions[split][: command.labelled]]
        analyses = label(chosen, engine, seed=command.data.seed) if engine and chosen else []
        named = {"engine": engine.name if engine else "", "values": VALUES_VERSION, "data": asdict(command.data)}
    by_fen = {record.fen: analysis for record, analysis in zip(chosen, analyses, strict=True)}
    write_positions(Path(command.out), StoredPositions(positions, by_fen, named))
    return [*positions.summary(), f"labelled by {named['engine'] or 'no engine'}: {len(by_fen)}", command.out]


def read_command(arguments: Sequence[str]) -> DataCommand:
    """Read `key=value` arguments; raises `InputError` naming the first that is wrong."""
    values: dict[str, Any] = {}
    command = {option.name: option.type for option in fields(DataCommand) if option.name != "data"}
    data = {option.name: option for option in fields(ChessDataConfig) if option.name != "folder"}
    for text in arguments:
        key, equals, value = text.partition("=")
        choose("option", key, [*command, *data])
        values[key] = _read(key, value if equals else "", (data[key].type if key in data else command[key]))
        allowed = data[key].metadata["allowed"] if key in data else None
        if allowed and (wrong := complaint(values[key], allowed)):
            raise InputError(f"{key}={value}: {wrong}")
    if not values.get("out"):
        raise InputError("out=: name the output folder, such as out=checkpoints/chess_positions")
    if values.get("labelled", 0) < 0:
        raise InputError(f"labelled={values['labelled']}: must be at least 0")
    config = ChessDataConfig(**{key: value for key, value in values.items() if key in data})
    return DataCommand(data=config, **{key: value for key, value in values.items() if key in command})


def _read(key: str, text: str, kind: Any) -> Any:
    try:
        value = yaml.safe_load(text) if kind != "str" else text
        if kind == "int" and not isinstance(value, int):
            raise TypeError
        return {"int": int, "float": float, "str": str}[str(kind)](value)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise InputError(f"{key}={text}: must be {'an integer' if kind == 'int' else 'a number'}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
