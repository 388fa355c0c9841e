"""Export a checkpoint's deterministic policy to ONNX: `python eval/export.py --ckpt final.pt --out agent.onnx`.

`dogfight/onnx_export.py` and `diplomacy/order_export.py` document inputs and outputs. Models whose outputs differ from
torch are rejected, as are dogfight models above 250,000 parameters or 10 MB. Needs onnx and onnxruntime: `sparring
install export`. Exit codes: 0 done, 2 bad input or a package missing (one line on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/export.py")

from sparring.agents.opponents.players import BOT_PREFIX, find_checkpoint, trains_language_model
from sparring.configs.core.errors import InputError
from sparring.envs.game import load
from sparring.eval.command import run_command
from sparring.eval.options import CommandOptions, CommandText, argument, parse

ONE, FREE = "1", "free"


@dataclass(frozen=True)
class ExportedPolicy:
    """A written ONNX file: its batch and columns, size in weights and bytes, and difference from torch."""

    path: Path
    batch: str
    observations: int
    actions: int
    memory: int
    parameters: int
    size: int
    difference: float


@dataclass(frozen=True, kw_only=True)
class ExportOptions(CommandOptions):
    """Options of the command; the checkpoint has not been located yet."""

    TEXT = CommandText("eval/export.py", "Export a policy to ONNX.")
    ckpt: str = argument("", metavar="C")
    """A path, a run's name, or final.pt (the newest run's)."""
    out: Path | None = argument(None, metavar="ONNX")
    """The output file (default: beside the checkpoint, ending in .onnx)."""
    batch: str | None = argument(None, (ONE, FREE), metavar=f"{ONE}|{FREE}")
    """Batch size: free, or 1 as the public challenge requires (default: 1 under challenge rules)."""

    def check(self) -> None:
        """Raise `InputError` for a player without a network."""
        self.require_given("ckpt", "pass a path, a run's name, or final.pt for the newest run")
        if self.ckpt.startswith(BOT_PREFIX):
            raise InputError(f"--ckpt {self.ckpt}: a bot has no network to export; pass a checkpoint")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/export.py", _run, arguments)


def export_policy(options: ExportOptions) -> ExportedPolicy:
    """Export a policy. Raises `InputError` for bad input or a policy that cannot be exported."""
    checkpoint = find_checkpoint(options.ckpt)
    _check_trainer(checkpoint)
    from sparring.agents.opponents.onnx_file import export_package, parameter_count
    from sparring.agents.policies.checkpoint import game_of_policy, load_checkpoint
    from sparring.eval.onnx_export.seat_model import export_seats

    policy, path = load_checkpoint(checkpoint), options.out or checkpoint.with_suffix(".onnx")
    if styles := policy.network.shape.get("styles", 0):
        why = f"draws one of {styles} styles for every match, which an ONNX model cannot"
        raise InputError(f"{checkpoint}: {why}; name one of them, such as {checkpoint.parent}/styles/style_0.pt")
    batch = options.batch or (ONE if policy.contract.get("rules") == "challenge" else FREE)
    game = game_of_policy(policy.contract)
    export = load(game.export) if game and game.export else export_seats
    difference = export(policy, path, free=batch == FREE)
    data, network = path.read_bytes(), policy.network
    parameters = parameter_count(export_package("onnx").load_model_from_string(data))
    memory = getattr(network, "memory_size", 0) // 2
    sizes = network.obs_dim, network.action_size, memory
    return ExportedPolicy(path, batch, *sizes, parameters, len(data), difference)


def _check_trainer(checkpoint: Path) -> None:
    """Raise `InputError` before torch loads if the run's policy cannot be exported."""
    if trains_language_model(checkpoint.parent / "config.yaml"):
        raise InputError(f"{checkpoint}: a language model cannot be exported to ONNX; name a run of trainer=ppo")


def _run(arguments: Sequence[str]) -> int:
    done = export_policy(parse(ExportOptions, arguments))
    size = f"{done.parameters:,} parameters, {done.size:,} bytes"
    batch = "N" if done.batch == FREE else ONE
    print(f"Wrote {done.path}: float32[{batch}, {done.observations}] -> float32[{batch}, {done.actions}], {size}")
    if done.memory:
        print(f"Its memory, float32[{batch}, {done.memory}], is an input and an output; zeros begin an episode")
    print(f"Largest difference from torch on random observations: {done.difference:.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
