"""Options of a command as a frozen dataclass; its command line is generated from the fields.

A field is an option: `games: int = argument(400, "[2, 1000000]", metavar="N")` is `--games N`, with the docstring below
it as help. A command line (`parse`) and a Python call (`from_keywords`) both make the dataclass. It converts and
validates its fields, so both reject the same input with the same message. Only a command line splits text: names at
commas, KEY=VALUE at the equals sign. `command_line` converts the options back to text.

Types of fields: bool (a flag), int, float, str, Path, each of these or None, `tuple[str, ...]` (several words), and
`Pairs`, words that may have a key.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path, PurePath
from textwrap import fill
from types import NoneType
from typing import Any, ClassVar, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from sparring.agents.opponents.players import display_name, find_checkpoint
from sparring.agents.run.folder import FINAL
from sparring.configs.core.allowed import Allowed, Form, complaint, field_texts
from sparring.configs.core.device import EXECUTORS, LOCAL, Executor
from sparring.configs.core.errors import (
    ConfigError,
    InputError,
    UnknownNameError,
    as_called,
    choices,
    choose,
    nearest,
    one_line,
)
from sparring.configs.core.files import unusable_text, user_path
from sparring.configs.opponents import opponent_text
from sparring.configs.schema import DEVICE
from sparring.envs.game import games

SEED = "[0, 2147483647]"
THREADS, WORKERS = "[0, 4096]", "[1, 1024]"
WIDTH = 120
HELP = ("-h", "--help")
WHO, CONDITIONS, RESULTS = "players", "conditions", "results"
MACHINE = "machine"
"""Groups of options in --help."""
Pairs = tuple[tuple[str, str], ...]
"""Keys and names; the key is empty for a name without one."""
Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels and names of groups; the label is empty if none is given."""


@dataclass(frozen=True)
class CommandText:
    """The script of a command and the texts of its --help; `env` is the game, for a command with several."""

    script: str
    description: str
    examples: str = ""
    env: str = ""
    usage: str | None = None


@dataclass(frozen=True)
class ArgumentForm:
    """Properties of an option other than its type and default."""

    allowed: Allowed | None = None
    """Allowed values; the default is always allowed."""
    metavar: str | None = None
    group: str = ""
    flags: Sequence[str] = ()
    """Its names, if they differ from the field's name."""
    noun: str = ""
    """The kind of name, for messages."""
    text: str = ""
    """Help text, used instead of the docstring."""
    split: bool = False
    """Names are separated by spaces, commas or both. At least one is required; duplicates are dropped if `unique`."""
    repeat: bool = False
    """The option is repeated for each value."""
    positional: bool = False
    nargs: str = "+"
    unique: bool = True


def argument(default: Any, allowed: Allowed | None = None, **form: Any) -> Any:
    """Declare a field as an option of a command, with its default, allowed values and the rest of `ArgumentForm`."""
    return field(default=default, metadata={"argument": ArgumentForm(allowed, **form)})


class CommandOption:
    """One option: the field of a dataclass, with its type."""

    def __init__(self, declared: Field[Any], hint: Any) -> None:
        self.name, self.default = declared.name, declared.default
        self.form: ArgumentForm = declared.metadata["argument"]
        parts = [part for part in get_args(hint) if part is not NoneType]
        self.type = parts[0] if NoneType in get_args(hint) else hint
        self.several = get_origin(self.type) is tuple
        self.pairs = self.type == Pairs
        self.groups = self.type == Groups
        self.mapping = get_origin(self.type) is Mapping
        self.flags = tuple(self.form.flags) or (f"--{self.name.replace('_', '-')}",)
        self.flag = self.name if self.form.positional else self.flags[0]
        self.names = (f"--{self.name}",) if self.form.positional else self.flags

    def converted(self, value: Any) -> Any:
        """Convert a value from a call, or text from a command line, to the field's type. Raises `InputError`."""
        if self.mapping:
            return dict(value or {})
        if value is None or value is self.default:
            return self.default
        if self.several and value is True and (self.form.nargs == "*" or self.form.positional):
            return ()  # the option without values
        if self.several:
            items = [*value.items()] if isinstance(value, Mapping) else value
            items = items if isinstance(items, list | tuple) else [items]
            read = pair_of if self.pairs else group_of if self.groups else self._text
            texts = tuple(read(item) for item in items)
            for text in _flat(texts):
                self._usable(text)
            for value in texts:
                self._check(value)
            if self.form.split and not texts:
                raise InputError(f"{self.flag} is empty: name at least one")
            return tuple(dict.fromkeys(texts)) if self.form.split and self.form.unique else texts
        return self._check(self._single(value))

    def _single(self, value: Any) -> Any:
        if self.type is bool:
            if not isinstance(value, bool):
                raise InputError(f"{self.flag} {value!r}: must be True or False")
            return value
        if self.type is Path:
            return user_path(self.flag, value if isinstance(value, PurePath) else str(value))
        if self.type is str:
            return self._text(value)
        try:
            return self.type(str(value))
        except ValueError as error:
            allowed = f", in {self.form.allowed}" if self.form.allowed else ""
            raise InputError(f"{self.flag} {str(value)!r}: must be of type {self.type.__name__}{allowed}") from error

    def _text(self, value: Any) -> str:
        return self._usable(text_of(value))

    def _usable(self, text: str) -> str:
        if wrong := unusable_text(text):
            raise ConfigError(f"{self.flag}={text!r}: {wrong}")
        return text

    def _check(self, value: Any) -> Any:
        """Return `value` if it is allowed; raise `InputError` if it is not."""
        allowed = self.form.allowed
        if allowed is None:
            return value
        if isinstance(allowed, tuple):
            return choose(self.form.noun or self.flag, value, allowed)
        if wrong := complaint(value, allowed):
            raise InputError(f"{self.flag} {repr(value) if isinstance(allowed, Form) else value}: {wrong}")
        return value

    def words(self, value: Any) -> list[str]:
        """Return the command-line words that set the option to this value; empty for its default."""
        if value == self.default:
            return []
        if self.type is bool:
            return [self.flag]
        if self.mapping:
            from sparring.configs.overrides import override_texts

            return override_texts(value)
        if self.pairs:
            texts = [f"{key}={_lasting(name)}" if key else _lasting(name) for key, name in value]
        elif self.groups:
            texts = ["=".join(filter(None, [label, ",".join(names)])) for label, names in value]
        else:
            texts = [_lasting(str(item)) for item in (value if self.several else [value])]
        if self.form.positional:
            return texts
        if self.several and not self.form.repeat:
            return [self.flag, *texts]
        return [word for text in texts for word in ([f"{self.flag}={text}"] if text[:1] == "-" else [self.flag, text])]

    def add(self, parser: argparse._ActionsContainer, text: str) -> None:
        """Add the option to a command-line parser, which omits it if it is not set; `text` is its help."""
        text, form = (self.form.text or text).rstrip("."), self.form
        if self.default not in (None, "", (), False, MISSING) and "default" not in text:
            default = " ".join(self.default) if self.several and not self.pairs else self.default
            text = f"{text} (default: {default})"
        settings: dict[str, Any] = {"help": text.replace("%", "%%")}
        if form.positional:
            parser.add_argument(self.name, nargs="*", metavar=form.metavar, default=argparse.SUPPRESS, **settings)
            return
        settings |= {"dest": self.name, "default": argparse.SUPPRESS}
        if self.type is bool:
            parser.add_argument(*self.flags, action="store_true", **settings)
            return
        if self.several:
            settings |= {"action": "append"} if form.repeat else {"nargs": form.nargs}
        parser.add_argument(*self.flags, metavar=form.metavar, **settings)


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Options of a command, converted and validated; players and files have not been located yet."""

    TEXT: ClassVar[CommandText]
    ABSENT: ClassVar[Mapping[str, str]] = {}
    """Why options of other games do not exist here, and what to use instead."""
    command: str = ""
    """The command line that sets these options."""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            object.__setattr__(self, option.name, option.converted(getattr(self, option.name)))
        object.__setattr__(self, "command", self.command or command_line(self))
        for name, value in self.implied().items():
            object.__setattr__(self, name, value)
        self.check()

    def implied(self) -> dict[str, Any]:
        """Return values that depend on other fields, such as a default; the command line does not show them."""
        return {}

    def check(self) -> None:
        """Raise `InputError` for options that conflict."""

    @classmethod
    def from_words(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Convert the values of a command line to values of fields."""
        return values

    def gives(self, name: str) -> bool:
        """Return whether the option `name` differs from its default."""
        return bool(getattr(self, name) != getattr(type(self), name))

    def require_given(self, name: str, what: str) -> None:
        """Raise an `InputError` that asks for `what` if the option `name` is empty."""
        if not getattr(self, name):
            raise InputError(f"--{name} is missing: {what}")


@dataclass(frozen=True, kw_only=True)
class TaskOptions(CommandOptions):
    """Options of a command that runs independent tasks (`agents/distributed/tasks.py`)."""

    executor: str = argument(LOCAL, EXECUTORS, metavar="E", group=MACHINE)
    """Where tasks run: local, or ray, a cluster whose nodes share the results folder."""
    address: str = argument("auto", metavar="A", group=MACHINE, flags=["--executor-address"])
    """Address of the Ray cluster; auto is this machine's."""
    workers: int = argument(1, WORKERS, metavar="N", group=MACHINE)
    """Number of parallel tasks on this machine, each in its own process."""

    @property
    def runner(self) -> Executor:
        """Where the tasks run."""
        threads = vars(self)["threads"]  # an option of every such command, with its own place in --help
        return Executor(self.executor, self.address, self.workers, threads)


@dataclass(frozen=True, kw_only=True)
class PlayerOptions(CommandOptions):
    """Options of a command that plays matches."""

    ckpt: str = argument("", metavar="C", group=WHO)
    """A path, a run's name, or final.pt (the newest run's)."""
    seed: int = argument(0, SEED, metavar="N", group=CONDITIONS)
    """Seed of the matches (default: 0)."""
    device: str = argument("auto", DEVICE, metavar="D", group=CONDITIONS)
    """Device of the policies: auto, cpu, cuda, cuda:1 and so on."""
    threads: int = argument(0, THREADS, metavar="N", group=CONDITIONS)
    """CPU threads (default: 0, all cores)."""
    out: Path | None = argument(None, metavar="DIR", group=RESULTS)  # noqa: RUF009 - it is `field`
    """Write the results to this folder."""
    quiet: bool = argument(False, group=RESULTS)
    """Print only failures, without a bar or table."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(PlayerOptions):
    """Options of `eval/run.py` in every game."""

    env: str = argument("", metavar="ENV")
    """The game (default: the game of --ckpt): dogfight, diplomacy, chess, air_combat, openspiel_text (kuhn_text and
    leduc_text are two of its games), gymnasium, pettingzoo, openspiel."""


Given = TypeVar("Given", bound=CommandOptions)


class _Parser(argparse.ArgumentParser):
    """Command-line parser that raises a one-line `InputError`, without the usage."""

    def __init__(self, kind: type[CommandOptions], *, helps: bool = False) -> None:
        text, owners = kind.TEXT, [*reversed(kind.__mro__)] if helps else []
        texts = {name: meaning for owner in owners for name, meaning in field_texts(owner).items()}
        super().__init__(
            prog=f"python {text.script} --env {text.env}" if text.env else f"python {text.script}",
            usage=text.usage,
            description=fill(text.description, WIDTH),
            epilog=text.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        groups: dict[str, argparse._ActionsContainer] = {"": self}
        for option in options_of(kind):
            group = option.form.group
            if group not in groups:
                groups[group] = self.add_argument_group(group)
            option.add(groups[group], texts.get(option.name, ""))

    def format_help(self) -> str:
        """Return the help, with commands as the user calls them."""
        return as_called(super().format_help())

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and exiting."""
        raise InputError(f"{message}; --help lists the options")


def options_of(kind: type[CommandOptions]) -> tuple[CommandOption, ...]:
    """Return the options of a command, group by group in the order of their first fields."""
    hints = get_type_hints(kind)
    options = [CommandOption(entry, hints[entry.name]) for entry in fields(kind) if entry.metadata]
    groups = list(dict.fromkeys(["", *(option.form.group for option in options)]))
    return tuple(sorted(options, key=lambda option: groups.index(option.form.group)))


def parse(kind: type[Given], words: Sequence[str]) -> Given:
    """Parse the options of a command line. Raises a one-line `InputError`; exits after --help."""
    parser = _Parser(kind, helps=bool({*HELP} & {*words}))
    values, unknown = parser.parse_known_intermixed_args(words)
    for text in unknown:
        if text.startswith("-"):
            _refuse(text.partition("=")[0], kind)
        parser.error(f"unexpected {text!r}: add its option, as in --ckpt {text}")
    return kind(**kind.from_words(_split(kind, vars(values))))


def parse_known(kind: type[Given], words: Sequence[str]) -> Given:
    """Parse only these options of a command line; it may contain others, and --help."""
    values, _ = _Parser(kind).parse_known_args([word for word in words if word not in HELP])
    return kind(**_split(kind, vars(values)))


def _split(kind: type[CommandOptions], values: dict[str, Any]) -> dict[str, Any]:
    names = {option.name for option in options_of(kind) if option.form.split}
    return {name: split_names(value) if name in names else value for name, value in values.items()}


def from_keywords(kind: type[Given], keywords: Mapping[str, Any]) -> Given:
    """Return the options of a Python call. Drops None, and False for non-flags. Raises `InputError`."""
    by_flag = {flag: option for option in options_of(kind) for flag in option.names}
    values = {}
    for key, value in keywords.items():
        if value is None or value is False:
            continue
        option = by_flag.get(f"--{key.rstrip('_').replace('_', '-')}")
        if option is None:
            _refuse(f"--{key.replace('_', '-')}", kind)
        values[option.name] = value
    return kind(**values)


def command_line(options: CommandOptions) -> str:
    """Return the command with these options; a run's name replaces a path such as final.pt, whose meaning changes."""
    words = [word for option in options_of(type(options)) for word in option.words(getattr(options, option.name))]
    return f"{as_called(f'python {options.TEXT.script}')} {shlex.join(words)}".strip()


def split_names(words: Iterable[str]) -> list[str]:
    """Split the words of a command line at commas into names.

    A player keeps its options, as in search:seconds=1,seed=2.
    """
    names: list[str] = []
    keys = {player.kind: player.keys for game in games() for player in game.built_players}
    for part in (part.strip() for word in words for part in word.split(",")):
        kind = names[-1].partition(":")[0].rpartition("=")[2] if names else ""
        if part.partition("=")[0] in keys.get(kind, ()):
            names[-1] = f"{names[-1]},{part}"
        elif part:
            names.append(part)
    return names


def check_number(option: str, value: float, allowed: str) -> None:
    """Raise `InputError` unless `value` lies in the interval `allowed`."""
    if wrong := complaint(value, allowed):
        raise InputError(f"{option} {value}: {wrong}")


def check_suffix(option: str, path: Path | None, *suffixes: str, hint: str = "") -> None:
    """Raise `InputError` if the path of an option is set and does not end in one of `suffixes`."""
    if path is not None and path.suffix.lower() not in suffixes:
        raise InputError(f"{option} {str(path)!r}: must end in {' or '.join(suffixes)}{hint}")


def check_page(path: Path | None, instead: str = "", *, option: str = "--replay") -> None:
    """Raise `InputError` if the path of `option` is set and does not end in .html; `instead` names alternatives."""
    if path is not None and path.suffix.lower() not in (".html", ".htm") and not path.is_dir():
        raise InputError(f"{option} {str(path)!r}: must end in .html, since it is a page for a browser{instead}")


def pair_of(item: Any) -> tuple[str, str]:
    """Return the key and the name of KEY=NAME or of a mapping's item; only text may contain a key."""
    if isinstance(item, tuple):
        key, value = item
        return str(key), text_of(value)
    key, equals, name = item.partition("=") if isinstance(item, str) else ("", "", text_of(item))
    return (key, name) if equals and ":" not in key else ("", item if isinstance(item, str) else name)


def group_of(item: Any) -> tuple[str, tuple[str, ...]]:
    """Return the label and the names of a group, or of an item that is one name."""
    if not isinstance(item, tuple):
        return "", (text_of(item),)
    label, names = item
    if isinstance(names, str | PurePath):
        raise InputError(f"{label}: {str(names)!r} is one name; pass a list, [{str(names)!r}]")
    return one_line(str(label)), tuple(map(text_of, names))


def text_of(value: Any) -> str:
    """Return the text that names a call's value. A Python object is registered; a path is never read as an option."""
    text = opponent_text(value)
    is_path = isinstance(value, PurePath) or text == str(getattr(value, "path", None))
    return f"./{text}" if is_path and (text.startswith("-") or (":" in text and "/" not in text)) else text


def _flat(texts: Any) -> Iterator[str]:
    """Yield every text in nested tuples."""
    for item in texts:
        yield from [item] if isinstance(item, str) else _flat(item)


def _refuse(name: str, kind: type[CommandOptions]) -> NoReturn:
    """Raise for an unknown option. With several games the message names the game: the option may belong to another.

    The search for near names ignores the dashes, which all options share.
    """
    if name in kind.ABSENT:
        raise InputError(f"{name}: {kind.ABSENT[name]}")
    flags = [*HELP, *(flag for option in options_of(kind) if not option.form.positional for flag in option.flags)]
    near = nearest(name.lstrip("-"), [flag.lstrip("-") for flag in flags])
    hint = f"--{near}" if near and f"--{near}" in flags else ""
    game = kind.TEXT.env
    other = f"; these are the options of {game}, --env selects another game" if game else ""
    raise UnknownNameError(f"unknown option {name!r}: {choices(name, flags, near=hint)}{other}")


def _lasting(name: str) -> str:
    """Return a name for the stored command; a run's name replaces a path whose meaning changes, such as final.pt."""
    if Path(name).name != FINAL:
        return name
    try:
        return display_name(find_checkpoint(name))
    except InputError:
        return name  # rejected where it is used
