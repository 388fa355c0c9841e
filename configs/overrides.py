"""One option as text, `key=value` in Hydra's grammar: parsing and formatting.

The grammar guesses types from the spelling: 2_0 would be the number 20. Values of text options stay as typed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import ConfigError, require_package
from sparring.configs.kinds import bare
from sparring.configs.opponents import opponent_text
from sparring.configs.serialization import text_keys, with_texts

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

LONGEST_OVERRIDE = 4000
PLAIN_TEXT = re.compile(r"[\w./:@%+-]*")
"""Texts that do not need quotes on the command line."""


@cache
def _typed_texts() -> Any:
    """Return a visitor that keeps numbers, Booleans and null of an override as the typed text."""
    from hydra.core.override_parser.overrides_parser import create_functions
    from hydra.core.override_parser.overrides_visitor import HydraOverrideVisitor
    from hydra.core.override_parser.types import QuotedString

    class TypedTexts(HydraOverrideVisitor):  # type: ignore[misc]
        def visitPrimitive(self, ctx: Any) -> Any:  # noqa: N802
            value = super().visitPrimitive(ctx)
            return value if isinstance(value, str | QuotedString) else ctx.getText().strip()

    return TypedTexts(create_functions())


def _read_as_typed(text: str) -> Override:
    """Parse `text` with every primitive value as a text."""
    from hydra.grammar.gen.OverrideLexer import (  # type: ignore[attr-defined]
        CommonTokenStream,
        InputStream,
        OverrideLexer,
    )
    from hydra.grammar.gen.OverrideParser import OverrideParser

    parser = OverrideParser(CommonTokenStream(OverrideLexer(InputStream(text))))
    override: Override = _typed_texts().visit(parser.override())
    return override


def parse_override(text: str) -> Override:
    """Parse `key=value` or `key=value,value` in Hydra's grammar, values of text options as they are typed.

    Raises `ConfigError` for other text, and `MissingPackageError` without Hydra.
    """
    require_package("hydra", "train")
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if len(text) > LONGEST_OVERRIDE:
        raise ConfigError(f"{text[:40]!r}...: exceeds {LONGEST_OVERRIDE} characters; write a run file")
    try:
        override = OverridesParser.create().parse_override(text)
        if bare(override.key_or_group) in text_keys() or "[" in text or "{" in text:
            _keep_texts(override, _read_as_typed(text))
    except (HydraException, ValueError, RecursionError) as error:
        quoting = "; quote a value that contains =, as in 'key=\"a=b\"'" if text.count("=") > 1 else ""
        raise ConfigError(
            f"{text!r} cannot be read: write key=value, such as seed=3 or ppo.clip=0.1{quoting}"
        ) from error
    return override


def _keep_texts(override: Override, typed: Override) -> None:
    """Give text options of `override` the texts of `typed`, and quote them in its `input_line`."""
    key = bare(override.key_or_group)
    if override.is_sweep_override():
        if key in text_keys():
            override._value = typed._value
        return
    value = override.value()
    restored = with_texts(value, typed.value(), key)
    if restored != value:
        override._value, override.input_line = restored, f"{override.key_or_group}={as_override(restored, quoted=True)}"


def override_texts(options: Mapping[str, Any]) -> list[str]:
    """Return options by key as texts `key=value`. Raises `ConfigError` for None where a text belongs."""
    for key, value in options.items():
        if value is None and bare(key) in text_keys():
            raise ConfigError(f"{key}=None: must be text; omit it for the default")
    return [f"{key}={as_override(value)}" for key, value in options.items()]


def as_override(value: object, *, quoted: bool = False) -> str:
    """Format a value for the command line: null, true, 3, [a,b], {key:value}, or text.

    With `quoted`, every text is in quotes and always read as text.
    """
    if value is None or isinstance(value, bool):
        return str({None: "null", True: "true", False: "false"}[value])
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{as_override(item, quoted=quoted)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(as_override(item, quoted=quoted) for item in value)}]"
    text = opponent_text(value)
    is_text = isinstance(value, str | PurePath) or text != str(value)
    if not is_text or (PLAIN_TEXT.fullmatch(text) and not quoted):
        return text
    escaped = re.sub(r"(\\*)'", r"\1\1\'", text)  # Hydra: in quotes only those before a quote are escaped
    ending = re.search(r"\\*$", text)
    return f"'{escaped}{ending.group() if ending else ''}'"


def nested_texts(options: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return nested options as texts `key=value` for `load`; dotted keys may be used at any depth."""
    texts: list[str] = []
    for key, value in options.items():
        if isinstance(value, dict):
            texts += nested_texts(value, f"{prefix}{key}.")
        else:
            texts.append(f"{prefix}{key}={as_override(value, quoted=True)}")
    return texts
