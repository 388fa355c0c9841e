"""Export a checkpoint's deterministic policy to ONNX: `python eval/export.py --ckpt final.pt --out agent.onnx`.

`onnx_model.py` documents inputs and outputs. Models above 250,000 parameters or 10 MB, or whose outputs differ from
torch, are rejected. Needs onnx and onnxruntime: pip install -e ".[export]". Exit codes: 0 done, 2 bad input
or a package missing (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/export.py")

from sparring.agents.opponents.players import find_checkpoint
from sparring.agents.opponents.suggestions import BOT_PREFIX, check_game
from sparring.configs.core.errors import InputError
from sparring.envs.dogfight import GAME
from sparring.eval.command import run_command
from sparring.eval.parser import Parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/export.py", _run, arguments)


def _run(arguments: Sequence[str]) -> int:
    checkpoint, out = _read(arguments)
    from sparring.agents.opponents.dogfight.onnx_file import read_onnx
    from sparring.agents.policies.checkpoint import load_checkpoint
    from sparring.eval.onnx_export.onnx_model import export

    policy, path = load_checkpoint(checkpoint), out or checkpoint.with_suffix(".onnx")
    difference = export(policy, path)
    written = read_onnx(path)
    size = f"{written.parameters:,} parameters, {written.size:,} bytes"
    print(f"Wrote {path}: float32[1, {policy.network.obs_dim}] -> float32[1, 3], {size}")
    print(f"Largest difference from torch on random observations: {difference:.2g}")
    return 0


def _read(arguments: Sequence[str]) -> tuple[Path, Path | None]:
    """Return the checkpoint's path and the output path. Raises `InputError`."""
    parser = Parser("eval/export.py", "Export a policy to ONNX.")
    parser.add_argument("--ckpt", metavar="C", help="a path, a run's name, or final.pt (the newest run's)")
    parser.add_argument("--out", type=Path, metavar="ONNX", help="default: beside the checkpoint, ending in .onnx")
    values = parser.read(arguments)
    if not values["ckpt"]:
        raise InputError("--ckpt is missing: give a path, a run's name, or final.pt for the newest run")
    if values["ckpt"].startswith(BOT_PREFIX):
        raise InputError(f"--ckpt {values['ckpt']}: a bot has no network to export; give a checkpoint")
    checkpoint = find_checkpoint(values["ckpt"], GAME)
    check_game(GAME, checkpoint)
    return checkpoint, values["out"]


if __name__ == "__main__":
    sys.exit(main())
