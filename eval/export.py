"""Export a checkpoint's deterministic policy to ONNX: `python eval/export.py --ckpt final.pt --out agent.onnx`.

`onnx_model.py` documents inputs and outputs. Models above 250,000 parameters or 10 MB, or whose outputs differ from
torch, are rejected. Needs onnx and onnxruntime: pip install -e ".[export]". Exit codes: 0 done, 2 bad input
or a package missing (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/export.py")

from sparring.agents.opponents.players import BOT_PREFIX, check_game, find_checkpoint
from sparring.configs.core.errors import InputError, choose
from sparring.envs.dogfight import GAME
from sparring.eval.command import run_command
from sparring.eval.parser import Parser

ONE, FREE = "1", "free"


@dataclass(frozen=True)
class ExportedPolicy:
    """A written ONNX file: its batch and observations, size in weights and bytes, and difference from torch."""

    path: Path
    batch: str
    observations: int
    parameters: int
    size: int
    difference: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/export.py", _run, arguments)


def export_policy(arguments: Sequence[str]) -> ExportedPolicy:
    """Write the policy that a command line names. Raises `InputError` for bad input, or one that cannot be exported."""
    checkpoint, out, batch = _read(arguments)
    from sparring.agents.opponents.dogfight.onnx_file import read_onnx
    from sparring.agents.policies.checkpoint import load_checkpoint
    from sparring.eval.onnx_export.onnx_model import export

    policy, path = load_checkpoint(checkpoint), out or checkpoint.with_suffix(".onnx")
    batch = batch or (ONE if policy.contract["rules"] == "challenge" else FREE)
    difference = export(policy, path, free=batch == FREE)
    written = read_onnx(path)
    return ExportedPolicy(path, batch, policy.network.obs_dim, written.parameters, written.size, difference)


def _run(arguments: Sequence[str]) -> int:
    done = export_policy(arguments)
    size = f"{done.parameters:,} parameters, {done.size:,} bytes"
    batch = "N" if done.batch == FREE else ONE
    print(f"Wrote {done.path}: float32[{batch}, {done.observations}] -> float32[{batch}, 3], {size}")
    print(f"Largest difference from torch on random observations: {done.difference:.2g}")
    return 0


def _read(arguments: Sequence[str]) -> tuple[Path, Path | None, str | None]:
    """Return the checkpoint's path, the output path and the batch. Raises `InputError`."""
    parser = Parser("eval/export.py", "Export a policy to ONNX.")
    parser.add_argument("--ckpt", metavar="C", help="a path, a run's name, or final.pt (the newest run's)")
    parser.add_argument("--out", type=Path, metavar="ONNX", help="default: beside the checkpoint, ending in .onnx")
    help_text = "observations at once: free, or 1 as the public challenge asks (default: 1 under challenge rules)"
    parser.add_argument("--batch", metavar=f"{ONE}|{FREE}", help=help_text)
    values = parser.read(arguments)
    if values["batch"] is not None:
        choose("--batch", values["batch"], (ONE, FREE))
    if not values["ckpt"]:
        raise InputError("--ckpt is missing: give a path, a run's name, or final.pt for the newest run")
    if values["ckpt"].startswith(BOT_PREFIX):
        raise InputError(f"--ckpt {values['ckpt']}: a bot has no network to export; give a checkpoint")
    checkpoint = find_checkpoint(values["ckpt"], GAME)
    check_game(GAME, checkpoint)
    return checkpoint, values["out"], values["batch"]


if __name__ == "__main__":
    sys.exit(main())
