"""Evaluations that can query a model on a server: their options, kept answers, and progress messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparring.agents.opponents.players import is_server
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import say
from sparring.eval.options import CONDITIONS, RESULTS, EvaluateOptions, Pairs, argument, check_suffix


@dataclass(frozen=True, kw_only=True)
class AskedModelOptions(EvaluateOptions):
    """Options of evaluations that can query a server."""

    set: Pairs = argument((), metavar="K=V", group=CONDITIONS)
    """Model or server options, such as model.compact=false."""
    transcripts: Path | None = argument(None, metavar="JSONL", group=RESULTS)
    """Write every prompt and the server's complete output to this file."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Those of `set`."""

    def check_served(self) -> None:
        """Raise `InputError` for transcripts if the player is not on a server."""
        check_suffix("--transcripts", self.transcripts, ".jsonl")
        if self.transcripts and not is_server(self.ckpt):
            raise InputError(f"--transcripts: requires --ckpt with a server address, not {self.ckpt or 'a bot'}")

    def follow(self, backend: Any, results: Path | None, conditions: Mapping[str, Any]) -> None:
        """Keep a server's answers beside the `results`, write transcripts, and report the cost while playing.

        `conditions` are the options that the prompts depend on, by name. Raises `InputError` if other answers are kept.
        """
        keep = results and results.with_name(f"{results.name.partition('.cells.')[0]}.answers.jsonl")
        kept = backend.follow(keep=keep, conditions=conditions, transcripts=self.transcripts, quiet=self.quiet)
        if keep is None:
            say("the server's answers are not kept; set --out DIR to be able to resume", enabled=not self.quiet)
        elif kept:
            say(f"{kept:,} answers are reused from {keep}", enabled=not self.quiet)
