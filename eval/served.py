"""Evaluations that can ask a model on a server, in any game: their options, and what is kept and said meanwhile."""

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
    """Options of evaluations that can ask a server."""

    set: Pairs = argument((), metavar="K=V", group=CONDITIONS)
    """Options of a model or server: model.compact=false."""
    transcripts: Path | None = argument(None, metavar="JSONL", group=RESULTS)
    """Write every prompt to a server there, and all that it writes."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Those of `set`."""

    def check_served(self) -> None:
        """Raise `InputError` for transcripts of a player that is not on a server."""
        check_suffix("--transcripts", self.transcripts, ".jsonl")
        if self.transcripts and not is_server(self.ckpt):
            raise InputError(f"--transcripts: is for --ckpt with a server's address, not {self.ckpt or 'a bot'}")

    def follow(self, backend: Any, results: Path | None, conditions: Mapping[str, Any]) -> None:
        """Keep a server's answers beside the `results`, write transcripts, and say what is spent while it is.

        `conditions` are the options that the prompts depend on, by name. Raises `InputError` if other answers are kept.
        """
        keep = results and results.with_name(f"{results.name.partition('.cells.')[0]}.answers.jsonl")
        kept = backend.follow(keep=keep, conditions=conditions, transcripts=self.transcripts, quiet=self.quiet)
        if keep is None:
            say("answers of the server are not kept; give --out DIR to resume later", enabled=not self.quiet)
        elif kept:
            say(f"{kept:,} answers are taken from {keep} and not asked for again", enabled=not self.quiet)
